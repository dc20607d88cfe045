// The life of a space: built beside the one that is searched, activated once when it is complete, then deleted after the next one.
import { z } from "@zod/zod";
import { type Clock, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import { nextSlice } from "@/core/caller.ts";
import { logOf } from "@/core/log.ts";
import type { Searchable } from "@/core/searchable.ts";
import type { AiService } from "@/modules/ai/mod.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { type Engines, vectorSpaceOf } from "./engines.ts";
import { ItemStore, type ItemTables } from "./item_store.ts";
import { BUILD_JOB, CHECK_JOB, CLEAR_JOB, EMBED_JOB, PAUSE_MAX_MS } from "./jobs.ts";
import { type SpaceRow, SpaceStore, type SpaceTables } from "./space_store.ts";
import type { Tracker } from "./tracker.ts";

/** A stream without events: its lock serializes changes of the spaces of a tenant. */
const SPACES_LOCK = "vector:spaces";
const PAGE = 100;
/** After the last kind of a pass. */
const PASS_ENDED = "";
/** How long a new attempt waits for what another process has claimed. */
const RECHECK_MS = MINUTE_MS;

const log = logOf("vector");

export type VectorTables = SpaceTables & ItemTables;

type Deps = {
  store: Store<VectorTables>;
  clock: Clock;
  ai: Pick<AiService, "embeddingModel">;
  engines: Engines;
  tracker: Tracker;
  /** Read when a job runs: modules register their resources until everything is built. */
  sources: () => readonly Searchable[];
};

export class Spaces {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get jobs(): JobKind[] {
    const inSpace = z.strictObject({ space: z.string() });
    return [
      defineJob({ kind: CHECK_JOB, payload: z.strictObject({}), run: ({ tenantId }) => this.check(tenantId) }),
      defineJob({
        kind: BUILD_JOB,
        payload: inSpace,
        isLongRunning: true,
        run: ({ tenantId, payload }) => this.#build(tenantId, payload.space),
      }),
      defineJob({
        kind: CLEAR_JOB,
        payload: inSpace,
        isLongRunning: true,
        run: ({ tenantId, payload }) => this.#clear(tenantId, payload.space),
      }),
    ];
  }

  /** Enqueues a comparison with the embedding model, which may have changed. */
  async enqueueCheck(tx: AnyTransaction, tenantId: string): Promise<void> {
    await tx.enqueue({ tenantId, kind: CHECK_JOB, payload: {}, key: CHECK_JOB });
  }

  /** Begins a space for the embedding model of the tenant, unless there is one. */
  async check(tenantId: string): Promise<void> {
    const { store, ai, engines } = this.#deps;
    const model = await ai.embeddingModel(tenantId);
    if (model === undefined) return;
    await store.write(async (tx) => {
      await tx.lock(tenantId, SPACES_LOCK);
      const { building, active } = await new SpaceStore(tx.db).current(tenantId);
      const isCurrent = (space: SpaceRow | undefined) =>
        space?.model === model.id && space.engine === engines.preferred.engine;
      await this.#resumeEmbedding(tx, tenantId, [building, active]);
      if (building !== undefined && isCurrent(building)) return await this.enqueueBuild(tx, building);
      if (isCurrent(active)) {
        // The model was changed back meanwhile.
        if (building !== undefined) await this.#retire(tx, building);
        return;
      }
      await this.#begin(tx, tenantId, model.id, building);
    });
  }

  /** Begins to build the vectors of a tenant again; throws `already_running`. */
  async rebuild(tenantId: string): Promise<void> {
    const { store, ai } = this.#deps;
    const model = await ai.embeddingModel(tenantId);
    if (model === undefined) throw new Fault("ai_not_configured", "No embedding model is configured for this tenant");
    await store.write(async (tx) => {
      await tx.lock(tenantId, SPACES_LOCK);
      const { building } = await new SpaceStore(tx.db).current(tenantId);
      if (building?.model === model.id) {
        throw new Fault("already_running", `Vectors have been built since ${building.created_at}`);
      }
      await this.#begin(tx, tenantId, model.id, building);
    });
  }

  /** The model of a space has other dimensions now: a new space takes its place. */
  async replace(space: SpaceRow): Promise<void> {
    const { tenant_id: tenantId, model } = space;
    log.info("embedding model changed its dimensions", { tenant: tenantId, model });
    await this.#deps.store.write(async (tx) => {
      await tx.lock(tenantId, SPACES_LOCK);
      const { building } = await new SpaceStore(tx.db).current(tenantId);
      if (building !== undefined && building.id !== space.id && building.model === model) return;
      await this.#begin(tx, tenantId, model, building);
    });
  }

  /** Continues to build, once nothing waits in the space. */
  async enqueueBuild(tx: AnyTransaction, { tenant_id: tenantId, id }: SpaceRow, runAt?: number): Promise<void> {
    const when = runAt === undefined ? {} : { runAt };
    await tx.enqueue({ tenantId, kind: BUILD_JOB, payload: { space: id }, key: id, ...when });
  }

  /**
   * Embeds what waits, in case that the job for it was dead-lettered, such as after its process was killed twice, or that the
   * clock was set back: then what waits was due, or paused, by times that are still to come.
   */
  async #resumeEmbedding(
    tx: AnyTransaction,
    tenantId: string,
    spaces: readonly (SpaceRow | undefined)[],
  ): Promise<void> {
    const { store, clock } = this.#deps;
    const items = new ItemStore(tx.db, store.dialect);
    const [now, latest] = [iso(clock.now()), iso(clock.now() + PAUSE_MAX_MS)];
    for (const space of spaces) {
      if (space === undefined) continue;
      const inSpace = { tenantId, space: space.id };
      await items.bringForward(inSpace, { now, latest });
      if ((space.paused_until ?? "") > latest) {
        await new SpaceStore(tx.db).update(tenantId, space.id, { paused_until: now });
      }
      if (await items.nextDue(inSpace) === undefined) continue;
      await tx.enqueue({ tenantId, kind: EMBED_JOB, payload: {}, key: EMBED_JOB });
    }
  }

  async #begin(tx: AnyTransaction, tenantId: string, model: string, before: SpaceRow | undefined): Promise<void> {
    const { clock, engines } = this.#deps;
    if (before !== undefined) await this.#retire(tx, before);
    const space: SpaceRow = {
      tenant_id: tenantId,
      id: newId("space"),
      model,
      engine: engines.preferred.engine,
      dimensions: null,
      state: "building",
      kind: null,
      after_id: null,
      missing: 0,
      failures: 0,
      paused_code: null,
      paused_until: null,
      created_at: iso(clock.now()),
      activated_at: null,
    };
    await new SpaceStore(tx.db).add(space);
    await this.enqueueBuild(tx, space);
  }

  async #retire(tx: AnyTransaction, { tenant_id: tenantId, id, state }: SpaceRow): Promise<void> {
    if (!await new SpaceStore(tx.db).setState(tenantId, id, state, "retired", "")) return;
    await tx.enqueue({ tenantId, kind: CLEAR_JOB, payload: { space: id }, key: id });
  }

  /**
   * Passes over all resources of the tenant until a whole pass has found none without a vector: a change that was not committed when
   * the space began is found by the next pass.
   */
  async #build(tenantId: string, id: string): Promise<void> {
    while (await this.#step(tenantId, id)) await nextSlice();
  }

  async #step(tenantId: string, id: string): Promise<boolean> {
    const { store } = this.#deps;
    const space = await new SpaceStore(store.db).find(tenantId, id);
    if (space?.state !== "building") return false;
    if (space.kind === PASS_ENDED) return await this.#endPass(space);
    const sources = this.#deps.sources();
    const at = space.kind === null ? 0 : sources.findIndex(({ kind }) => kind === space.kind);
    const source = sources[at];
    const after = space.after_id ?? "";
    const entries = await source?.entries(tenantId, { after, limit: PAGE }) ?? [];
    const isLast = entries.length < PAGE;
    const next = { kind: isLast ? sources[at + 1]?.kind ?? PASS_ENDED : space.kind ?? source?.kind ?? PASS_ENDED };
    return await store.write(async (tx) => {
      const spaces = new SpaceStore(tx.db);
      const now = await spaces.find(tenantId, id);
      // Another process builds it, too.
      if (now?.state !== "building" || now.kind !== space.kind || now.after_id !== space.after_id) return true;
      const missing = await this.#deps.tracker.putInSpace(tx, now, entries);
      await spaces.update(tenantId, id, {
        ...next,
        after_id: isLast ? null : entries.at(-1)?.id ?? null,
        missing: now.missing + missing,
      });
      if (missing > 0) await this.#deps.tracker.enqueue(tx, tenantId, [now]);
      return true;
    });
  }

  /** Resolves to whether another pass begins. */
  async #endPass(space: SpaceRow): Promise<boolean> {
    const { store, clock, engines, tracker } = this.#deps;
    const { tenant_id: tenantId, id } = space;
    const { pending } = await new ItemStore(store.db, store.dialect).counts({ tenantId, space: id });
    if (pending > 0) {
      // The embedder enqueues this job when nothing waits; this is for a process that ends before it does.
      await store.write(async (tx) => {
        await tracker.enqueue(tx, tenantId, [space]);
        await this.enqueueBuild(tx, space, clock.now() + RECHECK_MS);
      });
      return false;
    }
    if (space.missing > 0) {
      await store.write((tx) => new SpaceStore(tx.db).update(tenantId, id, { kind: null, after_id: null, missing: 0 }));
      return true;
    }
    await engines.of(space)?.optimize(vectorSpaceOf(space));
    await store.write(async (tx) => {
      await tx.lock(tenantId, SPACES_LOCK);
      const spaces = new SpaceStore(tx.db);
      const { active } = await spaces.current(tenantId);
      const isBuilding = (await spaces.find(tenantId, id))?.state === "building";
      if (!isBuilding) return;
      if (active !== undefined) await this.#retire(tx, active);
      await spaces.setState(tenantId, id, "building", "active", iso(clock.now()));
      log.info("vectors are complete", { tenant: tenantId, model: space.model });
    });
    return false;
  }

  async #clear(tenantId: string, id: string): Promise<void> {
    const { store, engines } = this.#deps;
    const space = await new SpaceStore(store.db).find(tenantId, id);
    if (space?.state !== "retired") return;
    // First the items: without them, no vectors are added.
    const clearItems = () => store.write((tx) => new ItemStore(tx.db, store.dialect).clear({ tenantId, space: id }));
    while (await clearItems()) await nextSlice();
    const engine = engines.of(space);
    while (engine !== undefined && await engine.clear(vectorSpaceOf(space))) await nextSlice();
    await store.write((tx) => new SpaceStore(tx.db).remove(tenantId, id));
  }
}
