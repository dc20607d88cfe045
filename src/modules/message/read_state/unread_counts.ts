// Cached unread counts, so that readers with long unread ranges do not cost a long count for each request.
import { createYielder } from "@/core/caller.ts";
import { LruMap } from "@/core/lru_map.ts";
import { NO_UNREAD, type ReadPosition, type UnreadCount, type UnreadCounts } from "@/modules/room/mod.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import type { MessageTables } from "../store.ts";
import { COUNT_MAX, ReadStateStore, type UnreadRange } from "./store.ts";

/** A count that is valid for a head of the stream, from which counting continues. */
type CachedCount = { counts: UnreadCount; lastReadSeq: number; head: number };
type RoomCount = { room: ReadPosition; key: string; counted: CachedCount };

const CACHE_MAX = 50_000;
/** Rooms per batch: bounded by the time on this thread on SQLite, by the size of a statement on PostgreSQL. */
const BATCH = { sqlite: 4, postgres: 50 };
/** If a cached count is older than this many events, a new count is as cheap as reading these events. */
const INCREMENT_MAX = 1000;

/**
 * A count depends on the reader, the read position and the room's stream up to its head; every change of it moves the head in
 * the same commit. So a cached count is valid for its head, and can be continued to a later one unless an event in between
 * changed older messages.
 */
export class UnreadCounter {
  readonly #store: Store<MessageTables>;
  readonly #cache = new LruMap<string, CachedCount>(CACHE_MAX);

  constructor(store: Store<MessageTables>) {
    this.#store = store;
  }

  /**
   * Counts by room for these read positions and heads; a room without unread messages may be absent. Yields between batches,
   * so that a reader with many unread rooms does not block others.
   */
  async count(
    tenantId: string,
    principalId: string,
    rooms: readonly ReadPosition[],
    db: AnyDatabase = this.#store.db,
  ): Promise<UnreadCounts> {
    const unread = rooms.filter(({ lastReadSeq, head }) => head > lastReadSeq);
    const size = BATCH[this.#store.dialect];
    const counts = new Map<string, UnreadCount>();
    const yieldIfDue = createYielder();
    // A pause inside a transaction would only extend its locks.
    const pause = (): Promise<unknown> => this.#store.isInTransaction ? Promise.resolve() : yieldIfDue();
    for (let at = 0; at < unread.length; at += size) {
      if (at > 0) await pause();
      const batch = await this.#countBatch(db, tenantId, principalId, unread.slice(at, at + size), pause);
      for (const { room, counted } of batch) counts.set(room.id, counted.counts);
    }
    return counts;
  }

  async #countBatch(
    db: AnyDatabase,
    tenantId: string,
    principalId: string,
    rooms: readonly ReadPosition[],
    pause: () => Promise<unknown>,
  ): Promise<RoomCount[]> {
    const { dialect, isInTransaction } = this.#store;
    const readState = new ReadStateStore(db, dialect);
    const results = rooms.map((room): RoomCount => {
      const key = `${tenantId}/${room.id}/${principalId}`;
      // The state inside a transaction, also an enclosing one, may never be committed.
      return { room, key, counted: isInTransaction ? zeroCount(room) : this.#cached(key, room) };
    });
    const moved = results.filter(({ room, counted }) => room.lastReadSeq < counted.head && counted.head < room.head);
    const areValid = moved.length === 0 ? [] : await readState.areAppendOnly(tenantId, moved.map(uncountedRange));
    for (const [n, result] of moved.entries()) if (!areValid[n]) result.counted = zeroCount(result.room);
    const open = results.filter(({ room, counted }) => counted.head < room.head);
    const added = open.length === 0
      ? []
      : await readState.countUnread(tenantId, principalId, open.map(uncountedRange), pause);
    for (const [n, result] of open.entries()) {
      const { lastReadSeq, head } = result.room;
      result.counted = { counts: sum(result.counted.counts, added[n] ?? NO_UNREAD), lastReadSeq, head };
      if (!isInTransaction) this.#cache.set(result.key, result.counted);
    }
    return results;
  }

  /** The start of counting: the cached count if it is for this read position and recent enough. */
  #cached(key: string, room: ReadPosition): CachedCount {
    const cached = this.#cache.get(key);
    const isUsable = cached?.lastReadSeq === room.lastReadSeq && cached.head <= room.head &&
      room.head - cached.head <= INCREMENT_MAX;
    return isUsable ? cached : zeroCount(room);
  }
}

function zeroCount({ lastReadSeq }: ReadPosition): CachedCount {
  return { counts: NO_UNREAD, lastReadSeq, head: lastReadSeq };
}

/** The part of the stream that is still to be counted. */
function uncountedRange({ room, counted }: RoomCount): UnreadRange {
  return { roomId: room.id, after: counted.head, upTo: room.head };
}

function sum(one: UnreadCount, other: UnreadCount): UnreadCount {
  return {
    unreadCount: Math.min(COUNT_MAX, one.unreadCount + other.unreadCount),
    mentionCount: Math.min(COUNT_MAX, one.mentionCount + other.mentionCount),
  };
}
