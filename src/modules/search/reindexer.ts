// Reindexing of a tenant: a job that indexes all resources again in batches, while search remains available.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { type Clock, delay, iso, nextTick } from "@/core/time/clock.ts";
import { principalEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import type { Store } from "@/ports/store.ts";
import type { ReindexRow, SearchTables } from "./index_store.ts";
import { IndexProgressStore } from "./progress_store.ts";
import type { Reindex } from "./schema.ts";
import { type SearchIndex, UNITS_MAX } from "./search_index.ts";
import type { Searchable, SearchEntry } from "@/core/searchable.ts";

const JOB = "search.reindex";
const BATCH = 128;
const REST_MS = 5;

type Deps = { store: Store<SearchTables>; clock: Clock; index: SearchIndex; sources: readonly Searchable[] };

export class Reindexer {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get job(): JobKind {
    return defineJob({
      kind: JOB,
      payload: z.strictObject({ id: z.string() }),
      isLongRunning: true,
      run: ({ tenantId, payload }) => this.#run(tenantId, payload.id),
    });
  }

  /** Starts a reindex of these kinds, or of all; throws `already_running`. */
  start({ tenantId, principalId }: Actor, kinds: readonly string[] | undefined): Promise<Reindex> {
    const { store, clock, sources } = this.#deps;
    return store.write(async (tx) => {
      const progress = new IndexProgressStore(tx.db, store.dialect);
      const before = await progress.reindex(tenantId);
      // A run whose job failed permanently does not block a new one.
      if (before !== undefined && before.finished_at === null && await progress.hasPendingJob(tenantId, JOB)) {
        throw new Fault("already_running", `Reindex ${before.id} has been running since ${before.started_at}`);
      }
      const row: ReindexRow = {
        tenant_id: tenantId,
        id: newId("reindex"),
        kinds_json: JSON.stringify(kinds ?? sources.map((source) => source.kind)),
        kind: null,
        after_id: null,
        done: 0,
        requested_by: principalId,
        started_at: iso(clock.now()),
        finished_at: null,
      };
      await progress.putReindex(row);
      await tx.enqueue({ tenantId, kind: JOB, payload: { id: row.id } });
      return presentReindex(row);
    });
  }

  /** Continues where an earlier attempt ended. */
  async #run(tenantId: string, id: string): Promise<void> {
    while (await this.#step(tenantId, id)) {
      await delay(REST_MS);
      // Before so much waits that a write merges it.
      while (await this.#deps.index.merge()) await nextTick();
    }
  }

  /** Indexes one batch; `false` if the run is complete. */
  #step(tenantId: string, id: string): Promise<boolean> {
    const { store, clock, index, sources } = this.#deps;
    return store.write(async (tx) => {
      const progress = new IndexProgressStore(tx.db, store.dialect);
      const row = await progress.reindex(tenantId);
      if (row === undefined || row.id !== id || row.finished_at !== null) return false;
      const kinds: string[] = JSON.parse(row.kinds_json);
      const wanted = sources.filter((source) => kinds.includes(source.kind));
      const at = row.kind === null ? 0 : wanted.findIndex((source) => source.kind === row.kind);
      const source = wanted[at];
      if (source === undefined) {
        const finished: ReindexRow = { ...row, finished_at: iso(clock.now()) };
        await progress.putReindex(finished);
        await tx.emit(
          principalEvent({ tenantId }, row.requested_by, "search.reindexed", { reindex: presentReindex(finished) }),
        );
        return false;
      }
      const page = await source.entries(tenantId, { after: row.after_id ?? "", limit: BATCH }, tx.db);
      const entries = page.slice(0, countWithin(page, UNITS_MAX));
      await index.put(...entries);
      const isLast = page.length < BATCH && entries.length === page.length;
      await progress.putReindex({
        ...row,
        // After the last kind, an empty name ends the run.
        kind: isLast ? wanted[at + 1]?.kind ?? "" : source.kind,
        after_id: isLast ? null : entries.at(-1)?.id ?? null,
        done: row.done + entries.length,
      });
      return true;
    });
  }
}

/** The number of leading entries with at most `unitsMax` UTF-16 units in total, at least one. */
function countWithin(entries: readonly SearchEntry[], unitsMax: number): number {
  let units = 0;
  const beyond = entries.findIndex(({ texts }) => (units += texts.join("").length) > unitsMax);
  return beyond < 0 ? entries.length : Math.max(1, beyond);
}

function presentReindex(row: ReindexRow): Reindex {
  return {
    id: row.id,
    state: row.finished_at === null ? "running" : "done",
    done: row.done,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}
