// Completion of what is typed: names after an @ (members of the room, groups, and @all), rooms after a #, emoji after a colon,
// commands after a slash.
import type { RefObject, VNode } from "preact";
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { addressOf, get } from "../core/api.ts";
import { classes, html } from "../core/html.ts";
import { addPeople, readPeople } from "../core/people.ts";
import type { Group, Member, Page, Person, Room } from "../core/resources.ts";
import { readCommands } from "./commands.ts";
import { Avatar } from "../part/avatar.ts";
import { hrefOf } from "../core/route.ts";
import { roomList } from "../room/rooms.ts";
import { replaceText } from "./format_keys.ts";
import { isWithinWord } from "./markdown.ts";

/** `text` is what is written, and shown unless there is a hint; `id` is a principal with a picture. */
type Choice = { id: string; text: string; name: string; hint?: string };
type Open = { choices: readonly Choice[]; at: number; pick: (choice: Choice) => void };

const SHOWN_MAX = 6;
const LIST_ID = "suggestions";
const MEMBERS_MAX = 200;
const TYPED = /@([\p{L}\p{N}._-]{0,40})$/u;
const TYPED_EMOJI = /(?:^|\s):([a-z0-9_+-]{2,40})(:?)$/;

/** Not the mark of a heading. */
const TYPED_ROOM = /(?:^|\s)#([\p{L}\p{N}][\p{L}\p{N}._-]{0,40})$/u;

/** The list that is open; one at a time. */
const open = signal<Open | undefined>(undefined);
const choicesOf = new Map<string, Promise<Choice[]>>();

export function Completion({ room, text, box, onPick }: {
  room: Room;
  text: string;
  box: RefObject<HTMLTextAreaElement>;
  onPick: (text: string) => void;
}): VNode | null {
  // Before the next key: what is typed quickly must meet the list that belongs to it.
  useLayoutEffect(() => {
    const caret = box.current?.selectionStart ?? text.length;
    if (/^\/[a-z0-9_-]{0,40}$/.test(text)) return offer(readCommandChoices(room.id, text.slice(1)), 0);
    const before = text.slice(Math.max(0, caret - 60), caret);
    const [, emoji, colon] = TYPED_EMOJI.exec(before) ?? [];
    if (emoji !== undefined) {
      const start = caret - emoji.length - 1 - (colon?.length ?? 0);
      return offer(emojiChoices(emoji), start, colon === ":" ? emoji : undefined);
    }
    const roomPart = TYPED_ROOM.exec(before)?.[1];
    if (roomPart !== undefined) {
      return offer(Promise.resolve(roomChoices(roomPart.toLowerCase())), caret - roomPart.length - 1);
    }
    const typed = TYPED.exec(before)?.[1]?.toLowerCase();
    if (typed === undefined || isWithinWord(before, before.length - typed.length - 1)) {
      return void (open.value = undefined);
    }
    const read = room.memberCount > MEMBERS_MAX && typed !== "" ? findPeople(typed) : readChoices(room.id);
    const named = read.then((all) =>
      all.filter(({ text, name }) =>
        text.slice(1).toLowerCase().startsWith(typed) || ` ${name.toLowerCase()}`.includes(` ${typed}`)
      )
    );
    return offer(named, caret - typed.length - 1);

    /** Writes a choice instead of what was typed from here on. */
    function put(choice: Choice, start: number): void {
      const { current } = box;
      if (current === null) return;
      // In the field itself: a new value would move the cursor to the end.
      replaceText(current, `${choice.text} `, start, caret);
      onPick(current.value);
    }

    /** Offers these choices for what was typed from here on, or takes the one that is named; returns what closes the list. */
    function offer(read: Promise<Choice[]>, start: number, named?: string): () => void {
      let isCurrent = true;
      const close = (): void => void (open.value = undefined);
      const pick = (choice: Choice): void => {
        close();
        put(choice, start);
      };
      // Without a list, such as of members, nothing is offered.
      read.catch(() => []).then((all) => {
        const choices = all.slice(0, SHOWN_MAX);
        if (!isCurrent) return;
        if (named !== undefined) return void (choices[0]?.name === named && put(choices[0], start));
        open.value = choices.length === 0 ? undefined : { choices, at: 0, pick };
      });
      return () => {
        isCurrent = false;
        close();
      };
    }
  }, [text, room.id]);
  const shown = open.value;
  if (shown === undefined || document.activeElement !== box.current) return null;
  return html`
    <ul class="completion" role="listbox" id=${LIST_ID} aria-label="Suggestions">${shown.choices.map((choice, at) =>
      html`
        <li role="option" key=${choice.text} id=${`${LIST_ID}-${at}`} aria-selected=${at === shown.at} class=${classes(
          at === shown.at && "current",
        )}
          onMouseDown=${(event: Event) => {
            event.preventDefault();
            shown.pick(choice);
          }}>${choice.id === "" ? null : html`<${Avatar} id=${choice.id} isSmall />`}<b>${choice
            .name}</b> <span class="dim">${choice.hint ?? choice.text}</span></li>
      `
    )}</ul>
  `;
}

/** Attributes of the field that has the focus, so that screen readers say what is offered. */
export function completionAttributes(box: HTMLElement | null): Record<string, string> {
  const shown = open.value;
  if (shown === undefined || document.activeElement !== box) return {};
  return { "aria-controls": LIST_ID, "aria-activedescendant": `${LIST_ID}-${shown.at}` };
}

async function readCommandChoices(roomId: string, typed: string): Promise<Choice[]> {
  // Who runs a command is given the reason.
  const commands = await readCommands(roomId).catch(() => undefined) ?? [];
  return commands.filter(({ name }) => name.startsWith(typed))
    .map(({ name, description }) => ({ id: "", text: `/${name}`, name: description }));
}

async function emojiChoices(typed: string): Promise<Choice[]> {
  const { findEmoji } = await import("./emoji_grid.ts");
  return findEmoji(typed).map(({ emoji, name }) => ({ id: "", text: emoji, name }));
}

/** Links to rooms of the caller. */
function roomChoices(typed: string): Choice[] {
  return roomList.value.filter((room) => room.kind !== "direct" && ` ${room.name.toLowerCase()}`.includes(` ${typed}`))
    .map(({ id, name, topic }) => ({
      id: "",
      text: `[#${name.replaceAll(/[[\]\\]/g, "\\$&")}](${addressOf(hrefOf(["rooms", id]))})`,
      name: `#${name}`,
      hint: topic ?? "",
    }));
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
  const [{ items }, groups] = await Promise.all([
    get<Page<Person>>("v1/collaboration/principals", { q, limit: SHOWN_MAX }),
    readGroups({ q, limit: SHOWN_MAX }),
  ]);
  addPeople(items);
  return [...choicesAmong(items), ...groups];
}

/** Groups that can be mentioned. */
async function readGroups(query: { q?: string; limit: number }): Promise<Choice[]> {
  const { items } = await get<Page<Group>>("v1/collaboration/groups", query);
  return items.flatMap(({ handle, name }) => handle === null ? [] : { id: "", text: `@${handle}`, name });
}

/** Those who read what mentions them: not hooks, plugins and other services. */
function choicesAmong(people: readonly Person[]): Choice[] {
  return people.filter(({ kind }) => kind !== "service")
    .map(({ id, handle, displayName }) => ({ id, text: `@${handle ?? id}`, name: displayName }));
}

async function readMembers(roomId: string): Promise<Choice[]> {
  const [{ items }, groups] = await Promise.all([
    get<Page<Member>>(`v1/rooms/${roomId}/members`, { limit: MEMBERS_MAX }),
    readGroups({ limit: MEMBERS_MAX }),
  ]);
  const people = await readPeople(items.map(({ principalId }) => principalId));
  return [...choicesAmong(people), ...groups, { id: "", text: "@all", name: "Everybody in this room" }];
}
