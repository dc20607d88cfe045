// Read state: one position per room and principal in the room's stream, shared by all devices. Reading only
// moves it forward, so that a late call does no harm; only marking a message as unread moves it back.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { inChunks } from "@/core/page.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import {
  badgeCount,
  NO_UNREAD,
  readerOf,
  readPositions,
  type RoomAccess,
  type RoomReadState,
  type UnreadCounts,
} from "@/modules/room/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import { MessageAccess } from "../message_access.ts";
import type { MessageTables } from "../store.ts";
import type { UnreadCounter } from "./unread_counts.ts";
import { type AllRead, READ_BATCH, type ReadPut, type Unread } from "./schema.ts";
import { ReadStateStore } from "./store.ts";

type Deps = {
  store: Store<MessageTables>;
  clock: Clock;
  roomAccess: RoomAccess;
  notifications: NotificationService;
  unreads: UnreadCounter;
};

export class ReadStateService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Moves the caller's read position; marks notifications about the room up to it as read. */
  markRead(context: Context, { id: roomId, seq: requested }: ReadPut): Promise<Unread> {
    const { actor } = context;
    const { tenantId, principalId } = actor;
    const { store, roomAccess, notifications } = this.#deps;
    return store.write(async (tx) => {
      const { room } = await roomAccess.require(context, roomId, { tx });
      const head = room.head ?? 0;
      const seq = requested === "all" ? head : requested;
      if (seq > head) {
        throw Fault.forField("/seq", "beyond_last", `expected at most ${head}, the last position of the room`);
      }
      const readState = new ReadStateStore(tx.db, store.dialect);
      const hasMoved = await readState.moveReadPosition(tenantId, roomId, principalId, seq);
      const unread = await this.#publish(tx, actor, roomId, hasMoved);
      if (hasMoved) await notifications.markReadUpTo(actor, { roomId, upToSeq: seq });
      return unread;
    });
  }

  /** Moves the caller's read position back to before a message, unless that is unread. */
  markUnread(context: Context, messageId: string): Promise<Unread> {
    const { actor } = context;
    const { store, roomAccess } = this.#deps;
    return store.write(async (tx) => {
      const { row } = await new MessageAccess({ store, roomAccess }).require(context, messageId, tx);
      const readState = new ReadStateStore(tx.db, store.dialect);
      const hasMoved = await readState.moveReadPositionBefore(actor.tenantId, row.room_id, actor.principalId, row.seq);
      return await this.#publish(tx, actor, row.room_id, hasMoved);
    });
  }

  /** The counts of a room, published if its read position moved. */
  async #publish(tx: Transaction<MessageTables>, actor: Actor, roomId: string, hasMoved: boolean): Promise<Unread> {
    const { tenantId, principalId } = actor;
    const [unread] = await this.list(actor, [roomId], tx.db);
    if (unread === undefined) throw notVisible("room");
    const stream = principalStream(principalId);
    if (hasMoved) await tx.emit({ tenantId, stream, type: "read.updated", actor, data: unread });
    return unread;
  }

  /** Moves the caller's read positions to the end of all rooms, `READ_BATCH` rooms per transaction. */
  async markAllRead(actor: Actor): Promise<AllRead> {
    const { store } = this.#deps;
    const viewer = { ...readerOf(actor), tenantId: actor.tenantId };
    const rooms = await new ReadStateStore(store.db, store.dialect).memberRooms(viewer);
    const unread = rooms.filter(({ head, my_last_read_seq }) => (head ?? 0) > (my_last_read_seq ?? 0));
    let roomCount = 0;
    for (const ids of inChunks(unread.map(({ id }) => id), READ_BATCH)) {
      roomCount += await this.#markBatchRead(actor, ids);
    }
    return { roomCount };
  }

  #markBatchRead(actor: Actor, roomIds: readonly string[]): Promise<number> {
    const { tenantId, principalId } = actor;
    const { store, notifications } = this.#deps;
    return store.write(async (tx) => {
      const moved = await new ReadStateStore(tx.db, store.dialect).moveReadPositionsToEnd(
        tenantId,
        principalId,
        roomIds,
      );
      const read = moved.map(({ room_id: roomId, last_read_seq }): Unread => {
        const lastSeq = Number(last_read_seq);
        return { roomId, lastReadSeq: lastSeq, ...NO_UNREAD, badgeCount: 0, lastSeq };
      });
      const notified = await notifications.unreadRooms(actor, tx.db);
      for (const { roomId, lastSeq: upToSeq } of read) {
        if (notified.has(roomId)) await notifications.markReadUpTo(actor, { roomId, upToSeq });
      }
      const stream = principalStream(principalId);
      await tx.emit(...read.map((data) => ({ tenantId, stream, type: "read.updated", actor, data })));
      return read.length;
    });
  }

  /** Unread counts of the caller's rooms; rooms without membership are omitted. */
  async list(actor: Actor, roomIds?: readonly string[], db: AnyDatabase = this.#deps.store.db): Promise<Unread[]> {
    if (roomIds?.length === 0) return [];
    const viewer = { ...readerOf(actor), tenantId: actor.tenantId };
    const { store, unreads } = this.#deps;
    const rooms = await new ReadStateStore(db, store.dialect).memberRooms(viewer, roomIds);
    const counts = await unreads.count(actor.tenantId, actor.principalId, rooms.flatMap(readPositions), db);
    return rooms.map((room) => presentUnread(room, counts, this.#deps.clock.now()));
  }
}

/** The unread counts of a room; `now` decides whether it is muted. */
export function presentUnread(room: RoomReadState, counts: UnreadCounts, now: number): Unread {
  const unread = counts.get(room.id) ?? NO_UNREAD;
  return {
    roomId: room.id,
    lastReadSeq: room.my_last_read_seq ?? 0,
    ...unread,
    badgeCount: badgeCount(room, unread, now),
    lastSeq: room.head ?? 0,
  };
}
