// The list of messages: a window on the timeline. It stays at the end while one is there, and in place while older ones are added.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { dayOf, isSameDay, MINUTE_MS } from "../core/format.ts";
import { html } from "../core/html.ts";
import { connection, generation } from "../core/live.ts";
import { attempt } from "../core/notice.ts";
import { hrefOf, replaceRoute, route } from "../core/route.ts";
import type { Message, Room } from "../core/resources.ts";
import { me } from "../core/session.ts";
import { canModerate, canWrite, keptUnreadId, markRead, markUnread } from "../room/rooms.ts";
import { Icon } from "../part/icon.ts";
import { withLater } from "./actions.ts";
import { editedId } from "./editing.ts";
import { unsent } from "./outbox.ts";
import { isAlike, memo, MessageRow, openThread } from "./row.ts";
import { type Timeline, timelineOf } from "./timeline.ts";
import { UnsentRow } from "./unsent_row.ts";

const NEAR_END_PX = 80;
const READ_AHEAD_PX = 800;
const SAME_SENDER_MS = 5 * MINUTE_MS;

export function MessageList({ room, threadId, jumpTo }: { room: Room; threadId?: string; jumpTo?: string }): VNode {
  const timeline = timelineOf(room.id, threadId);
  const { items, hasBefore, hasAfter, state } = timeline.state.value;
  // Where the unread messages start; it stays there while the room is open, until this window has been left.
  const [readSeq, setReadSeq] = useState(room.unreadCount > 0 ? room.lastReadSeq : Infinity);
  const seen = useRef(room.unreadCount > 0 ? room.lastReadSeq : room.lastSeq);
  useEffect(() => {
    if (room.unreadCount === 0) seen.current = room.lastSeq;
    else if (keptUnreadId.value === room.id) setReadSeq(room.lastReadSeq);
    else if (!document.hasFocus()) setReadSeq(seen.current);
  }, [room.lastSeq, room.unreadCount, keptUnreadId.value]);
  // An event may be here before the reply to the call that caused it.
  const waiting = unsent.value.filter((one) =>
    one.roomId === room.id && one.threadId === threadId &&
    !items.some(({ clientMessageId }) => clientMessageId === one.clientMessageId)
  );

  const shownGeneration = useRef(generation.value);
  useEffect(() => {
    const isStale = shownGeneration.current !== generation.value;
    shownGeneration.current = generation.value;
    if (jumpTo === undefined) void timeline.open();
    else if (isStale || !items.some(({ id }) => id === jumpTo)) void jump(jumpTo);
  }, [timeline, jumpTo, generation.value]);

  // What could not be read without a connection is read with the next one.
  const isConnected = connection.value === "connected";
  useEffect(() => {
    if (isConnected && timeline.state.peek().state === "failed") void timeline.jump(jumpTo);
  }, [isConnected]);

  useEffect(() => () => timeline.close(), [timeline]);

  /** A reply is shown in its thread. */
  async function jump(id: string): Promise<void> {
    const target = (await timeline.jump(id)).find((message) => message.id === id);
    if (threadId !== undefined || target === undefined || target.threadId === null) return;
    replaceRoute(["rooms", room.id], { thread: target.threadId, reply: id });
  }

  async function toUnread(): Promise<void> {
    const known = (items[0]?.seq ?? 0) > readSeq ? await timeline.jump(readSeq + 1) : items;
    const first = known.find((message) => message.seq > readSeq && message.threadId === (threadId ?? null));
    if (first === undefined) return;
    replaceRoute(["rooms", room.id], { ...Object.fromEntries(route.value.query), message: first.id });
  }

  const { box, isAtEnd, isAway, isUnreadAbove, onScroll, toEnd } = useScrolling(timeline, jumpTo, readSeq);
  useEffect(() => {
    const read = (): void => {
      if (room.unreadCount === 0 || state !== "ready" || threadId !== undefined || hasAfter) return;
      // Replies count as well, although they are in their threads.
      if (isAtEnd() && document.hasFocus()) markRead(room.id, room.lastSeq);
    };
    read();
    addEventListener("focus", read);
    return () => removeEventListener("focus", read);
  }, [room.lastSeq, room.unreadCount, state, hasAfter, isAway]);
  // Who has just written sees that, wherever the view was.
  const waitingBefore = useRef(waiting.length);
  useEffect(() => {
    if (waiting.length > waitingBefore.current) toEnd();
    waitingBefore.current = waiting.length;
  }, [waiting.length]);

  return html`
    <div class="messages-frame">
      <div class="messages" ref=${box} onScroll=${onScroll} role="log" aria-label="Messages" tabindex="0"
        onKeyDown=${(event: KeyboardEvent) => onKey(event, items)}>
        <div>
          ${state === "failed"
            ? html`<p class="empty">The messages could not be read.
            <button type="button" onClick=${() => void timeline.jump()}>Try again</button></p>`
            : null}
          ${items.length === 0 && state === "loading" ? html`<p class="empty">Loading…</p>` : null}
          ${!hasBefore && state === "ready" && threadId === undefined
            ? html`<${Beginning} room=${room} isEmpty=${items.length === 0 && waiting.length === 0} />`
            : null}
          ${items.map((message, at) =>
            html`
              <${Entry} key=${message.id} message=${message} before=${items[at - 1]} room=${room}
                isInThread=${threadId !== undefined} readSeq=${readSeq} isMarked=${message.id === jumpTo} />
            `
          )}
          ${waiting.map((one) => html`<${UnsentRow} key=${one.clientMessageId} message=${one} />`)}
        </div>
      </div>
      ${isUnreadAbove && threadId === undefined
        ? html`<button type="button" class="to-end to-unread" onClick=${() =>
          void toUnread()}><${Icon} name="down" />First unread</button>`
        : null}
      ${isAway
        ? html`<button type="button" class="to-end" onClick=${toEnd}><${Icon} name="down" />Latest</button>`
        : null}
    </div>
  `;
}

/** Keeps the list at its end, or in place while rows are added above; scrolls to the message `jumpTo`, and reads ahead. */
function useScrolling(timeline: Timeline, jumpTo: string | undefined, readSeq: number): {
  box: { current: HTMLDivElement | null };
  isAtEnd: () => boolean;
  /** Whether the end was left by scrolling. */
  isAway: boolean;
  /** Whether unread messages begin above, and were not seen yet. */
  isUnreadAbove: boolean;
  onScroll: () => void;
  toEnd: () => void;
} {
  const { items, hasBefore, hasAfter } = timeline.state.value;
  const box = useRef<HTMLDivElement>(null);
  const place = useRef({ isAtEnd: true, anchor: "", top: 0, jumped: "", size: "" });
  const [isAway, setAway] = useState(false);
  const [isUnreadAbove, setUnreadAbove] = useState<boolean>();

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const { anchor, top, isAtEnd, jumped } = place.current;
    if (jumpTo !== undefined && jumped !== jumpTo) {
      const target = rowOf(element, jumpTo);
      if (target === null) return;
      place.current.jumped = jumpTo;
      place.current.isAtEnd = false;
      target.scrollIntoView({ block: "center" });
      target.focus({ preventScroll: true });
    } else if (isAtEnd && !hasAfter) element.scrollTop = element.scrollHeight;
    else {
      const row = rowOf(element, anchor);
      if (row !== null) element.scrollTop += row.offsetTop - element.scrollTop - top;
    }
    remember(element);
    // A jump to the beginning scrolls nothing.
    if (place.current.jumped !== jumped) setAway(!place.current.isAtEnd);
  });

  // Pictures and fonts change heights after the first layout.
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      if (place.current.isAtEnd) element.scrollTop = element.scrollHeight;
      place.current.size = sizeOf(element);
    });
    observer.observe(element);
    if (element.firstElementChild !== null) observer.observe(element.firstElementChild);
    return () => observer.disconnect();
  }, []);

  // What was read may be little: less than a screen has nothing to scroll.
  useEffect(() => {
    if (box.current !== null && box.current.scrollTop < READ_AHEAD_PX) void timeline.older();
  }, [items]);

  /** The first visible row and its place: what must not move when rows are added above. */
  function remember(element: HTMLElement): void {
    place.current.isAtEnd = belowOf(element) < NEAR_END_PX && !timeline.state.value.hasAfter;
    place.current.size = sizeOf(element);
    if (isUnreadAbove !== false && items.length > 0) {
      const line = element.querySelector<HTMLElement>(".unread-line");
      setUnreadAbove(line === null ? hasBefore && (items[0]?.seq ?? 0) > readSeq : line.offsetTop < element.scrollTop);
    }
    const row = firstVisible(element);
    if (row === undefined) return;
    place.current.anchor = row.dataset["id"] ?? "";
    place.current.top = row.offsetTop - element.scrollTop;
  }

  function onScroll(): void {
    const element = box.current;
    if (element === null) return;
    // Nobody has scrolled away where something has grown: the observer follows next.
    if (place.current.isAtEnd && place.current.size !== sizeOf(element)) return;
    remember(element);
    setAway(!place.current.isAtEnd);
    if (element.scrollTop < READ_AHEAD_PX) void timeline.older();
    if (belowOf(element) < READ_AHEAD_PX) void timeline.newer();
  }

  function toEnd(): void {
    place.current.isAtEnd = true;
    setAway(false);
    if (hasAfter) void timeline.jump();
    else if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }

  return {
    box,
    isAtEnd: () => place.current.isAtEnd,
    isAway,
    isUnreadAbove: isUnreadAbove === true,
    onScroll,
    toEnd,
  };
}

/** Rows are below each other: each step leaves half of them. */
function firstVisible(element: HTMLElement): HTMLElement | undefined {
  const rows = element.querySelectorAll<HTMLElement>("article[data-id]");
  let [from, to] = [0, rows.length];
  while (from < to) {
    const at = (from + to) >> 1;
    const { offsetTop = 0, offsetHeight = 0 } = rows[at] ?? {};
    if (offsetTop + offsetHeight <= element.scrollTop) from = at + 1;
    else to = at;
  }
  return rows[from];
}

/** Changes with the height of the list, and of what is in it. */
function sizeOf({ scrollHeight, clientHeight }: HTMLElement): string {
  return `${scrollHeight} ${clientHeight}`;
}

/** Pixels of the list below what is visible. */
function belowOf({ scrollHeight, scrollTop, clientHeight }: HTMLElement): number {
  return scrollHeight - scrollTop - clientHeight;
}

type EntryProps = {
  message: Message;
  before: Message | undefined;
  room: Room;
  isInThread: boolean;
  readSeq: number;
  isMarked: boolean;
};

/** Each message changes the room: others are not rendered again because of it. */
const Entry = memo(
  MessageEntry,
  (a: EntryProps, b: EntryProps) =>
    a.message === b.message && a.before === b.before && a.readSeq === b.readSeq && a.isMarked === b.isMarked &&
    isAlike(a.room, b.room),
);

function MessageEntry({ message, before, room, isInThread, readSeq, isMarked }: EntryProps): VNode {
  const isNewDay = before === undefined || !isSameDay(before.createdAt, message.createdAt);
  const isFirstUnread = message.seq > readSeq && (before?.seq ?? 0) <= readSeq &&
    message.senderId !== me.value?.principal.id;
  const isContinued = !isNewDay && !isFirstUnread && before?.senderId === message.senderId &&
    message.replyToId === null &&
    before.deletedAt === null && Date.parse(message.createdAt) - Date.parse(before.createdAt) < SAME_SENDER_MS;
  return html`
    ${isNewDay && !isInThread
      ? html`<div class="day"><button type="button" class="link" title="Go to a date" onClick=${() =>
        void attempt(async () => (await import("./date_jump.ts")).openDateJump(room, new Date(message.createdAt)))}>${
        dayOf(message.createdAt)
      }</button></div>`
      : null}
    ${isFirstUnread && !isInThread ? html`<div class="unread-line"><span>New</span></div>` : null}
    <${MessageRow} message=${message} room=${room} isContinued=${isContinued} isInThread=${isInThread} isMarked=${isMarked} />
  `;
}

function Beginning({ room, isEmpty }: { room: Room; isEmpty: boolean }): VNode {
  return html`
    <div class="beginning">
      <h2>${room.kind === "direct" ? (room.direct?.name ?? room.name) : `# ${room.name}`}</h2>
      <p class="dim">${!isEmpty
        ? "This is the beginning."
        : canWrite(room)
        ? "Nothing here yet. Write the first message below."
        : "Nothing here yet."} ${room.memberCount === 1 && canModerate(room)
        ? html`
          <a href=${hrefOf(["rooms", room.id], { pane: "members" })}>Add members</a>
        `
        : null}</p>
      ${room.description === null ? null : html`
        <p class="dim" dir="auto">${room.description}</p>
      `}
    </div>
  `;
}

/** Up and down move between messages, Enter opens a thread, E edits an own message, U marks one as unread, S saves it. */
function onKey(event: KeyboardEvent, items: readonly Message[]): void {
  const target = event.target as HTMLElement;
  const list = event.currentTarget as HTMLElement;
  const row = target.closest<HTMLElement>("article[data-id]");
  const isRow = target === row || target === list;
  if (!isRow || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...list.querySelectorAll<HTMLElement>("article[data-id]")];
  const message = items.find(({ id }) => id === row?.dataset["id"]);
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    const at = row === null ? rows.length : rows.indexOf(row);
    rows[at + (event.key === "ArrowUp" ? -1 : 1)]?.focus();
  } else if (event.key === "Enter" && message !== undefined && message.threadId === null) openThread(message);
  else if (event.key === "e" && message?.senderId === me.value?.principal.id) editedId.value = message?.id ?? "";
  else if (event.key === "u" && message !== undefined) void attempt(() => markUnread(message));
  else if (event.key === "s" && message !== undefined) withLater((later) => later.saveMessage(message));
  else return;
  event.preventDefault();
}

function rowOf(element: HTMLElement, id: string): HTMLElement | null {
  return id === "" ? null : element.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`);
}
