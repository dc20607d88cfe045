// A room: its head, the conversation, and a pane beside it.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../core/api.ts";
import { count, numberOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { attempt, messageOf, notify } from "../core/notice.ts";
import { follow, generation, presentIn, unfollow } from "../core/live.ts";
import { setOnline } from "../core/people.ts";
import { go, route } from "../core/route.ts";
import type { Room, RoomSettings } from "../core/resources.ts";
import { Composer } from "../message/composer.ts";
import { MessageList } from "../message/list.ts";
import { markdownLine } from "../message/markdown.ts";
import { focusBehindPane, leavePane } from "../message/row.ts";
import { ThreadPane } from "../message/thread.ts";
import { Typing } from "../message/typing.ts";
import { useDrop } from "../message/uploads.ts";
import { Icon, type IconName } from "../part/icon.ts";
import { isView, later, Lazy } from "../part/lazy.ts";
import { Menu, type MenuItem } from "../part/menu.ts";
import { PlaceHead } from "../part/place.ts";
import { areRoomsRead, isMuted, leaveRoom, readRoom, roomList, roomName, rooms, updateSettings } from "./rooms.ts";
import { RoomIcon } from "./sidebar.ts";
import { confirmThen, usePaneFocus } from "../part/dialog.ts";

const RunsPanel = later(() => import("../agent/panel.ts"));
const MembersPane = later(() => import("./members.ts"), "Members");
const FilesPane = later(() => import("./files.ts"), "Files");
const PinsPane = later(() => import("./pins.ts"), "Pinned messages");

/** Until then a room is muted, unless it is unmuted before. */
const FAR = "9999-01-01T00:00:00Z";

const TABS = [["", "Chat", "chat"], ["tasks", "Tasks", "task"], ["documents", "Documents", "document"], [
  "calendar",
  "Calendar",
  "calendar",
]] as const satisfies readonly (readonly [string, string, IconName])[];

export function RoomPage({ id }: { id: string }): VNode {
  const known = rooms.value.get(id);
  const [read, setRead] = useState<Room>();
  const room = known ?? (read?.id === id ? read : undefined);
  const isPreview = known === undefined;
  const [isUnavailable, setUnavailable] = useState(false);
  useEffect(() => {
    if (!isPreview || !areRoomsRead.value) return;
    readRoom(id).then(setRead, (error) => {
      setUnavailable(true);
      // The page says that it is not there.
      if (!(error instanceof ApiError) || error.status !== 404) notify(messageOf(error), true);
    });
  }, [id, isPreview, areRoomsRead.value, generation.value]);
  // Only the room that is open is followed, if it is none of the caller's.
  useEffect(() => {
    if (!isPreview || read?.id !== id) return undefined;
    follow({ channel: `room:${id}`, epoch: read.epoch, offset: read.lastSeq });
    return () => void (rooms.value.has(id) || unfollow(`room:${id}`));
  }, [id, isPreview, read]);
  useEffect(() => {
    if (isPreview) return;
    follow({ channel: `room:${id}` });
    // Shown without a presence until the next join.
    presentIn(`room:${id}`).then((ids) => ids.forEach((one) => setOnline(one, true))).catch(() => undefined);
  }, [id, isPreview, generation.value]);
  if (room === undefined) {
    return html`
      <main class="page">
        ${areRoomsRead.value ? html`<${PlaceHead} title="Room" />` : null}
        <p class="empty">${isUnavailable ? "This room is not available." : "Loading…"}</p>
      </main>
    `;
  }

  const [, , tab = ""] = route.value.path;
  return html`
    <main class="page" key=${id}>
      <${RoomHead} room=${room} tab=${tab} />
      ${tab === "" ? html`<${Chat} room=${room} />` : html`<${Tab} room=${room} tab=${tab} />`}
    </main>
  `;
}

function RoomHead({ room, tab }: { room: Room; tab: string }): VNode {
  const pane = route.value.query.get("pane");
  const toggle = (name: string) => () => go(["rooms", room.id], pane === name ? {} : { pane: name });
  return html`
    <header class="page-head">
      <a class="back" href="#/" aria-label="All rooms"><${Icon} name="back" /></a>
      <div class="title"><h1 tabindex="-1"><${RoomIcon} room=${room} /><span dir="auto">${roomName(room)}</span></h1>
        ${room.topic === null || room.topic === ""
          ? null
          : html`<p class="dim" dir="auto" title=${room.topic}>${markdownLine(room.topic)}</p>`}</div>
      <nav class="tabs" aria-label="Room">${TABS.filter(([name]) => name === "" || isView(name)).map((
        [name, label, icon],
      ) =>
        html`
          <a href=${`#/rooms/${room.id}${name === "" ? "" : `/${name}`}`} class=${classes(tab === name && "open")}
            aria-current=${tab === name
              ? "page"
              : undefined} title=${label}><${Icon} name=${icon} /><span>${label}</span></a>
        `
      )}</nav>
      ${isView("call")
        ? html`<a class="button plain" href=${`#/rooms/${room.id}/call`} aria-label="Call" title="Call"><${Icon} name="phone" /></a>`
        : null}
      <button type="button" class="plain" aria-label=${count(
        room.memberCount,
        "member",
      )} title="Members" aria-pressed=${pane ===
        "members"} onClick=${toggle("members")}>
        <${Icon} name="people" /><span class="dim">${numberOf(room.memberCount)}</span></button>
      <${Menu} label="Room menu" items=${menuOf(room)} />
    </header>
  `;
}

function menuOf(room: Room): MenuItem[] {
  const isFavorite = (room.mySettings?.favoriteOrder ?? null) !== null;
  const items: MenuItem[] = [
    { label: "Pinned messages", icon: "pin", onSelect: () => go(["rooms", room.id], { pane: "pins" }) },
    { label: "Files", icon: "clip", onSelect: () => go(["rooms", room.id], { pane: "files" }) },
    {
      label: "Go to a date",
      icon: "calendar",
      onSelect: () => void attempt(async () => (await import("../message/date_jump.ts")).openDateJump(room)),
    },
    { label: "Search in this room", icon: "search", onSelect: () => go(["search"], { room: room.id }) },
  ];
  if (room.myRole === null) return items;
  items.push({
    label: isFavorite ? "Remove from favorites" : "Add to favorites",
    icon: "star",
    onSelect: () =>
      void attempt(() => updateSettings(room.id, { favoriteOrder: isFavorite ? null : lastFavorite() + 1 })),
  }, {
    label: isMuted(room) ? "Unmute" : "Mute",
    icon: "bell",
    onSelect: () => void attempt(() => updateSettings(room.id, isMuted(room) ? unmuted(room) : { mutedUntil: FAR })),
  });
  if (room.kind !== "direct") {
    items.push(
      {
        label: "Room settings",
        icon: "gear",
        onSelect: () => void attempt(async () => (await import("./settings.ts")).openRoomSettings(room)),
      },
      {
        label: "Leave room",
        icon: "exit",
        isDanger: true,
        onSelect: () =>
          confirmThen(
            "Leave this room?",
            room.visibility === "public" ? "You can join it again at any time." : "A member has to add you again.",
            "Leave",
            () => leaveRoom(room.id),
          ),
      },
    );
  }
  return items;
}

/** The order of the last favorite; 0 if there is none. */
function lastFavorite(): number {
  return Math.max(0, ...roomList.value.map(({ mySettings }) => mySettings?.favoriteOrder ?? 0));
}

/** The level is what it was before, unless that was to be notified of nothing. */
function unmuted({ mySettings }: Room): Partial<RoomSettings> {
  return { mutedUntil: null, ...mySettings?.level === "none" ? { level: "all" } : {} };
}

function Chat({ room }: { room: Room }): VNode {
  const { query } = route.value;
  const { isOver, handlers } = useDrop(room.id, room.id);
  const pane = query.get("pane");
  const threadId = query.get("thread") ?? undefined;
  usePaneFocus(threadId ?? pane, () => focusBehindPane(threadId));
  const beside: ComponentChildren = threadId !== undefined
    ? html`<${ThreadPane} key=${threadId} room=${room} threadId=${threadId} />`
    : pane === "members"
    ? html`<${MembersPane} room=${room} />`
    : pane === "files"
    ? html`<${FilesPane} room=${room} />`
    : pane === "pins"
    ? html`<${PinsPane} room=${room} />`
    : null;
  return html`
    <div class=${classes("columns", beside !== null && "has-pane")} onKeyDown=${(event: KeyboardEvent) =>
      closePane(event, room.id, threadId)}>
      <section class=${classes("chat", isOver && "drop")} aria-label="Conversation" ...${handlers}>
        <${MessageList} key=${room.id} room=${room} jumpTo=${query.get("message") ?? undefined} />
        <${RunsPanel} room=${room} />
        <${Typing} roomId=${room.id} />
        <${Composer} room=${room} />
      </section>
      ${beside}
    </div>
  `;
}

/** Escape closes the pane, unless it is in a field with something to clear. */
function closePane(event: KeyboardEvent, roomId: string, threadId: string | undefined): void {
  const target = event.target as HTMLInputElement;
  const isElsewhere = target.closest(".pane") === null || Boolean(target.value);
  if (event.key !== "Escape" || event.defaultPrevented || isElsewhere) return;
  leavePane(roomId, threadId);
}

function Tab({ room, tab }: { room: Room; tab: string }): VNode {
  return html`<${Lazy} name=${tab} room=${room} />`;
}
