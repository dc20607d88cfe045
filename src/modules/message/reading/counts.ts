// Unread counts, remembered: whoever has not read for long must not cost a long count each time their room is looked at.
import { RecentMap } from "@/core/recent_map.ts";
import type { Store } from "@/ports/store.ts";
import { COUNT_MAX, MessageStore, type MessageTables } from "../store.ts";

type Counts = { unreadCount: number; mentionCount: number };
type Behind = { id: string; lastReadSeq: number; head: number };
type Remembered = { counts: Counts; lastReadSeq: number; head: number };

const REMEMBERED_MAX = 50_000;
/** Further behind than this a fresh count is as cheap as looking at what happened since. */
const STEP_MAX = 1000;

/**
 * A count depends on who reads, from which position, and on the room's line up to its head; whatever changes it moves the
 * head in the same commit. So a remembered count is right for its head, and can be carried on to a later one as long as
 * nothing in between changed older messages.
 */
export class UnreadCounts {
  readonly #store: Store<MessageTables>;
  readonly #remembered = new RecentMap<string, Remembered>(REMEMBERED_MAX);

  constructor(store: Store<MessageTables>) {
    this.#store = store;
  }

  async count(tenantId: string, principalId: string, rooms: readonly Behind[]): Promise<ReadonlyMap<string, Counts>> {
    const counts = await Promise.all(rooms.map((room) => this.#one(tenantId, principalId, room)));
    return new Map(rooms.flatMap(({ id }, place) => counts[place] === undefined ? [] : [[id, counts[place]]]));
  }

  async #one(tenantId: string, principalId: string, { id, lastReadSeq, head }: Behind): Promise<Counts> {
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
