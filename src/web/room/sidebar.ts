// The left column: places, rooms with their unread counts, and the caller.
import type { VNode } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../core/api.ts";
import { classes, html } from "../core/html.ts";
import { connection } from "../core/live.ts";
import { attempt } from "../core/notice.ts";
import { go, goTo, route } from "../core/route.ts";
import { online } from "../core/people.ts";
import type { Room } from "../core/resources.ts";
import { isAdmin, isGuest, mayAdministrate, me, myId } from "../core/session.ts";
import { hasDraft } from "../message/editing.ts";
import { hasUnreadThreads, unreadCount } from "../notification/inbox_state.ts";
import { Avatar } from "../part/avatar.ts";
import { confirmThen, dialog } from "../part/dialog.ts";
import { Icon, type IconName } from "../part/icon.ts";
import { isView } from "../part/lazy.ts";
import { Menu } from "../part/menu.ts";
import { areRoomsRead, badgeOf, isMuted, openRoom, openRoomId, roomList, roomName } from "./rooms.ts";

/** More rooms than this are filtered by name instead of scrolled. */
const FILTER_FROM = 15;

/** Rooms of a section, besides the unread ones: the sections below it stay in reach. */
const SHOWN_MAX = 25;

const inShort = (count: number): number | string => count > 99 ? "99+" : count;
const unreadDot = (): VNode => html`<i class="dot" role="img" aria-label="unread"></i>`;

const filter = signal("");

/** On a narrow screen, the list of rooms is a page of its own. */
const narrow = matchMedia("(max-width: 720px)");
const isNarrow = signal(narrow.matches);
narrow.onchange = () => isNarrow.value = narrow.matches;

export function Sidebar(): VNode {
  const all = roomList.value.filter(({ state }) => state === "active");
  const archived = roomList.value.filter(({ state }) => state === "archived");
  const wanted = filter.value.trim().toLowerCase();
  const shown = wanted === "" ? all : all.filter((room) => roomName(room).toLowerCase().includes(wanted));
  const favorites = shown.filter(({ mySettings }) => (mySettings?.favoriteOrder ?? null) !== null)
    .toSorted((a, b) => (a.mySettings?.favoriteOrder ?? 0) - (b.mySettings?.favoriteOrder ?? 0));
  const unsorted = shown.filter((room) => !favorites.includes(room));
  const isNew = useNew();
  // Where there are more than a screen shows, what waits for the caller is not below them.
  const [news, others] = all.length > FILTER_FROM
    ? [unsorted.filter(isNew), unsorted.filter((room) => !isNew(room))]
    : [[], unsorted];
  return html`
    <section class="sidebar" role=${isNarrow.value && route.value.path.length === 0 ? "main" : "navigation"}
      aria-label="Rooms and places">
      <header>
        <h1 title=${me.value?.tenant.name ?? ""}>${me.value?.tenant.name ?? ""}</h1>
        <span class=${classes(
          "link-state",
          connection.value,
        )} title=${`Connection: ${connection.value}`} role="img" aria-label=${connection.value}></span>
        ${all.some(({ unreadCount }) => unreadCount > 0)
          ? html`
            <button type="button" class="plain" aria-label="Mark all rooms as read" title="Mark all rooms as read"
              onClick=${confirmReadAll}><${Icon} name="check" /></button>
          `
          : null}
        ${isGuest() ? null : html`
          <${Menu} label="New" icon="add" items=${[
            { label: "New room", icon: "hash", onSelect: open("openCreate") },
            { label: "New direct message", icon: "user", onSelect: open("openDirect") },
            { label: "Browse public rooms", icon: "search", onSelect: open("openBrowse") },
            { label: "Deleted rooms", icon: "trash", onSelect: open("openDeleted") },
            ...isAdmin()
              ? [{ label: "Invite people", icon: "people" as const, onSelect: () => go(["admin", "invitations"]) }]
              : [],
          ]} />
        `}
      </header>
      <div class="places">
        <${Place} to="search" icon="search" label="Search" />
        <${Place} to="inbox" icon="bell" label="Inbox" badge=${unreadCount.value} />
        <${Place} to="threads" icon="thread" label="Threads" isMarked=${hasUnreadThreads.value} />
        <${Place} to="later" icon="bookmark" label="Later" />
        <${Place} to="tasks" icon="task" label="Tasks" />
        <${Place} to="documents" icon="document" label="Documents" />
        <${Place} to="calendar" icon="calendar" label="Calendar" />
        <${Place} to="people" icon="people" label="People" />
        ${mayAdministrate() ? html`<${Place} to="admin" icon="shield" label="Admin" />` : null}
      </div>
      ${all.length > FILTER_FROM
        ? html`
          <input type="search" class="filter" placeholder="Find a room" aria-label="Find a room"
            value=${filter.value} onKeyDown=${onFilterKey} onInput=${(
              event: InputEvent,
            ) => (filter.value = (event.target as HTMLInputElement).value)} />
        `
        : null}
      <div class="rooms">
        <${Section} title="New for you" rooms=${news} />
        <${Section} title="Favorites" rooms=${favorites} />
        <${Section} title="Rooms" rooms=${others.filter(({ kind }) => kind !== "direct")} />
        <${Section} title="Direct messages" rooms=${others.filter(({ kind }) => kind === "direct")} />
        ${archived.length === 0 ? null : html`
          <details>
            <summary>Archived</summary>
            ${archived.map((room) => html`<${RoomLink} key=${room.id} room=${room} />`)}
          </details>
        `}
        ${areRoomsRead.value && all.length === 0 && !isGuest()
          ? html`<p class="dim hint">No rooms yet.${" "}
          <button type="button" class="link" onClick=${open("openCreate")}>Create one</button> or${" "}
          <button type="button" class="link" onClick=${open("openBrowse")}>browse</button>.</p>`
          : null}
      </div>
      <footer>
        <a href="#/profile" class=${classes(
          "me",
          route.value.path[0] === "profile" && "open",
        )}><${Avatar} id=${myId()} isSmall />
          <span dir="auto">${me.value?.principal.displayName ?? ""}</span></a>
        <button type="button" class="plain" aria-label="Help" title="Help, Ctrl+/" onClick=${openHelp}>?</button>
      </footer>
    </section>
  `;
}

/** Whether a room has a badge. The open one stays where it was when it was opened: it is read then. */
function useNew(): (room: Room) => boolean {
  const opened = useRef({ id: "", isNew: false });
  const hasBadge = (room: Room): boolean => badgeOf(room) > 0 && !isMuted(room);
  const { value: id } = openRoomId;
  if (opened.current.id !== id) {
    opened.current = { id, isNew: openRoom.value !== undefined && hasBadge(openRoom.value) };
  }
  return (room) => room.id === id ? opened.current.isNew : hasBadge(room);
}

/** Enter opens the first room that is left. */
function onFilterKey({ key, isComposing }: KeyboardEvent): void {
  const link = document.querySelector<HTMLAnchorElement>(".sidebar .room");
  if (key !== "Enter" || isComposing || filter.value.trim() === "" || link === null) return;
  filter.value = "";
  goTo(link.hash);
}

function Place(
  { to, icon, label, badge = 0, isMarked }: {
    to: string;
    icon: IconName;
    label: string;
    badge?: number;
    isMarked?: boolean;
  },
): VNode | null {
  const isOpen = route.value.path[0] === to;
  if (!isView(to)) return null;
  return html`<a href=${`#/${to}`} class=${classes(isOpen && "open")} aria-current=${isOpen ? "page" : undefined}>
    <${Icon} name=${icon} /><span>${label}</span>${
    badge > 0 ? html`<b class="badge">${inShort(badge)}</b>` : isMarked ? unreadDot() : null
  }</a>`;
}

function Section({ title, rooms }: { title: string; rooms: readonly Room[] }): VNode | null {
  const [isWhole, setWhole] = useState(false);
  if (rooms.length === 0) return null;
  const shown = isWhole
    ? rooms
    : rooms.filter((room, at) => at < SHOWN_MAX || room.unreadCount > 0 || room.id === openRoomId.value);
  return html`<h2>${title}</h2>${shown.map((room) => html`<${RoomLink} key=${room.id} room=${room} />`)}
    ${
    shown.length === rooms.length
      ? null
      : html`<button type="button" class="link" onClick=${() => setWhole(true)}>Show all ${rooms.length}</button>`
  }`;
}

function RoomLink({ room }: { room: Room }): VNode {
  const isOpen = room.id === openRoomId.value;
  const badge = badgeOf(room);
  const isUnread = room.unreadCount > 0 && !isMuted(room);
  return html`
    <a href=${`#/rooms/${room.id}`} class=${classes(
      "room",
      isOpen && "open",
      isUnread && "unread",
      isMuted(room) && "muted",
    )}
      aria-current=${isOpen ? "page" : undefined}>
      <${RoomIcon} room=${room} /><span dir="auto">${roomName(room)}</span>
      ${badge > 0 && !isMuted(room)
        ? html`<b class="badge" aria-label=${`${badge} unread`}>${inShort(badge)}</b>`
        : isUnread
        ? unreadDot()
        : null}
      ${!isOpen && hasDraft(room.id)
        ? html`<span class="draft" role="img" aria-label="draft" title="Draft"><${Icon} name="edit" /></span>`
        : null}
    </a>
  `;
}

export function RoomIcon({ room }: { room: Room }): VNode {
  const [other] = room.direct?.principals.filter(({ id }) => id !== myId()) ?? [];
  if (room.kind === "direct" && other !== undefined) {
    return html`<span class=${
      classes("person", online.value.has(other.id) && "online")
    }><${Avatar} id=${other.id} isSmall hasPresence /></span>`;
  }
  return html`<${Icon} name=${room.visibility === "public" ? "hash" : "lock"} />`;
}

/** Events say what that has changed. */
function confirmReadAll(): void {
  confirmThen(
    "Mark all rooms as read?",
    "No message in them is new then, and no mention either.",
    "Mark as read",
    () => post("v1/collaboration/unreads/read"),
  );
}

function openHelp(): void {
  void attempt(async () => (await import("../part/help.ts")).openHelp());
}

/** Opens one of the dialogs about rooms. */
function open(name: "openCreate" | "openDirect" | "openBrowse" | "openDeleted"): () => void {
  return () => void attempt(async () => (await import("./create.ts"))[name]());
}

/**
 * Ctrl+K opens the search and Ctrl+/ the help, wherever the focus is; Alt with up or down opens the room before or after
 * the open one. An open dialog is not left so: what was entered in it would be lost.
 */
export function useShortcuts(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (dialog.value !== undefined) return;
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        goTo("#/search");
      }
      if ((event.ctrlKey || event.metaKey) && event.key === "/") {
        event.preventDefault();
        openHelp();
      }
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!event.altKey || step === undefined || event.defaultPrevented) return;
      event.preventDefault();
      const links = [...document.querySelectorAll<HTMLAnchorElement>(".sidebar .room")];
      const link = links[links.findIndex((one) => one.matches(".open")) + step];
      if (link !== undefined) goTo(link.hash);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
