// A client that updates its state by events alone, as a real one would, to verify that events are sufficient.
import assert from "node:assert/strict";
import type { Caller } from "../../harness.ts";
import { ok } from "../fixtures.ts";

// deno-lint-ignore no-explicit-any -- bodies of every shape
type Any = any;

/** What one person sees of one room. */
type RoomState = {
  room: Any;
  members: Map<string, Any>;
  messages: Map<string, Any>;
  pins: Set<string>;
  /** Position up to which events are applied. */
  seq: number;
  /** What of the past is shown has changed, so it must be read again. */
  isStale?: true;
};

export class SyncClient {
  readonly me: string;
  readonly rooms = new Map<string, RoomState>();
  readonly notifications = new Map<string, Any>();
  cursor = "";
  unreadNotificationCount = 0;
  /** Events applied so far, by type. */
  readonly applied = new Map<string, number>();
  readonly #caller: Caller;
  readonly #positions = new Map<string, number>();

  constructor(me: string, caller: Caller) {
    this.me = me;
    this.#caller = caller;
  }

  /** State fetched fresh, without events. */
  static async fromSnapshot(me: string, caller: Caller): Promise<SyncClient> {
    const client = new SyncClient(me, caller);
    await client.#applySync(ok(await caller.get("/v1/collaboration/sync")));
    const { items } = ok(await caller.get("/v1/collaboration/notifications?limit=200"));
    // These are read with the list, and are in no event.
    for (const { preview: _, title: _title, data: _data, ...item } of items) client.notifications.set(item.id, item);
    return client;
  }

  /** Everything that happened since, applied. */
  async catchUp(): Promise<void> {
    const sync = ok(await this.#caller.get(`/v1/collaboration/sync?since=${encodeURIComponent(this.cursor)}`));
    assert.equal(sync.limited, false);
    await this.#applySync(sync);
  }

  /** State in a form that two clients can be compared by. */
  state(): Any {
    const sorted = <Value>(map: Map<string, Value>): [string, Value][] =>
      [...map].toSorted(([a], [b]) => a < b ? -1 : 1);
    return {
      rooms: sorted(this.rooms).map(([id, { room, members, messages, pins, seq }]) => ({
        id,
        room,
        seq,
        members: sorted(members),
        messages: sorted(messages),
        pins: [...pins].toSorted(),
      })),
      notifications: sorted(this.notifications),
      unreadNotificationCount: this.unreadNotificationCount,
    };
  }

  async #applySync(sync: Any): Promise<void> {
    for (const event of sync.events) this.#apply(event);
    for (const id of sync.leftRoomIds) this.rooms.delete(id);
    for (const room of sync.rooms) await this.#loadRoom(room);
    for (const { room, isStale } of [...this.rooms.values()]) {
      if (isStale) await this.#loadRoom(ok(await this.#caller.get(`/v1/rooms/${room.id}`)));
    }
    for (const { channel, offset } of sync.positions) {
      const known = this.#positions.get(channel);
      const events = sync.events.filter((event: Any) => event.channel === channel);
      // Without a gap and without a duplicate: each event follows the one before, up to the given position.
      if (known !== undefined && events.length > 0) {
        assert.deepEqual(events.map((event: Any) => event.seq), range(known + 1, offset), channel);
      }
      this.#positions.set(channel, offset);
    }
    // What the client counted by itself must be what the server counts.
    for (const unread of sync.unreads) {
      const state = this.rooms.get(unread.roomId);
      assert.deepEqual(
        [state?.room.lastReadSeq, state?.room.unreadCount, state?.room.mentionCount],
        [unread.lastReadSeq, unread.unreadCount, unread.mentionCount],
        `${this.me} counts by events`,
      );
    }
    this.cursor = sync.cursor;
    if (sync.events.length > 0) assert.equal(this.unreadNotificationCount, sync.unreadNotificationCount);
    this.unreadNotificationCount = sync.unreadNotificationCount;
  }

  async #loadRoom(room: Any): Promise<void> {
    const { members, ...rest } = ok(await this.#caller.get(`/v1/rooms/${room.id}?include=members`));
    assert.deepEqual(rest, room);
    const { items } = ok(await this.#caller.get(`/v1/messages?roomId=${room.id}&limit=200`));
    const pins = ok(await this.#caller.get(`/v1/rooms/${room.id}/pins`)).items;
    this.rooms.set(room.id, {
      room,
      members: new Map(members.map((member: Any) => [member.principalId, member])),
      messages: new Map(items.map((message: Any) => [message.id, sortReactions(message)])),
      pins: new Set(pins.map((message: Any) => message.id)),
      seq: room.lastSeq,
    });
  }

  #apply(event: Any): void {
    this.applied.set(event.type, (this.applied.get(event.type) ?? 0) + 1);
    if (event.channel === `principal:${this.me}`) return this.#applyPrincipalEvent(event);
    const state = this.rooms.get(event.channel.slice("room:".length));
    if (state === undefined) return;
    assert.equal(event.seq, state.seq + 1);
    state.seq = event.seq;
    state.room.lastSeq = event.seq;
    this.#applyRoomEvent(state, event);
  }

  #applyPrincipalEvent({ type, data }: Any): void {
    if (type === "member.left" || type === "room.deleted") this.rooms.delete(data.roomId);
    if (type === "read.updated") {
      const state = this.rooms.get(data.roomId);
      if (state === undefined) return;
      state.room.lastReadSeq = data.lastReadSeq;
      const me = state.members.get(this.me);
      if (me !== undefined) me.lastReadSeq = data.lastReadSeq;
      state.room.unreadCount = data.unreadCount;
      state.room.badgeCount = data.badgeCount;
      state.room.mentionCount = data.mentionCount;
      state.room.countedAt = data.lastSeq;
    }
    if (type === "notification.created" || type === "notification.updated") {
      const before = this.notifications.get(data.notification.id);
      this.unreadNotificationCount += Number(data.notification.readAt === null) - Number(before?.readAt === null);
      this.notifications.set(data.notification.id, data.notification);
    }
    if (type === "notification.removed") {
      for (const id of data.notificationIds) {
        if (this.notifications.get(id)?.readAt === null) this.unreadNotificationCount--;
        this.notifications.delete(id);
      }
    }
    if (type === "notification.read") {
      for (const [id, one] of this.notifications) {
        const fits = one.readAt === null && (data.upToId === null || id <= data.upToId) &&
          (data.roomId === null || one.roomId === data.roomId) &&
          (data.upToSeq === null || (one.seq !== null && one.seq <= data.upToSeq));
        if (!fits) continue;
        this.unreadNotificationCount--;
        this.notifications.set(id, { ...one, readAt: data.readAt, version: one.version + 1 });
      }
    }
  }

  #applyRoomEvent(state: RoomState, { type, seq, at, actor, data }: Any): void {
    const { room, messages, members, pins } = state;
    // A count that came with read.updated is true up to its own position already.
    const counts = (room.countedAt ?? 0) < seq;
    const count = (message: Any, mentions: Any, unread: number, mentioned: number): void => {
      if (!counts || message.senderId === this.me || message.seq <= room.lastReadSeq) return;
      room.unreadCount += unread;
      // Everybody has the level all.
      room.badgeCount = room.unreadCount;
      if (mentions.room || mentions.principalIds.includes(this.me)) room.mentionCount += mentioned;
    };
    const mine = (message: Any): Any => ({
      ...message,
      reactions: message.reactions.map((reaction: Any) => ({
        ...reaction,
        me: messages.get(message.id)?.reactions.find(({ key }: Any) => key === reaction.key)?.me ?? false,
      })),
    });
    switch (type) {
      case "message.created": {
        const { message, thread } = data;
        messages.set(message.id, message);
        room.lastMessageAt = message.createdAt;
        const root = messages.get(message.threadId);
        if (root !== undefined) {
          const { replyCount, lastReplyAt } = thread ??
            { replyCount: root.replyCount + 1, lastReplyAt: message.createdAt };
          messages.set(root.id, { ...root, replyCount, lastReplyAt });
        }
        return count(message, message.mentions, 1, 1);
      }
      case "message.updated": {
        const message = messages.get(data.messageId);
        assert.ok(message, `${this.me} hears only of messages that it sees`);
        assert.deepEqual(data.omitted, []);
        messages.set(message.id, { ...message, ...data.changes });
        count(data, data.previousMentions, 0, -1);
        return count(data, data.mentions, 0, 1);
      }
      case "message.deleted":
        pins.delete(data.message.id);
        assert.ok(messages.has(data.message.id), `${this.me} hears only of messages that it sees`);
        messages.set(data.message.id, data.message);
        return count(data.message, data.previousMentions, -1, -1);
      case "thread.updated": {
        const root = messages.get(data.threadId);
        const { replyCount, lastReplyAt } = data;
        assert.ok(root, `${this.me} hears only of threads that it sees`);
        messages.set(root.id, { ...root, replyCount, lastReplyAt });
        return;
      }
      case "reaction.added":
      case "reaction.removed": {
        const message = messages.get(data.messageId);
        assert.ok(message, `${this.me} hears only of messages that it sees`);
        const after = mine({ ...message, reactions: data.reactions });
        const own = after.reactions.find(({ key }: Any) => key === data.key);
        if (own !== undefined && data.principalId === this.me) own.me = type === "reaction.added";
        messages.set(message.id, sortReactions(after));
        return;
      }
      case "message.pinned":
      case "message.unpinned": {
        const message = messages.get(data.messageId);
        const pinned = type === "message.pinned";
        assert.ok(message, `${this.me} hears only of messages that it sees`);
        messages.set(message.id, { ...message, pinned });
        pins[pinned ? "add" : "delete"](data.messageId);
        return;
      }
      case "message.hidden":
        assert.deepEqual([actor, data], [null, {}]);
        return;
      case "member.joined":
        members.set(data.principalId, { role: data.role, joinedAt: at });
        room.memberCount = data.memberCount;
        return;
      case "member.updated":
        Object.assign(members.get(data.principalId), { role: data.role });
        if (data.displayName !== undefined) {
          Object.assign(members.get(data.principalId), {
            displayName: data.displayName,
            avatarFileId: data.avatarFileId,
            status: data.status,
          });
        }
        if (data.principalId === this.me) room.myRole = data.role;
        return;
      case "member.left":
        members.delete(data.principalId);
        room.memberCount = data.memberCount;
        return;
      case "room.updated":
      case "room.archived":
        if (data.changes.historyVisibility !== undefined) state.isStale = true;
        assert.deepEqual(data.omitted, []);
        Object.assign(room, data.changes);
        return;
      default:
        throw new Error(`${type} by ${actor?.id} is not known to this client`);
    }
  }
}

/** Compares two states; of members only what events say of them, and no note of the client itself. */
export function assertSameState(actual: SyncClient, expected: SyncClient): void {
  assert.deepEqual(toComparable(actual), toComparable(expected));
}

function toComparable(client: SyncClient): Any {
  const { rooms, ...rest } = client.state();
  return {
    ...rest,
    rooms: rooms.map((state: Any) => ({
      ...state,
      room: { ...state.room, countedAt: undefined },
      members: state.members.map(([id, { role, joinedAt }]: Any) => [id, role, joinedAt]),
    })),
  };
}

function sortReactions(message: Any): Any {
  return {
    ...message,
    // Who reacted first is not in events.
    reactions: message.reactions.map(({ principalIds: _, ...reaction }: Any) => reaction)
      .toSorted((a: Any, b: Any) => a.key < b.key ? -1 : 1),
  };
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, at) => from + at);
}
