// Search over messages, documents, tasks and events, with a link to the place of each result.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../core/api.ts";
import { dateText, shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { addPeople, nameOf } from "../core/people.ts";
import { goBack, hrefOf, replaceRoute, route } from "../core/route.ts";
import { attempt } from "../core/notice.ts";
import type { Message, Page, Person, Principal, Room } from "../core/resources.ts";
import { isGuest, myId } from "../core/session.ts";
import { plainText } from "../message/plain_text.ts";
import { Avatar } from "../part/avatar.ts";
import { Icon, type IconName } from "../part/icon.ts";
import { useFound } from "../part/list.ts";
import { PlaceHead, Placeholder } from "../part/place.ts";
import { openDirectWith } from "../room/create.ts";
import { isMuted, roomList, roomName, rooms } from "../room/rooms.ts";
import { RoomIcon } from "../room/sidebar.ts";
import { FILTER_NAMES, FilterBar, type Filters, TYPES } from "./filters.ts";

type Highlight = { field: string; ranges: readonly (readonly [number, number])[] };
type Titled = { id: string; title: string | null; roomId: string | null; key?: string; description?: string | null };
type Result = {
  kind: "message" | "document" | "comment" | "task" | "event";
  highlights: readonly Highlight[];
  message?: Message;
  document?: Titled & { editedAt: string };
  comment?: { id: string; documentId: string; roomId: string | null; text: string; createdAt: string };
  task?: Titled & { createdAt: string };
  event?: Titled & { startAt: string };
};
/** `key` is what was searched for. */
type Found = { key: string; items: Result[]; nextCursor: string | null; senders?: Person[]; people?: Principal[] };

const ROOMS_MAX = 5;
const PEOPLE_MAX = 3;
const ELSE_TEXT = "Nothing else was found.";
const SNIPPET = { before: 60, length: 260 };
/** Characters for private use, around a match. */
const MATCH = { start: "\ue000", end: "\ue001" };

export default function SearchPage(): VNode {
  const { query } = route.value;
  const q = query.get("q") ?? "";
  const filters: Filters = Object.fromEntries(FILTER_NAMES.flatMap((name) => {
    const value = query.get(name);
    return value === null ? [] : [[name, value]];
  }));
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.focus(), []);
  /** Enter opens the first result: of this search, not of what was typed before. */
  const isWanted = useRef(false);
  const shown = useRef("");
  const openWanted = (): void => {
    const rooms = document.querySelector<HTMLElement>("[aria-label=Rooms] a");
    if (!isWanted.current || rooms === null && shown.current !== keyOfSearch(q, filters)) return;
    isWanted.current = false;
    (rooms ?? document.querySelector<HTMLElement>(".cards a"))?.click();
  };

  const set = (change: Record<string, string | undefined>): void => {
    const next = Object.entries({ q, ...filters, ...change });
    replaceRoute(["search"], Object.fromEntries(next.flatMap(([name, value]) => value ? [[name, value]] : [])));
  };
  const isEmpty = q.trim() === "";
  // What was found before is no longer on the screen.
  if (isEmpty) shown.current = "";
  const hasFilters = Object.keys(filters).length > 0;
  const found = hasFilters ? [] : roomsNamed(q.trim().toLowerCase());
  return html`
    <${PlaceHead} title="Search" />
    <div class="body">
      <div class="narrow" onKeyDown=${onKey}>
      <form class="search-form" role="search" onSubmit=${(event: SubmitEvent) => {
        event.preventDefault();
        isWanted.current = true;
        openWanted();
      }}>
        <${Icon} name="search" />
        <input ref=${box} type="search" value=${q} maxlength="500" placeholder="Name of a room or person, or words of a message, document, task or event"
          aria-label="Search" onInput=${(event: InputEvent) => {
            isWanted.current = false;
            set({ q: (event.target as HTMLInputElement).value });
          }} />
      </form>
      <${FilterBar} filters=${filters} onChange=${set} />
      ${hasFilters
        ? html`<p><button type="button" class="link" onClick=${() =>
          replaceRoute(["search"], q === "" ? {} : { q })}>Search everything</button></p>`
        : html`<${Rooms} found=${found} />`}
      ${isEmpty
        ? html`<p class="empty">Everything that you may read is searched, up to the latest message.</p>`
        : html`<${Results} q=${q} filters=${filters} emptyText=${
          found.length > 0 ? ELSE_TEXT : "Nothing was found."
        } onShown=${(key: string) => {
          shown.current = key;
          openWanted();
        }} />`}
      </div>
    </div>
  `;
}

/**
 * The caller's rooms with this in their name, known without asking: those that begin with it first, then those with something
 * new, then the most recent ones.
 */
function roomsNamed(part: string): Room[] {
  const rankOf = (room: Room): number =>
    Number(roomName(room).toLowerCase().startsWith(part)) * 2 + Number(room.unreadCount > 0 && !isMuted(room));
  return roomList.value.filter((room) => roomName(room).toLowerCase().includes(part))
    .toSorted((a, b) => rankOf(b) - rankOf(a)).slice(0, ROOMS_MAX);
}

function Rooms({ found }: { found: readonly Room[] }): VNode | null {
  if (found.length === 0) return null;
  return html`
    <ul class="cards" aria-label="Rooms">${found.map((room) =>
      html`<li key=${room.id}><a class="person-link" href=${`#/rooms/${room.id}`}><${RoomIcon} room=${room} />
        <span dir="auto">${roomName(room)}</span></a></li>`
    )}</ul>
  `;
}

/** A link opens the conversation with a person. */
function People({ people }: { people: readonly Principal[] }): VNode {
  return html`
    <ul class="cards" aria-label="People">${people.map(({ id, displayName, handle }) =>
      html`
        <li
          key=${id}><a class="person-link" href=${hrefOf(["people", id])} onClick=${(event: Event) => {
            event.preventDefault();
            void attempt(() => openDirectWith(id));
          }}><${Avatar} id=${id} isSmall hasPresence /><span dir="auto">${displayName} ${handle === null
            ? null
            : html`<bdi class="dim">@${handle}</bdi>`}</span></a></li>
      `
    )}</ul>
  `;
}

/** Those with this in their name with whom the caller has no conversation, which is among the rooms. */
async function findPeople(q: string): Promise<Principal[]> {
  if (isGuest()) return [];
  const known = new Set(
    roomList.value.map(({ direct }) => direct?.principals).filter((all) => all?.length === 2)
      .flatMap((all) => all?.map(({ id }) => id) ?? []),
  );
  const { items } = await get<Page<Principal>>("v1/collaboration/principals", { q, limit: PEOPLE_MAX });
  return items.filter(({ id, disabled, kind }) => !disabled && kind !== "service" && id !== myId() && !known.has(id));
}

function keyOfSearch(q: string, filters: Filters): string {
  return JSON.stringify([q, filters]);
}

/** Up and down move between the field and the results. Escape leaves, once the field is empty. */
function onKey(event: KeyboardEvent): void {
  if (event.key === "Escape" && !(event.target as HTMLInputElement).value) return goBack();
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const stops = [...document.querySelectorAll<HTMLElement>(".search-form input, .narrow .cards a")];
  const at = stops.indexOf(event.target as HTMLElement);
  if (step === undefined || at < 0) return;
  event.preventDefault();
  stops[at + step]?.focus();
}

function Results(
  { q, filters, emptyText, onShown }: {
    q: string;
    filters: Filters;
    emptyText: string;
    onShown: (key: string) => void;
  },
): VNode {
  const { page, read, more } = useFound(keyOfSearch(q, filters), (cursor) => search(q, filters, cursor));
  useEffect(() => void (page !== undefined && onShown(page.key)), [page]);
  const { items, people = [] } = page ?? {};
  const found = people.length === 0 ? null : html`<${People} people=${people} />`;
  if (items === undefined || items.length === 0) {
    const text = people.length > 0 ? ELSE_TEXT : emptyText;
    return html`${found}<${Placeholder} items=${items} read=${read} text=${text} />`;
  }
  return html`
    ${found}
    <ul class="cards">${items.map((result) => html`<${ResultCard} key=${keyOf(result)} result=${result} />`)}</ul>
    ${more === undefined ? null : html`<button type="button" onClick=${more}>Show more</button>`}
  `;
}

function ResultCard({ result }: { result: Result }): VNode {
  const { message, highlights } = result;
  if (message !== undefined) {
    const thread = message.threadId === null ? {} : { thread: message.threadId, reply: message.id };
    const target = new URLSearchParams(message.threadId === null ? { message: message.id } : thread);
    return html`
      <li><a href=${`#/rooms/${message.roomId}?${target}`}>
        <small class="dim"><${Icon} name="chat" /> <b dir="auto">${nameOf(message.senderId)}</b> in ${placeOf(
          message.roomId,
        )} · ${shortTimeOf(message.createdAt)}</small>
        <p dir="auto">${marked(
          message.text || message.files.map(({ name }) => name).join(", "),
          highlights.find(({ field }) => field === "text"),
          message.format,
        )}</p></a></li>
    `;
  }
  const { item, icon, href, at, field = "title" } = titledOf(result);
  return html`
    <li><a href=${href}>
      <small class="dim"><${Icon} name=${icon} /> ${item.key ?? result.kind} in ${placeOf(item.roomId)} · ${shortTimeOf(
        at,
      )}</small>
      <p dir="auto"><b>${marked(item.title ?? "", highlights.find((one) => one.field === field))}</b></p></a></li>
  `;
}

/** What a result without a card of its own shows; `field` is the one that its title is. */
function titledOf(
  { document, comment, task, event }: Result,
): { item: Titled; icon: IconName; href: string; at: string; field?: string } {
  if (document !== undefined) {
    return { item: document, icon: "document", href: `#/documents/${document.id}`, at: document.editedAt };
  }
  if (comment !== undefined) {
    const { text, documentId, createdAt } = comment;
    const href = `#/documents/${documentId}`;
    return { item: { ...comment, title: text }, icon: "document", href, at: createdAt, field: "text" };
  }
  if (task !== undefined) return { item: task, icon: "task", href: `#/tasks/${task.id}`, at: task.createdAt };
  const item = event ?? { id: "", title: "", roomId: null, startAt: new Date().toISOString() };
  const href = hrefOf(["calendar"], { at: dateText(new Date(item.startAt)), event: item.id });
  return { item, icon: "calendar", href, at: item.startAt };
}

async function search(q: string, filters: Filters, cursor?: string): Promise<Found> {
  const { room, sender, type, since, until } = filters;
  // Who is not found is still in the list of people.
  const people = cursor === undefined && Object.keys(filters).length === 0 ? findPeople(q).catch(() => []) : undefined;
  const found = await get<Omit<Found, "key">>("v1/search", {
    q,
    roomId: room,
    senderId: sender,
    types: type ?? Object.keys(TYPES),
    from: since === undefined ? undefined : new Date(`${since}T00:00:00`).toISOString(),
    to: until === undefined ? undefined : new Date(`${until}T23:59:59.999`).toISOString(),
    include: ["senders"],
    cursor,
  });
  addPeople(found.senders ?? []);
  return { ...found, ...people === undefined ? {} : { people: await people }, key: keyOfSearch(q, filters) };
}

/** A part of a text around the first match, with the matches marked. Ranges are of the text with its formatting. */
function marked(text: string, highlight: Highlight | undefined, format?: Message["format"]): (string | VNode)[] {
  const own = text.replaceAll(/[\ue000\ue001]/g, " ");
  let source = "";
  let end = 0;
  for (const [from, to] of highlight?.ranges ?? []) {
    source += own.slice(end, from) + MATCH.start + own.slice(from, to) + MATCH.end;
    end = to;
  }
  source += own.slice(end);
  const line = format === "markdown" ? plainText(source) : source;
  const start = Math.max(0, line.indexOf(MATCH.start) - SNIPPET.before);
  const shown = line.slice(start, start + SNIPPET.length);
  const parts = shown.split(MATCH.start).flatMap((part, n) => {
    const [match = "", rest = ""] = n === 0 ? ["", part] : part.split(MATCH.end);
    return [match === "" ? "" : html`<mark>${match}</mark>`, rest];
  });
  return [start > 0 ? "…" : "", ...parts, start + SNIPPET.length < line.length ? "…" : ""];
}

function placeOf(roomId: string | null): string {
  const room = roomId === null ? undefined : rooms.value.get(roomId);
  return room === undefined ? "your own" : roomName(room);
}

function keyOf({ message, document, comment, task, event }: Result): string {
  return message?.id ?? document?.id ?? comment?.id ?? task?.id ?? `${event?.id} ${event?.startAt}`;
}
