// Threads that a principal takes part in. What is read in them is the read position of their room: they have none of their own.
import type { Actor } from "@/core/actor.ts";
import { createYielder } from "@/core/caller.ts";
import { principalEvent } from "@/core/event/event.ts";
import { notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { type Cursors, inChunks } from "@/core/page.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { hiddenUpTo, type RoomAccess, type RoomPeople } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { MessageAccess } from "../message_access.ts";
import type { MessageService } from "../service.ts";
import { MessageStore, type MessageTables } from "../store.ts";
import type { Thread, ThreadList, Threads } from "./schema.ts";
import { type FoundThread, ThreadStore } from "./store.ts";

/** Threads whose rooms and unread replies are read together. */
const CHUNK = 50;

type ReadableThread = FoundThread & { unread: number };

type Deps = {
  store: Store<MessageTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  people: RoomPeople;
  messages: Pick<MessageService, "present">;
};

export class ThreadService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Threads of the caller in rooms where it is a member now, those with the newest replies first. */
  async list(actor: Actor, { limit, cursor, roomId, unread, include }: ThreadList): Promise<Threads> {
    const { store, cursors, people } = this.#deps;
    const bind = ["thread.list", actor.tenantId, actor.principalId, roomId ?? null, unread ?? null];
    const found = await new ThreadStore(store.db).find(actor, {
      roomId,
      mayBeUnread: unread === true,
      after: cursors.decode(cursor, bind),
    });
    const yieldIfDue = createYielder();
    const threads: ReadableThread[] = [];
    for (const some of inChunks(found, CHUNK)) {
      const readable = await this.#readable(actor, some);
      threads.push(...readable.filter((thread) => unread === undefined || thread.unread > 0 === unread));
      if (threads.length > limit) break;
      await yieldIfDue();
    }
    const page = cursors.page(threads, limit, bind, ({ last_reply_at, id }) => [last_reply_at ?? "", id], (row) => row);
    const items = await this.#present(actor, page.items);
    const shown = items.flatMap(({ root, replies }) => [root, ...replies]);
    return include.includes("senders")
      ? { ...page, items, senders: await people.sendersOf(actor, shown) }
      : { ...page, items };
  }

  /** Whether the caller follows a thread, given by its root or a reply; idempotent. */
  async follow(context: Context, id: string, isFollowed: boolean): Promise<void> {
    const { store, clock, roomAccess } = this.#deps;
    const { actor } = context;
    await store.write(async (tx) => {
      const { row } = await new MessageAccess({ store, roomAccess }).requireForUpdate(tx, context, id);
      const threadId = row.thread_id ?? row.id;
      // A root expires before its replies, and with it who follows it.
      if (await new MessageStore(tx.db).find(actor.tenantId, threadId) === undefined) throw notVisible("message");
      const isNew = await new ThreadStore(tx.db).setFollowing({
        tenant_id: actor.tenantId,
        message_id: threadId,
        principal_id: actor.principalId,
        active_at: iso(clock.now()),
        following: isFollowed ? 1 : 0,
      });
      if (!isNew) return;
      const type = isFollowed ? "thread.followed" : "thread.unfollowed";
      await tx.emit(principalEvent(actor, actor.principalId, type, { roomId: row.room_id, threadId }));
    });
  }

  /** Those that the caller sees as a member of their rooms. */
  async #readable(actor: Actor, found: readonly FoundThread[]): Promise<ReadableThread[]> {
    const { store, roomAccess } = this.#deps;
    const rooms = await roomAccess.findMany(actor, found.map(({ room_id }) => room_id));
    const visible = found.filter(({ room_id, seq }) => {
      const grant = rooms.get(room_id);
      return grant !== undefined && grant.role !== null && seq > hiddenUpTo(grant);
    });
    const { tenantId, principalId } = actor;
    const counts = await new ThreadStore(store.db).unreadCounts(tenantId, principalId, visible.map(({ id }) => id));
    return visible.map((thread) => ({ ...thread, unread: counts.get(thread.id) ?? 0 }));
  }

  async #present(actor: Actor, threads: readonly ReadableThread[]): Promise<Thread[]> {
    const { store, messages } = this.#deps;
    const ids = threads.map(({ id }) => id);
    const [roots, replies] = [
      await new MessageStore(store.db).findMany(actor.tenantId, ids),
      await new ThreadStore(store.db).newestReplies(actor.tenantId, ids),
    ];
    const shown = await messages.present(actor, [...roots, ...replies]);
    const byId = new Map(shown.map((message) => [message.id, message]));
    const byRoot = Map.groupBy(shown, ({ threadId }) => threadId);
    return threads.flatMap(({ id, unread }) => {
      const root = byId.get(id);
      return root === undefined ? [] : [{ root, unreadCount: unread, replies: byRoot.get(id) ?? [] }];
    });
  }
}
