// Creating rooms and joining public ones.
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { get, listAll, post } from "../core/api.ts";
import { count } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { readMembers, readPeople } from "../core/people.ts";
import { go } from "../core/route.ts";
import type { Page, Principal, Room } from "../core/resources.ts";
import { isGuest, myId } from "../core/session.ts";
import { markdownLine } from "../message/markdown.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { useFound } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { openTrash } from "../part/trash.ts";
import { joinRoom, readRoom, rooms } from "./rooms.ts";

/** How many rooms guests see the people of, to choose from. */
const ROOMS_MAX = 50;

export function openCreate(): void {
  openDialog(() =>
    html`
      <${DialogForm} title="New room" action="Create" onSubmit=${async (fields: FormData) => {
        const topic = String(fields.get("topic")).trim();
        await createRoom(String(fields.get("name")), fields.get("isPrivate") === null ? "public" : "private", topic);
      }}>
        <label>Name <input name="name" required maxlength="120" autofocus placeholder="plans" /></label>
        <label>Topic <input name="topic" maxlength="500" placeholder="What it is about" /></label>
        <label class="check"><input type="checkbox" name="isPrivate" /> Private: only members see it</label>
        <//>
    `
  );
}

export async function createRoom(name: string, visibility: Room["visibility"], topic = ""): Promise<void> {
  const room = await post<Room>("v1/rooms", { name: name.trim(), visibility, ...topic === "" ? {} : { topic } });
  await readRoom(room.id);
  go(["rooms", room.id]);
}

export function openDirect(): void {
  openDialog(() => html`<${DirectPicker} />`);
}

/** Opens the direct room with these principals; it is created if there is none. */
export async function openDirectWith(...memberIds: string[]): Promise<void> {
  const room = await post<Room>("v1/rooms", { kind: "direct", memberIds });
  if (!rooms.value.has(room.id)) await readRoom(room.id);
  go(["rooms", room.id]);
}

function DirectPicker(): VNode {
  const [q, setQ, items, note] = usePrincipals();
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const open = (...ids: string[]): void =>
    void attempt(async () => {
      await openDirectWith(...ids);
      closeDialog();
    });
  const toggle = (id: string): void =>
    setChosen(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  return html`
    <div>
      <${Heading} title="New direct message" onClose=${closeDialog}>
        ${chosen.length === 0
          ? null
          : html`<button type="button" class="primary" onClick=${() => open(...chosen)}>Open</button>`}
      <//>
      <input type="search" placeholder="Name" aria-label="Name" autofocus value=${q}
        onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
      <ul class="rows">${items.filter(({ id, disabled }) => id !== myId() && !disabled).map((
        { id, displayName, handle },
      ) =>
        html`
          <li key=${id}><button type="button" class="plain wide person-link" onClick=${() =>
            open(id)}><${Avatar} id=${id}
            isSmall hasPresence /><span dir="auto"><b>${displayName}</b> ${handle === null
              ? null
              : html`<bdi class="dim">@${handle}</bdi>`}</span></button>
            <button type="button" aria-pressed=${chosen.includes(id)} onClick=${() => toggle(id)}>${chosen.includes(id)
              ? "Added"
              : "Add"}</button></li>
        `
      )}</ul>
      ${note}
    </div>
  `;
}

/** Principals by part of a name. Guests cannot list them, but see those of their rooms. */
export function usePrincipals(): Named<Principal> {
  const known = useRef<readonly Principal[] | undefined>(undefined);
  const readKnown = async (q: string): Promise<Page<Principal>> => {
    known.current ??= await readRoommates();
    return { items: known.current.filter((one) => isNamed(one, q)), nextCursor: null, hasMore: false };
  };
  const load = isGuest() ? readKnown : listOf<Principal>("v1/collaboration/principals", { limit: 30 });
  const [q, setQ, items, note] = useNamed(load, "No person has this name.");
  const hint = isGuest() ? html`<p class="dim">As a guest, you see the people of your rooms only.</p>` : null;
  return [q, setQ, items, html`${note}${hint}`];
}

/** Everybody in the rooms of the caller. */
async function readRoommates(): Promise<Principal[]> {
  const ids = new Set<string>();
  for (const { id } of await listAll<Room>("v1/rooms", { member: "me" }, ROOMS_MAX)) {
    for (const { principalId } of await readMembers(id)) ids.add(principalId);
  }
  return readPeople([...ids]);
}

function isNamed({ id, displayName, handle }: Principal, part: string): boolean {
  return [id, displayName, handle ?? ""].some((name) => name.toLowerCase().includes(part.trim().toLowerCase()));
}

/** `note` says that there is nothing, or that it could not be read, or offers more. */
type Named<Item> = [q: string, setQ: (q: string) => void, items: readonly Item[], note: VNode];
type Load<Item> = (q: string, cursor: string | undefined) => Promise<Page<Item>>;

/** Reads a list of the API. */
function listOf<Item>(path: string, query: Record<string, string | number>): Load<Item> {
  return (q, cursor) => get(path, { ...query, ...q === "" ? {} : { q }, cursor });
}

/** What has a text in its name, as that is typed. */
function useNamed<Item>(load: Load<Item>, none: string): Named<Item> {
  const [q, setQ] = useState("");
  const { page, read, more } = useFound<Page<Item>>(q, (cursor) => load(q, cursor));
  const note = html`
    <div role="status">
      <${Placeholder} items=${page?.items} read=${read} text=${none} />
    </div>
    ${more === undefined ? null : html`<button type="button" onClick=${more}>Show more</button>`}
  `;
  return [q, setQ, page?.items ?? [], note];
}

/** Deleted rooms of the caller. */
export function openDeleted(): void {
  const load = async () =>
    (await listAll<Room>("v1/rooms", { state: "deleted" })).map(({ id, name }) => ({ id, name, deletedAt: null }));
  openTrash({ title: "Deleted rooms", path: "v1/rooms", load });
}

export function openBrowse(): void {
  openDialog(() => html`<${Browser} />`);
}

function Browser(): VNode {
  const query = { visibility: "public", state: "active", sort: "name", limit: 50 };
  const [q, setQ, items, note] = useNamed<Room>(listOf("v1/rooms", query), "No public room has this name.");
  return html`
    <div>
      <${Heading} title="Public rooms" onClose=${closeDialog} />
      <input type="search" placeholder="Find a room" aria-label="Find a room" autofocus value=${q}
        onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
      <ul class="rows">${items.map((room) =>
        html`
          <li
            key=${room.id}><div><b dir="auto"># ${room.name}</b><small class="dim">${count(
              room.memberCount,
              "member",
            )}${room.topic === null ? "" : html`
              · <span dir="auto">${markdownLine(room.topic)}</span>
            `}</small></div><button type="button" class=${room.myRole === null ? "primary" : ""} onClick=${() =>
              void attempt(async () => {
                if (room.myRole === null) await joinRoom(room.id);
                else go(["rooms", room.id]);
                closeDialog();
              })}>${room.myRole === null ? "Join" : "Open"}</button></li>
        `
      )}</ul>
      ${note}
    </div>
  `;
}
