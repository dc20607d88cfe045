// The caller's rooms with their unread counts, updated by events.
import { computed, effect, signal } from "@preact/signals";
import { addPeople, forgetPerson, nameOf, online, setOnline } from "../core/people.ts";
import { ApiError, call, get, post } from "../core/api.ts";
import { connection, follow, onEvent, presentIn, type Published, readAmidEvents, unfollow } from "../core/live.ts";
import type { LiveEvent, Message, Room, RoomSettings, Sync, Unread } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { notify } from "../core/notice.ts";
import { go, replaceRoute, route } from "../core/route.ts";
import { unreadCount } from "../notification/inbox_state.ts";

const byName = new Intl.Collator(undefined, { numeric: true });
const READ_DELAY_MS = 800;
const RESEND_MS = 3000;
const PREVIEW_MAX = 160;
/** Rooms whose presence is read after an interruption. */
const PRESENT_ROOMS_MAX = 50;

export const rooms = signal<ReadonlyMap<string, Room>>(new Map());
export const areRoomsRead = signal(false);
/** Newest first. */
export const roomList = computed(() =>
  [...rooms.value.values()].filter(({ state }) => state !== "deleted").toSorted(byActivity)
);
export const openRoomId = computed(() => route.value.path[0] === "rooms" ? route.value.path[1] ?? "" : "");
export const openRoom = computed(() => rooms.value.get(openRoomId.value));
/** Unread rooms and mentions, for the title of the page. */
export const unreadTotal = computed(() =>
  roomList.value.reduce((sum, room) => sum + (isMuted(room) ? 0 : badgeOf(room)), 0)
);

const reading = new Map<string, ReturnType<typeof setTimeout>>();
const rereads = new Map<string, ReturnType<typeof setTimeout>>();
const unsentReads = new Map<string, number>();
/** By room, up to where the gateway has counted what is unread: it may respond before the events arrive. */
const countedTo = new Map<string, number>();

/** The open room, if a message of it was marked as unread, here or elsewhere: it stays unread until it is left. */
export const keptUnreadId = signal("");

effect(() => {
  if (openRoomId.value !== keptUnreadId.peek()) keptUnreadId.value = "";
});

/** Takes over the state that a connection started from. */
export function setRooms(sync: Sync, missed: readonly Published[]): void {
  rooms.value = new Map(sync.rooms.map((room) => [room.id, room]));
  for (const room of sync.rooms) addPeople(room.direct?.principals ?? []);
  online.value = new Set(sync.presence.map(({ principalId }) => principalId));
  // Else it is being read again.
  if (!missed.some(([{ type }]) => type.startsWith("notification."))) unreadCount.value = sync.unreadNotificationCount;
  areRoomsRead.value = true;
  for (const published of missed) receive(...published);
}

export function roomName(room: Room): string {
  return room.direct?.name ?? room.name;
}

export function isMuted({ mySettings }: Room): boolean {
  return mySettings?.level === "none" ||
    Date.parse(mySettings?.mutedUntil ?? "") > Date.now();
}

/** What counts as unread: every message of a direct room, mentions elsewhere. */
export function badgeOf(room: Room): number {
  return room.kind === "direct" ? room.unreadCount : room.mentionCount;
}

export function canWrite(room: Room): boolean {
  return room.state === "active" && room.myRole !== null && room.myRole !== "observer";
}

/** The same where there may be no room: then the gateway knows who may. */
export function canWriteIn(room: Room | undefined): boolean {
  return room === undefined || canWrite(room);
}

export function canModerate(room: Room): boolean {
  return room.myRole === "owner" || room.myRole === "moderator";
}

/** Reads a room again, or for the first time. */
export async function readRoom(id: string): Promise<Room> {
  const [room, missed] = await readAmidEvents(() =>
    get<Room>(`v1/rooms/${encodeURIComponent(id)}`, { include: ["lastMessage"] })
  );
  addPeople(room.direct?.principals ?? []);
  if (room.myRole !== null) {
    putRoom(room);
    follow({ channel: `room:${id}`, epoch: room.epoch, offset: room.lastSeq });
    for (const [event, channel] of missed) {
      if ((event.data?.roomId ?? event.data?.message?.roomId) === id) receive(event, channel);
    }
  }
  return room;
}

/** What is unread may have been deleted, or mention others now. */
function readAgain(id: string): void {
  clearTimeout(rereads.get(id));
  // Without a connection everything is read again.
  rereads.set(id, setTimeout(() => readRoom(id).catch(() => undefined), READ_DELAY_MS));
}

export async function joinRoom(id: string): Promise<void> {
  await call("PUT", `v1/rooms/${encodeURIComponent(id)}/members/me`, {});
  await readRoom(id);
  go(["rooms", id]);
}

export async function leaveRoom(id: string): Promise<void> {
  await call("DELETE", `v1/rooms/${encodeURIComponent(id)}/members/me`);
  removeRoom(id);
}

export async function updateSettings(id: string, change: Partial<RoomSettings>): Promise<void> {
  const mySettings = await call<RoomSettings>("PATCH", `v1/rooms/${encodeURIComponent(id)}/settings`, change);
  patchRoom(id, { mySettings });
}

/** Marks a room as read, soon: several messages in a row are one call. */
export function markRead(id: string, seq: number): void {
  const room = rooms.value.get(id);
  if (room === undefined || seq <= room.lastReadSeq || keptUnreadId.peek() === id) return;
  clearTimeout(reading.get(id));
  patchRoom(id, { unreadCount: 0, mentionCount: 0 });
  reading.set(id, setTimeout(() => sendRead(id, seq), READ_DELAY_MS));
}

function sendRead(id: string, seq: number): void {
  call<Unread>("PUT", `v1/rooms/${encodeURIComponent(id)}/read`, { seq }).then((read) => {
    // Reading only moves the position forward: else this response is late.
    if (keptUnreadId.peek() !== id && read.lastReadSeq >= (rooms.peek().get(id)?.lastReadSeq ?? 0)) setUnread(read);
  }, (error) => {
    // Otherwise the position moves with the next message.
    if (!(error instanceof ApiError) || !error.isTemporary) return;
    unsentReads.set(id, seq);
    // A call that broke off with one connection may fail when there is another one already.
    setTimeout(sendReads, RESEND_MS);
  });
}

/** Sends again what could not be sent; without a connection, with the next one. */
function sendReads(): void {
  if (connection.peek() !== "connected") return;
  for (const [id, seq] of unsentReads) sendRead(id, seq);
  unsentReads.clear();
}

/** Marks a message and those after it as unread. */
export async function markUnread({ id, roomId }: Message): Promise<void> {
  forgetRead(roomId);
  setUnread(await post<Unread>(`v1/messages/${id}/unread`));
  if (openRoomId.peek() === roomId) keptUnreadId.value = roomId;
}

/** What is not sent yet of how far a room was read would undo that it is marked as unread. */
function forgetRead(roomId: string): void {
  clearTimeout(reading.get(roomId));
  unsentReads.delete(roomId);
}

function setUnread({ roomId, lastReadSeq, unreadCount, mentionCount, lastSeq }: Unread): void {
  const room = rooms.value.get(roomId);
  if (room === undefined) return;
  const isBack = lastReadSeq < room.lastReadSeq;
  // On another device.
  if (isBack) forgetRead(roomId);
  if (openRoomId.peek() === roomId && (isBack || lastReadSeq > room.lastReadSeq)) {
    keptUnreadId.value = isBack ? roomId : "";
  }
  putRoom({ ...room, lastReadSeq, unreadCount, mentionCount });
  countedTo.set(roomId, lastSeq);
  // What was sent since then is not counted.
  if (lastSeq < room.lastSeq) readAgain(roomId);
}

export function patchRoom(id: string, change: Partial<Room>): void {
  const room = rooms.value.get(id);
  if (room !== undefined) putRoom({ ...room, ...change });
}

function putRoom(room: Room): void {
  rooms.value = new Map(rooms.value).set(room.id, room);
}

/** `reason` is shown if the room is open. */
function removeRoom(id: string, reason?: string): void {
  const next = new Map(rooms.value);
  const room = next.get(id);
  if (room === undefined) return;
  next.delete(id);
  rooms.value = next;
  unfollow(`room:${id}`);
  if (openRoomId.value !== id) return;
  if (reason !== undefined) notify(`${roomName(room)}: ${reason}`, true);
  // At once, and not to return to: its address leads nowhere now.
  replaceRoute([]);
}

function byActivity(a: Room, b: Room): number {
  const [first, second] = [a.lastMessageAt ?? "", b.lastMessageAt ?? ""];
  return first > second ? -1 : first < second ? 1 : byName.compare(a.name, b.name);
}

function messageCreated(message: Message): void {
  const room = rooms.value.get(message.roomId);
  if (room === undefined || message.seq <= room.lastSeq) return;
  const isCounted = message.senderId === myId() || message.seq <= (countedTo.get(room.id) ?? 0);
  const isMention = message.mentions.room || message.mentions.principalIds.includes(myId());
  putRoom({
    ...room,
    lastSeq: message.seq,
    lastMessageAt: message.createdAt,
    unreadCount: room.unreadCount + (isCounted ? 0 : 1),
    mentionCount: room.mentionCount + (!isCounted && isMention ? 1 : 0),
    lastMessage: {
      id: message.id,
      seq: message.seq,
      senderId: message.senderId,
      senderName: nameOf(message.senderId),
      preview: message.text?.slice(0, PREVIEW_MAX) ?? null,
      hasFiles: message.files.length > 0,
      createdAt: message.createdAt,
      deletedAt: null,
    },
  });
}

/** Nobody says who came and left during an interruption: it is read. */
async function readPresence(): Promise<void> {
  const roomIds = roomList.peek().slice(0, PRESENT_ROOMS_MAX).map(({ id }) => id);
  if (roomIds.length === 0) return;
  const { items } = await get<{ items: { principalIds: string[] | null }[] }>("v1/collaboration/presence", { roomIds });
  online.value = new Set(items.flatMap(({ principalIds }) => principalIds ?? []));
}

effect(() => {
  // The first connection starts from a state that has it.
  if (connection.value !== "connected" || !areRoomsRead.peek()) return;
  sendReads();
  // Read with the next connection.
  readPresence().catch(() => undefined);
});

async function left(channel: string, principalId: string): Promise<void> {
  try {
    if (!(await presentIn(channel)).includes(principalId)) setOnline(principalId, false);
  } catch {
    // Without a connection nobody's presence is known.
  }
}

onEvent(receive);

/** Takes over what an event says; one that is received twice, or before what it changed was read, does no harm. */
function receive(event: LiveEvent, channel: string): void {
  const { type, data } = event;
  if (type === "message.created") return messageCreated(data.message);
  if (type === "message.deleted" || type === "message.updated") {
    const id = data.message?.id ?? data.messageId;
    const roomId = data.message?.roomId ?? data.roomId;
    const { lastMessage: last, unreadCount = 0 } = rooms.value.get(roomId) ?? {};
    if (unreadCount > 0 && (type === "message.deleted" || data.changes.mentions)) readAgain(roomId);
    if (last?.id === id) {
      const preview = type === "message.deleted" ? null : data.changes.text ?? last?.preview ?? null;
      const deletedAt = type === "message.deleted" ? event.at : null;
      if (last) patchRoom(roomId, { lastMessage: { ...last, preview, deletedAt } });
    }
    return;
  }
  if (type === "read.updated") return setUnread(data);
  if (type === "room_settings.updated") return patchRoom(data.roomId, { mySettings: data.settings });
  if (type === "room.updated" || type === "room.archived") {
    patchRoom(data.roomId, data.changes);
    // One that is restored is not known; without a connection, all rooms are read with the next one.
    if (data.changes.state === "active" && !rooms.value.has(data.roomId)) readRoom(data.roomId).catch(() => undefined);
    return;
  }
  if (type === "principal.erased") return forgetPerson(data.principalId);
  if (type === "room.deleted") return removeRoom(data.roomId, "this room was deleted");
  if (type === "member.joined" || type === "member.left" || type === "member.updated") {
    const isMe = data.principalId === myId();
    patchRoom(data.roomId, { memberCount: data.memberCount });
    if (data.displayName !== undefined) addPeople([{ ...data, id: data.principalId }]);
    if (isMe && type === "member.left") removeRoom(data.roomId, "you are no longer a member");
    else if (isMe && !rooms.value.has(data.roomId)) readRoom(data.roomId).catch(() => undefined); // read with the next event
    else if (isMe) patchRoom(data.roomId, { myRole: data.role });
    return;
  }
  if (type === "presence.join") return setOnline(data.principalId, true);
  if (type === "presence.leave") void left(channel, data.principalId);
}
