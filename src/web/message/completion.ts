// Completion of names after an @: members of the room, and @all.
import type { RefObject, VNode } from "preact";
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "../core/api.ts";
import { classes, html } from "../core/html.ts";
import { addPeople } from "../core/people.ts";
import type { Member, Page, Person, Room } from "../core/resources.ts";
import { readCommands } from "./commands.ts";
import { Avatar } from "../part/avatar.ts";

type Choice = { id: string; handle: string; name: string };
type Open = { choices: readonly Choice[]; at: number; pick: (choice: Choice) => void };

const SHOWN_MAX = 6;
const MEMBERS_MAX = 200;
const TYPED = /(?:^|\s)@([\p{L}\p{N}._-]{0,40})$/u;

/** The list that is open; one at a time. */
const open = signal<Open | undefined>(undefined);
const choicesOf = new Map<string, Promise<Choice[]>>();

export function Completion({ room, text, box, onPick }: {
  room: Room;
  text: string;
  box: RefObject<HTMLTextAreaElement>;
  onPick: (text: string) => void;
}): VNode | null {
  useEffect(() => {
    const caret = box.current?.selectionStart ?? text.length;
    if (/^\/[a-z0-9_-]{0,40}$/.test(text)) return offerCommands(room.id, text.slice(1), onPick);
    const typed = TYPED.exec(text.slice(Math.max(0, caret - 60), caret))?.[1]?.toLowerCase();
    if (typed === undefined) return void (open.value = undefined);
    let isCurrent = true;
    const pick = ({ handle }: Choice): void => {
      const start = caret - typed.length;
      onPick(`${text.slice(0, start)}${handle} ${text.slice(caret)}`);
      open.value = undefined;
      box.current?.focus();
    };
    const read = room.memberCount > MEMBERS_MAX && typed !== "" ? findPeople(typed) : readChoices(room.id);
    // Without a list of members nothing is offered.
    read.catch(() => []).then((all) => {
      const choices = all.filter(({ handle, name }) =>
        handle.toLowerCase().startsWith(typed) || ` ${name.toLowerCase()}`.includes(` ${typed}`)
      ).slice(0, SHOWN_MAX);
      if (isCurrent) open.value = choices.length === 0 ? undefined : { choices, at: 0, pick };
    });
    return () => {
      isCurrent = false;
      open.value = undefined;
    };
  }, [text, room.id]);
  const shown = open.value;
  if (shown === undefined || document.activeElement !== box.current) return null;
  return html`
    <ul class="completion" role="listbox" aria-label="People">${shown.choices.map((choice, at) =>
      html`
        <li role="option" key=${choice.id} aria-selected=${at === shown.at} class=${classes(
          at === shown.at && "current",
        )}
          onMouseDown=${(event: Event) => {
            event.preventDefault();
            shown.pick(choice);
          }}>${choice.id === "" ? null : html`<${Avatar} id=${choice.id} isSmall />`}<b>${choice
            .name}</b> <span class="dim">${choice.handle.startsWith("/")
            ? choice.handle
            : `@${choice.handle}`}</span></li>
      `
    )}</ul>
  `;
}

/** Offers the commands whose name begins like what is typed; returns what closes the list. */
function offerCommands(roomId: string, typed: string, onPick: (text: string) => void): () => void {
  let isCurrent = true;
  const pick = ({ handle }: Choice): void => {
    onPick(`${handle} `);
    open.value = undefined;
  };
  void readCommands(roomId).then((commands) => {
    const choices = commands.filter(({ name }) => name.startsWith(typed)).slice(0, SHOWN_MAX)
      .map(({ name, description }) => ({ id: "", handle: `/${name}`, name: description }));
    if (isCurrent) open.value = choices.length === 0 ? undefined : { choices, at: 0, pick };
  });
  return () => {
    isCurrent = false;
    open.value = undefined;
  };
}

/** Handles a key for the open list; returns whether it did. */
export function completionKey(event: KeyboardEvent): boolean {
  const shown = open.value;
  if (shown === undefined) return false;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const choice = shown.choices[shown.at];
  if (step !== undefined) {
    open.value = { ...shown, at: (shown.at + step + shown.choices.length) % shown.choices.length };
  } else if (event.key === "Escape") open.value = undefined;
  else if ((event.key === "Enter" || event.key === "Tab") && choice !== undefined) shown.pick(choice);
  else return false;
  event.preventDefault();
  event.stopPropagation();
  return true;
}

function readChoices(roomId: string): Promise<Choice[]> {
  const known = choicesOf.get(roomId);
  if (known !== undefined) return known;
  const read = readMembers(roomId);
  choicesOf.set(roomId, read);
  // Members change; a minute later they are read again.
  setTimeout(() => choicesOf.delete(roomId), 60_000);
  return read;
}

/** In a large room everybody is searched, since not all members have been read. */
async function findPeople(q: string): Promise<Choice[]> {
  const { items } = await get<Page<Person>>("v1/collaboration/principals", { q, limit: SHOWN_MAX });
  addPeople(items);
  return choicesAmong(items);
}

/** Those who read what mentions them: not hooks, plugins and other services. */
function choicesAmong(people: readonly Person[]): Choice[] {
  return people.filter(({ kind }) => kind !== "service")
    .map(({ id, handle, displayName }) => ({ id, handle: handle ?? id, name: displayName }));
}

async function readMembers(roomId: string): Promise<Choice[]> {
  const { items } = await get<Page<Member>>(`v1/rooms/${roomId}/members`, { limit: MEMBERS_MAX });
  const ids = items.map(({ principalId }) => principalId);
  const choices: Choice[] = [];
  for (let at = 0; at < ids.length; at += 100) {
    const page = await get<Page<Person>>("v1/collaboration/principals", { ids: ids.slice(at, at + 100), limit: 100 });
    addPeople(page.items);
    choices.push(...choicesAmong(page.items));
  }
  return [...choices, { id: "", handle: "all", name: "Everybody in this room" }];
}
