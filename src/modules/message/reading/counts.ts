// Unread counts, remembered: whoever has not read for long must not cost a long count each time their room is looked at.
import { turns } from "@/core/clock.ts";
import { RecentMap } from "@/core/recent_map.ts";
import { NOTHING_UNREAD, type ReadPosition, type UnreadCount, type UnreadCounts } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { MessageTables } from "../store.ts";
import { COUNT_MAX, ReadingStore, type Span } from "./store.ts";

/** A count that is true for a head, from which counting goes on. */
type Base = { counts: UnreadCount; lastReadSeq: number; head: number };
type Line = { room: ReadPosition; key: string; base: Base };

const REMEMBERED_MAX = 50_000;
/** Rooms counted at once: so many that this thread is not kept busy for long, or as many as one statement should do. */
const AT_ONCE = { sqlite: 4, postgres: 50 };
/** Further behind than this a fresh count is as cheap as looking at what happened since. */
const STEP_MAX = 1000;

/**
 * A count depends on who reads, from which position, and on the room's line up to its head; whatever changes it moves the
 * head in the same commit. So a remembered count is right for its head, and can be carried on to a later one as long as
 * nothing in between changed older messages.
 */
export class UnreadCounter {
  readonly #store: Store<MessageTables>;
  readonly #remembered = new RecentMap<string, Base>(REMEMBERED_MAX);

  constructor(store: Store<MessageTables>) {
    this.#store = store;
  }

  /**
   * Of members with these positions, in rooms with these heads; where nothing is unread there may be no count. Those who are
   * behind in many rooms keep nobody waiting.
   */
  async count(tenantId: string, principalId: string, rooms: readonly ReadPosition[]): Promise<UnreadCounts> {
    const behind = rooms.filter(({ lastReadSeq, head }) => head > lastReadSeq);
    const atOnce = AT_ONCE[this.#store.dialect];
    const counts = new Map<string, UnreadCount>();
    const rest = turns();
    for (let at = 0; at < behind.length; at += atOnce) {
      // A transaction keeps everybody waiting for as long as it takes.
      if (at > 0 && !this.#store.isInTransaction) await rest();
      for (const { room, base } of await this.#some(tenantId, principalId, behind.slice(at, at + atOnce))) {
        counts.set(room.id, base.counts);
      }
    }
    return counts;
  }

  async #some(tenantId: string, principalId: string, rooms: readonly ReadPosition[]): Promise<Line[]> {
    const { db, dialect, isInTransaction } = this.#store;
    const readings = new ReadingStore(db, dialect);
    const lines = rooms.map((room): Line => {
      const key = `${tenantId}/${room.id}/${principalId}`;
      // What a transaction sees may never come to be.
      return { room, key, base: isInTransaction ? startOf(room) : this.#known(key, room) };
    });
    const moved = lines.filter(({ room, base }) => room.lastReadSeq < base.head && base.head < room.head);
    const areFit = moved.length === 0 ? [] : await readings.areOnlyAppended(tenantId, moved.map(spanOf));
    for (const [n, line] of moved.entries()) if (!areFit[n]) line.base = startOf(line.room);
    const open = lines.filter(({ room, base }) => base.head < room.head);
    const added = open.length === 0 ? [] : await readings.countUnread(tenantId, principalId, open.map(spanOf));
    for (const [n, line] of open.entries()) {
      const { lastReadSeq, head } = line.room;
      line.base = { counts: sum(line.base.counts, added[n] ?? NOTHING_UNREAD), lastReadSeq, head };
      if (!isInTransaction) this.#remembered.set(line.key, line.base);
    }
    return lines;
  }

  /** Where counting begins: at what is remembered, if that is of this position and near. */
  #known(key: string, room: ReadPosition): Base {
    const known = this.#remembered.get(key);
    const isFit = known?.lastReadSeq === room.lastReadSeq && known.head <= room.head &&
      room.head - known.head <= STEP_MAX;
    return isFit ? known : startOf(room);
  }
}

function startOf({ lastReadSeq }: ReadPosition): Base {
  return { counts: NOTHING_UNREAD, lastReadSeq, head: lastReadSeq };
}

/** The part of the line that is still to be counted. */
function spanOf({ room, base }: Line): Span {
  return { roomId: room.id, after: base.head, upTo: room.head };
}

function sum(one: UnreadCount, other: UnreadCount): UnreadCount {
  return {
    unreadCount: Math.min(COUNT_MAX, one.unreadCount + other.unreadCount),
    mentionCount: Math.min(COUNT_MAX, one.mentionCount + other.mentionCount),
  };
}
