// Unread counts, remembered: whoever has not read for long must not cost a long count each time their room is looked at.
import { turns } from "@/core/clock.ts";
import { RecentMap } from "@/core/recent_map.ts";
import { NOTHING_UNREAD, type ReadPosition, type UnreadCount, type UnreadCounts } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { COUNT_MAX, MessageStore, type MessageTables } from "../store.ts";

type Remembered = { counts: UnreadCount; lastReadSeq: number; head: number };

const REMEMBERED_MAX = 50_000;
/** Rooms counted side by side; where counting keeps this thread busy, so many at a time. */
const AT_ONCE = 4;
/** Further behind than this a fresh count is as cheap as looking at what happened since. */
const STEP_MAX = 1000;

/**
 * A count depends on who reads, from which position, and on the room's line up to its head; whatever changes it moves the
 * head in the same commit. So a remembered count is right for its head, and can be carried on to a later one as long as
 * nothing in between changed older messages.
 */
export class UnreadCounter {
  readonly #store: Store<MessageTables>;
  readonly #remembered = new RecentMap<string, Remembered>(REMEMBERED_MAX);

  constructor(store: Store<MessageTables>) {
    this.#store = store;
  }

  /** Of members with these positions, in rooms with these heads; those who are behind in many rooms keep nobody waiting. */
  async count(tenantId: string, principalId: string, rooms: readonly ReadPosition[]): Promise<UnreadCounts> {
    const counts: UnreadCount[] = [];
    const rest = turns();
    for (let at = 0; at < rooms.length; at += AT_ONCE) {
      // A transaction keeps everybody waiting for as long as it takes.
      if (at > 0 && !this.#store.isInTransaction) await rest();
      counts.push(
        ...await Promise.all(rooms.slice(at, at + AT_ONCE).map((room) => this.#one(tenantId, principalId, room))),
      );
    }
    return new Map(rooms.map(({ id }, place) => [id, counts[place] ?? NOTHING_UNREAD]));
  }

  async #one(tenantId: string, principalId: string, { id, lastReadSeq, head }: ReadPosition): Promise<UnreadCount> {
    if (head <= lastReadSeq) return NOTHING_UNREAD;
    const messages = new MessageStore(this.#store.db);
    // What a transaction sees may never come to be.
    if (this.#store.isInTransaction) {
      return await messages.countUnread(tenantId, id, principalId, { after: lastReadSeq, upTo: head });
    }
    const key = `${tenantId}/${id}/${principalId}`;
    const known = this.#remembered.get(key);
    const before = known?.lastReadSeq === lastReadSeq && known.head <= head ? known : undefined;
    if (before?.head === head) return before.counts;
    const isNear = before !== undefined && head - before.head <= STEP_MAX &&
      await messages.isOnlyAppended(tenantId, id, before.head, head);
    const added = await messages.countUnread(tenantId, id, principalId, {
      after: isNear ? before.head : lastReadSeq,
      upTo: head,
    });
    const counts = isNear
      ? {
        unreadCount: Math.min(COUNT_MAX, before.counts.unreadCount + added.unreadCount),
        mentionCount: Math.min(COUNT_MAX, before.counts.mentionCount + added.mentionCount),
      }
      : added;
    this.#remembered.set(key, { counts, lastReadSeq, head });
    return counts;
  }
}
