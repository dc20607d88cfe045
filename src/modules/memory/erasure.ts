// Erases facts whose sources or rooms are erased, and those that have expired. All of it is safe to repeat.
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import type { Holds } from "@/core/hold.ts";
import type { JobDraft } from "@/core/job.ts";
import { inChunks, paginate } from "@/core/page.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { isHeldFact, lockOf } from "./access.ts";
import { SEARCH_KIND } from "./searchable.ts";
import {
  type ExpiredFact,
  type Fact,
  type MemoryScope,
  MemoryStore,
  type MemoryTables,
  type SourceRow,
} from "./store.ts";
import type { MemoryWriter } from "./writer.ts";

/** Erases facts of messages that were deleted, and those that were under a hold before. */
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

  /** Nobody can read the facts, since their sources are deleted; a job erases what is stored of them. */
  async eraseMessages(tenantId: string, messageIds: readonly string[]): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const counts = await new MemoryStore(tx.db).countBySource(tenantId, messageIds);
      if (counts.size > 0) await tx.enqueue(eraseJob(tenantId, { messageIds: [...counts.keys()] }));
    });
  }

  /** Removes messages as sources, and erases the facts that have no other; of those under a hold, after its release. */
  async eraseSources(tenantId: string, messageIds: readonly string[]): Promise<void> {
    const memories = new MemoryStore(this.#deps.store.db);
    const isSource = ({ message_id: id }: SourceRow): boolean => messageIds.includes(id);
    const ids = await memories.idsBySource(tenantId, messageIds);
    if (await this.#eraseAll(tenantId, ids, isSource)) await this.#postpone(eraseJob(tenantId, { messageIds }));
  }

  /** Deletes the facts of a room, and erases those that have sources in it only; those under a hold after its release. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    const memories = new MemoryStore(this.#deps.store.db);
    const isSource = ({ room_id: id }: SourceRow): boolean => id === roomId;
    let hasHeld = await this.#deleteScope(tenantId, { type: "room", id: roomId });
    const read = (last = "") => memories.idsBySourceRoom(tenantId, roomId, last, BATCH);
    for await (const ids of paginate(BATCH, read)) hasHeld = await this.#eraseAll(tenantId, ids, isSource) || hasHeld;
    if (hasHeld) await this.#postpone(eraseJob(tenantId, { roomId }));
  }

  /** Removes sources of facts; returns whether some are under a hold, which are left as they are. */
  async #eraseAll(
    tenantId: string,
    factIds: readonly string[],
    isErased: (source: SourceRow) => boolean,
  ): Promise<boolean> {
    let hasHeld = false;
    for (const ids of inChunks(factIds, BATCH)) {
      hasHeld = await this.#deps.store.write(async (tx) => {
        const held: string[] = [];
        for (const fact of await this.#lock(tx, tenantId, ids)) {
          if (fact.sources.every(isErased) && await isHeldFact(this.#deps.holds, tx.db, fact)) held.push(fact.row.id);
          else await this.#removeSources(tx, fact, isErased);
        }
        return held.length > 0;
      }) || hasHeld;
    }
    return hasHeld;
  }

  async #postpone(job: JobDraft): Promise<void> {
    const { store, clock } = this.#deps;
    await store.write((tx) => tx.enqueue({ ...job, runAt: clock.now() + DAY_MS }));
  }

  /** Erases facts in one transaction, but for those that are erased already; those under a hold after its release. */
  eraseFacts(tenantId: string, factIds: readonly string[]): Promise<number> {
    const { store, holds, writer } = this.#deps;
    return store.write(async (tx) => {
      const held: string[] = [];
      const facts = await this.#lock(tx, tenantId, factIds);
      for (const fact of facts) {
        if (await isHeldFact(holds, tx.db, fact)) held.push(fact.row.id);
        else await writer.erase(tx, undefined, fact);
      }
      if (held.length > 0) await this.#postpone(eraseJob(tenantId, { factIds: held }));
      return facts.length - held.length;
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
            if (!await isHeldFact(holds, tx.db, fact)) await writer.erase(tx, undefined, fact);
          }
        });
      }
    }
    await store.write((tx) => new MemoryStore(tx.db).removeTombstones(iso(clock.now() - TOMBSTONE_DAYS * DAY_MS)));
  }

  /** Deletes the facts of a scope; returns whether some are under a hold, and stay. */
  async #deleteScope(tenantId: string, scope: MemoryScope): Promise<boolean> {
    const { store, index, holds } = this.#deps;
    const read = (last = "") => new MemoryStore(store.db).idsOfScope(tenantId, scope, last, BATCH);
    const held: string[] = [];
    for await (const ids of paginate(BATCH, read)) {
      await store.write(async (tx) => {
        const memories = new MemoryStore(tx.db);
        const about = new Set<string>();
        for (const fact of await memories.findMany(tenantId, ids)) {
          if (fact.subjectIds.length > 0 && await isHeldFact(holds, tx.db, fact)) about.add(fact.row.id);
        }
        const deleted = ids.filter((id) => !about.has(id));
        await index?.remove(tenantId, SEARCH_KIND, deleted);
        await memories.erase(tenantId, deleted, { withRows: true });
        held.push(...about);
      });
    }
    return held.length > 0;
  }

  async #removeSources(tx: Tx, fact: Fact, isErased: (source: SourceRow) => boolean): Promise<void> {
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

type Erased = { messageIds: readonly string[] } | { roomId: string } | { factIds: readonly string[] };

function eraseJob(tenantId: string, payload: Erased): JobDraft {
  return { tenantId, kind: ERASE_JOB, payload };
}
