// Erases facts whose sources or rooms are erased, and those that have expired. All of it is safe to repeat.
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import type { Holds } from "@/core/hold.ts";
import type { JobDraft } from "@/core/job.ts";
import { inChunks, paginate } from "@/core/page.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { holdSubjectOfFact, lockOf } from "./access.ts";
import { SEARCH_KIND } from "./searchable.ts";
import { type ExpiredFact, type Fact, type MemoryScope, MemoryStore, type MemoryTables } from "./store.ts";
import type { MemoryWriter } from "./writer.ts";

/** Erases facts of messages that were deleted. */
export const ERASE_JOB = "memory.erase";
/** Facts erased in one transaction. */
const BATCH = 50;
const TOMBSTONE_DAYS = 30;

type Tx = Transaction<MemoryTables>;
type Deps = {
  store: Store<MemoryTables>;
  clock: Clock;
  writer: MemoryWriter;
  holds: Holds;
  /** Absent if search is off. */
  index: Pick<SearchIndex, "remove"> | undefined;
};

export class MemoryErasure {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Nobody can read the facts any more, since their sources are deleted; a job erases what is stored of them. */
  async eraseMessages(tenantId: string, messageIds: readonly string[]): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const counts = await new MemoryStore(tx.db).countBySource(tenantId, messageIds);
      if (counts.size > 0) await tx.enqueue(eraseJob(tenantId, [...counts.keys()]));
    });
  }

  /** Removes messages as sources, and erases the facts that have no other. */
  async eraseSources(tenantId: string, messageIds: readonly string[]): Promise<void> {
    const { store } = this.#deps;
    for (const ids of inChunks(await new MemoryStore(store.db).idsBySource(tenantId, messageIds), BATCH)) {
      await store.write(async (tx) => {
        for (const fact of await this.#lock(tx, tenantId, ids)) {
          await this.#removeSources(tx, fact, ({ message_id: id }) => messageIds.includes(id));
        }
      });
    }
  }

  /** Deletes the facts of a room, and erases those that have sources in it only. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#deleteScope(tenantId, { type: "room", id: roomId });
    const { store } = this.#deps;
    for (let isMore = true; isMore;) {
      isMore = await store.write(async (tx) => {
        const ids = await new MemoryStore(tx.db).idsBySourceRoom(tenantId, roomId, BATCH);
        for (const fact of await this.#lock(tx, tenantId, ids)) {
          await this.#removeSources(tx, fact, ({ room_id: id }) => id === roomId);
        }
        return ids.length > 0;
      });
    }
  }

  /** Erases facts in one transaction; those that are erased already are ignored. */
  eraseFacts(tenantId: string, ids: readonly string[]): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      const facts = await this.#lock(tx, tenantId, ids);
      for (const fact of facts) await this.#deps.writer.erase(tx, undefined, fact);
      return facts.length;
    });
  }

  /** Erases facts that have expired, and deletes what has been left of erased ones for long enough. */
  async purgeExpired(): Promise<void> {
    const { store, clock, writer, holds } = this.#deps;
    const now = iso(clock.now());
    const read = (last?: ExpiredFact) => new MemoryStore(store.db).expired(now, last, BATCH);
    for await (const expired of paginate(BATCH, read)) {
      for (const [tenantId, rows] of Map.groupBy(expired, (row) => row.tenant_id)) {
        await store.write(async (tx) => {
          for (const fact of await this.#lock(tx, tenantId, rows.map(({ id }) => id))) {
            if (fact.row.expires_at === null || fact.row.expires_at > now) continue;
            if (!await holds.isHeld(tx.db, tenantId, holdSubjectOfFact(fact))) await writer.erase(tx, undefined, fact);
          }
        });
      }
    }
    await store.write((tx) => new MemoryStore(tx.db).removeTombstones(iso(clock.now() - TOMBSTONE_DAYS * DAY_MS)));
  }

  async #deleteScope(tenantId: string, scope: MemoryScope): Promise<void> {
    const { store, index } = this.#deps;
    for (let isMore = true; isMore;) {
      isMore = await store.write(async (tx) => {
        const memories = new MemoryStore(tx.db);
        const ids = await memories.idsOfScope(tenantId, scope, "", BATCH);
        await index?.remove(tenantId, SEARCH_KIND, ids);
        await memories.erase(tenantId, ids, { withRows: true });
        return ids.length > 0;
      });
    }
  }

  async #removeSources(tx: Tx, fact: Fact, isErased: (source: Fact["sources"][number]) => boolean): Promise<void> {
    const erased = fact.sources.filter(isErased);
    if (erased.length === 0) return;
    if (erased.length === fact.sources.length) return await this.#deps.writer.erase(tx, undefined, fact);
    const { tenant_id: tenantId, id } = fact.row;
    await new MemoryStore(tx.db).removeSources(tenantId, id, erased.map(({ message_id }) => message_id));
    const sources = fact.sources.filter((source) => !erased.includes(source));
    const position = Math.max(...sources.map(({ seq }) => Number(seq)));
    await this.#deps.writer.saveSources(tx, { ...fact, sources, row: { ...fact.row, position } });
  }

  /** Facts that are not erased yet, read under the locks of their scopes. */
  async #lock(tx: Tx, tenantId: string, ids: readonly string[]): Promise<Fact[]> {
    const memories = new MemoryStore(tx.db);
    const found = await memories.findMany(tenantId, ids);
    const streams = found.map(({ row }) => lockOf({ type: row.scope_type, id: row.scope_id }));
    await tx.lock(tenantId, ...streams);
    return (await memories.findMany(tenantId, ids)).filter(({ row }) => row.status !== "forgotten");
  }
}

function eraseJob(tenantId: string, messageIds: readonly string[]): JobDraft {
  return { tenantId, kind: ERASE_JOB, payload: { messageIds } };
}
