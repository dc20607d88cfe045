// Reindexing a tenant: a job that reads everything again, batch by batch, while searches and messages go on.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import type { Store } from "@/ports/store.ts";
import type { ReindexRow, SearchTables } from "./index/store.ts";
import { UNITS_MAX } from "./indexer.ts";
import type { Reindex } from "./schema.ts";
import type { SearchIndex } from "./search_index.ts";
import type { Searchable, SearchEntry } from "./searchable.ts";
import { SearchStore } from "./store.ts";

const JOB = "search.reindex";
const BATCH = 128;
const REST_MS = 5;

type Deps = { store: Store<SearchTables>; clock: Clock; index: SearchIndex; sources: readonly Searchable[] };

export class Reindexer {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The job that does the work. */
  get job(): JobKind {
    return defineJob({
      kind: JOB,
      payload: z.strictObject({ id: z.string() }),
      isLong: true,
      run: ({ tenantId, payload }) => this.#run(tenantId, payload.id),
    });
  }

  /** Starts a reindex of these kinds, or of all; throws `already_running`. */
  start({ tenantId, principalId }: Actor, kinds: readonly string[] | undefined): Promise<Reindex> {
    const { store, clock, sources } = this.#deps;
    return store.write(async (tx) => {
      const search = new SearchStore(tx.db, store.dialect);
      const before = await search.reindex(tenantId);
      // One that was given up is in nobody's way.
      if (before !== undefined && before.finished_at === null && await search.isPromised(tenantId, JOB)) {
        throw new Fault("already_running", `The reindex ${before.id} has been running since ${before.started_at}`);
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
      await search.putReindex(row);
      await tx.enqueue({ tenantId, kind: JOB, payload: { id: row.id } });
      return presentReindex(row);
    });
  }

  /** Goes on where an earlier attempt ended. */
  async #run(tenantId: string, id: string): Promise<void> {
    while (await this.#step(tenantId, id)) await new Promise((resolve) => setTimeout(resolve, REST_MS));
  }

  /** One batch; `false` when nothing is left to do. */
  #step(tenantId: string, id: string): Promise<boolean> {
    const { store, clock, index, sources } = this.#deps;
    return store.write(async (tx) => {
      const search = new SearchStore(tx.db, store.dialect);
      const row = await search.reindex(tenantId);
      if (row === undefined || row.id !== id || row.finished_at !== null) return false;
      const kinds: string[] = JSON.parse(row.kinds_json);
      const wanted = sources.filter((source) => kinds.includes(source.kind));
      const at = row.kind === null ? 0 : wanted.findIndex((source) => source.kind === row.kind);
      const source = wanted[at];
      if (source === undefined) {
        const finished: ReindexRow = { ...row, finished_at: iso(clock.now()) };
        await search.putReindex(finished);
        await tx.emit({
          tenantId,
          stream: principalStream(row.requested_by),
          type: "search.reindexed",
          data: { reindex: presentReindex(finished) },
        });
        return false;
      }
      const page = await source.entries(tenantId, row.after_id ?? "", BATCH);
      const entries = page.slice(0, countWithin(page, UNITS_MAX));
      await index.put(...entries);
      const isOver = page.length < BATCH && entries.length === page.length;
      await search.putReindex({
        ...row,
        // Past the last kind there is none of that name, which ends the run.
        kind: isOver ? wanted[at + 1]?.kind ?? "" : source.kind,
        after_id: isOver ? null : entries.at(-1)?.id ?? null,
        done: row.done + entries.length,
      });
      return true;
    });
  }
}

/** How many of the first have so many UTF-16 units together; one, if there is one, at least. */
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
