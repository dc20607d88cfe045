// Embeds in the background what waits for vectors: in batches, one at a time for a tenant, charged to the tenant's budget.
import { z } from "@zod/zod";
import { compareText } from "@/core/text/text.ts";
import { type Clock, delay, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { nextSlice } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import { inChunks } from "@/core/page.ts";
import type { Searchable, SearchEntry } from "@/core/searchable.ts";
import type { AiService } from "@/modules/ai/mod.ts";
import { ModelError } from "@/ports/model.ts";
import type { Store } from "@/ports/store.ts";
import { chunksOf, hashOf, scopesOf } from "./chunks.ts";
import { type Engines, vectorSpaceOf } from "./engines.ts";
import { type Claim, ItemStore } from "./item_store.ts";
import { EMBED_JOB, PAUSE_MAX_MS } from "./jobs.ts";
import { type SpaceRow, SpaceStore } from "./space_store.ts";
import type { Spaces, VectorTables } from "./spaces.ts";

/** Resources that are claimed at once, and texts of one call. */
const BATCH_ITEMS = 32;
const BATCH_TEXTS = 64;
/** After so many batches others of this node come first. */
const BATCHES_PER_JOB = 20;
/** Between two batches, so that a provider is not flooded. */
const REST_MS = 50;
const CALL_MS = 30_000;
/** Others may embed what this process has claimed and not renewed for so long: it has ended. */
const CLAIM_MS = 30_000;
const RENEW_MS = 10_000;
/** Pauses after failures: each is twice as long as the last one, up to `PAUSE_MAX_MS`. */
const PAUSE_MS = 5000;
/** Until a configuration that cannot work is tried again. */
const MISCONFIGURED_MS = 10 * MINUTE_MS;
/** A text without a meaning, which is nobody's. */
const PROBE = "text";

const log = logOf("vector");

/** A resource with its texts, and later with their vectors. */
type Work = { claim: Claim; entry: SearchEntry; chunks: string[]; vectors: number[][] };

/** Why a space is left alone for a while. */
class Paused extends Error {
  constructor(readonly code: string, readonly forMs: number | undefined) {
    super(code);
  }
}

/** The model has other dimensions than the vectors of the space. */
class DimensionsChanged extends Error {}

type Deps = {
  store: Store<VectorTables>;
  clock: Clock;
  ai: Pick<AiService, "embed">;
  metrics: Metrics;
  engines: Engines;
  spaces: Spaces;
  sources: () => readonly Searchable[];
};

export class Embedder {
  readonly #deps: Deps;
  readonly #stopping = new AbortController();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get job(): JobKind {
    return defineJob({
      kind: EMBED_JOB,
      payload: z.strictObject({}),
      isLongRunning: true,
      run: ({ tenantId }) => this.#run(tenantId),
    });
  }

  /** Interrupts calls; what they were for is claimed again later. */
  drain(): void {
    this.#stopping.abort();
  }

  async #run(tenantId: string): Promise<void> {
    for (let batch = 0; batch < BATCHES_PER_JOB && !this.#stopping.signal.aborted; batch++) {
      const space = await this.#nextSpace(tenantId);
      if (space === undefined) return;
      const claims = await this.#claim(space);
      if (claims.length === 0) {
        await this.#endSpace(space);
        continue;
      }
      await this.#embedClaims(space, claims);
      await delay(REST_MS, this.#stopping.signal);
    }
    await this.#enqueue(tenantId, EMBED_JOB, this.#deps.clock.now());
  }

  /** The first space with something to do: the active one is searched, so it comes first. */
  async #nextSpace(tenantId: string): Promise<SpaceRow | undefined> {
    const { store, clock } = this.#deps;
    const now = iso(clock.now());
    const spaces = (await new SpaceStore(store.db).all(tenantId)).filter(({ state }) => state !== "retired")
      .sort((a, b) => compareText(a.state, b.state));
    let next = Infinity;
    for (const space of spaces) {
      const due = await this.#items.nextDue({ tenantId, space: space.id });
      if (due === undefined) continue;
      const start = space.paused_until !== null && space.paused_until > due ? space.paused_until : due;
      if (start <= now) return space;
      next = Math.min(next, Date.parse(start));
    }
    // With a key of its own, so that it does not delay a run that is due.
    if (next !== Infinity) await this.#enqueue(tenantId, `${EMBED_JOB} later`, next);
    return undefined;
  }

  #claim({ tenant_id: tenantId, id: space }: SpaceRow): Promise<Claim[]> {
    const { store, clock } = this.#deps;
    const now = clock.now();
    return store.write((tx) =>
      new ItemStore(tx.db, store.dialect).claim({ tenantId, space }, {
        now: iso(now),
        until: iso(now + CLAIM_MS),
        limit: BATCH_ITEMS,
      })
    );
  }

  async #embedClaims(space: SpaceRow, claims: readonly Claim[]): Promise<void> {
    let left = [...claims];
    const renewal = setInterval(() => {
      this.#postpone(space, left, CLAIM_MS).catch((cause) => {
        log.warn("renewing claims failed; others may embed the same", failureOf(cause));
      });
    }, RENEW_MS);
    try {
      const works = await this.#load(space, claims);
      for (const group of groupsOf(works)) {
        await this.#embedGroup(space, group);
        left = left.filter((claim) => !group.some((work) => work.claim === claim));
        await nextSlice();
      }
      if (space.failures > 0 || space.paused_code !== null) await this.#resume(space);
      await this.#endSpace(space);
    } catch (thrown) {
      // They are due again.
      await this.#postpone(space, left, 0);
      if (thrown instanceof DimensionsChanged) {
        // Nothing can be added here; once this space is retired, what waits in it is deleted.
        await this.#pause(space, new Paused("dimensions_changed", MISCONFIGURED_MS));
        return await this.#deps.spaces.replace(space);
      }
      if (!(thrown instanceof Paused)) throw thrown;
      await this.#pause(space, thrown);
    } finally {
      clearInterval(renewal);
    }
  }

  /** The current texts. What no longer exists, or has no text, waits no more. */
  async #load({ tenant_id: tenantId, id: space }: SpaceRow, claims: readonly Claim[]): Promise<Work[]> {
    const { store, sources } = this.#deps;
    const works: Work[] = [];
    const missing: Claim[] = [];
    for (const [kind, group] of Map.groupBy(claims, (claim) => claim.kind)) {
      const source = sources().find((known) => known.kind === kind);
      const entries = await source?.entries(tenantId, { ids: group.map(({ id }) => id) }) ?? [];
      const byId = new Map(entries.map((entry) => [entry.id, entry]));
      for (const claim of group) {
        const entry = byId.get(claim.id);
        if (entry === undefined) missing.push(claim);
        else works.push({ claim, entry, chunks: chunksOf(entry), vectors: [] });
      }
    }
    if (missing.length > 0) {
      await store.write(async (tx) => {
        const items = new ItemStore(tx.db, store.dialect);
        for (const claim of missing) await items.drop({ tenantId, space }, claim);
      });
    }
    return works;
  }

  /** Embeds resources; where the provider refuses a text, each by itself. One fails only if the provider takes other texts. */
  async #embedGroup(space: SpaceRow, group: readonly Work[]): Promise<void> {
    try {
      for (const work of group) work.vectors = [];
      const texts = group.flatMap(({ chunks }) => chunks);
      const vectors: number[][] = [];
      for (const some of inChunks(texts, BATCH_TEXTS)) vectors.push(...await this.#call(space, some));
      let at = 0;
      for (const work of group) work.vectors = vectors.slice(at, at += work.chunks.length);
    } catch (thrown) {
      if (!(thrown instanceof ModelError)) throw thrown;
      if (group.length > 1) {
        for (const work of group) await this.#embedGroup(space, [work]);
        return;
      }
      await this.#assertWorks(space);
      return await this.#store(space, group, "failed");
    }
    await this.#store(space, group, "stored");
  }

  /** Throws `Paused` if a text is refused that none should refuse: the account or the model is, whatever the status says. */
  async #assertWorks(space: SpaceRow): Promise<void> {
    try {
      await this.#call(space, [PROBE]);
    } catch (thrown) {
      throw thrown instanceof ModelError ? new Paused(thrown.code, MISCONFIGURED_MS) : thrown;
    }
  }

  /** Throws a `ModelError` if the texts are refused, `Paused` for any other failure. */
  async #call(space: SpaceRow, texts: readonly string[]): Promise<number[][]> {
    const { ai, metrics } = this.#deps;
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(CALL_MS)]);
    try {
      const { vectors } = await ai.embed({ tenantId: space.tenant_id }, { model: space.model, texts }, signal);
      return this.#checked(space, texts, vectors);
    } catch (thrown) {
      if (thrown instanceof DimensionsChanged || thrown instanceof Paused) throw thrown;
      if (!(thrown instanceof ModelError || thrown instanceof Fault)) throw thrown;
      metrics.vectorFailures.inc({ code: thrown.code });
      if (thrown instanceof Fault) throw new Paused(thrown.code, thrown.retryAfterMs ?? MISCONFIGURED_MS);
      if (thrown.code === "context_too_long" || thrown.code === "request_refused") throw thrown;
      throw new Paused(thrown.code, thrown.code === "bad_key" ? MISCONFIGURED_MS : thrown.retryAfterMs);
    }
  }

  #checked({ dimensions }: SpaceRow, texts: readonly string[], vectors: number[][]): number[][] {
    const size = dimensions ?? vectors[0]?.length ?? 0;
    const max = this.#deps.engines.preferred.dimensionsMax;
    const isValid = vectors.length === texts.length && size > 0 && size <= max &&
      vectors.every((vector) => vector.length === vectors[0]?.length && vector.every(Number.isFinite));
    if (!isValid) {
      this.#deps.metrics.vectorFailures.inc({ code: "invalid_vectors" });
      throw new Paused("invalid_vectors", MISCONFIGURED_MS);
    }
    if (vectors[0]?.length !== size) throw new DimensionsChanged();
    return vectors;
  }

  /** Stores the vectors of those that have not changed meanwhile. */
  async #store(space: SpaceRow, group: readonly Work[], state: "stored" | "failed"): Promise<void> {
    const { store, engines } = this.#deps;
    const { tenant_id: tenantId, id } = space;
    await store.write(async (tx) => {
      const dimensions = group.flatMap(({ vectors }) => vectors)[0]?.length;
      if (space.dimensions === null && dimensions !== undefined) {
        space.dimensions = await new SpaceStore(tx.db).setDimensions(tenantId, id, dimensions);
        if (space.dimensions !== dimensions) throw new DimensionsChanged();
      }
      const items = new ItemStore(tx.db, store.dialect);
      const finished: Work[] = [];
      for (const work of group) {
        if (await items.finish({ tenantId, space: id }, work.claim, state, hashOf(work.entry))) finished.push(work);
      }
      // Those of an earlier attempt.
      await engines.remove(tx, space, finished.map(({ claim: { kind, id } }) => ({ kind, id })));
      const rows = finished.flatMap(({ entry, vectors }) =>
        scopesOf(entry).flatMap((scope) => vectors.map((vector) => ({ scope, kind: entry.kind, id: entry.id, vector })))
      );
      await engines.of(space)?.put(tx, vectorSpaceOf(space), rows);
    });
  }

  /** Building of a space continues when nothing waits. */
  async #endSpace(space: SpaceRow): Promise<void> {
    if (space.state !== "building") return;
    if (await this.#items.nextDue({ tenantId: space.tenant_id, space: space.id }) !== undefined) return;
    await this.#deps.store.write((tx) => this.#deps.spaces.enqueueBuild(tx, space));
  }

  async #postpone({ tenant_id: tenantId, id: space }: SpaceRow, claims: readonly Claim[], ms: number): Promise<void> {
    const { store, clock } = this.#deps;
    const until = iso(clock.now() + ms);
    await store.write((tx) => new ItemStore(tx.db, store.dialect).postpone({ tenantId, space }, claims, until));
  }

  async #pause(space: SpaceRow, { code, forMs }: Paused): Promise<void> {
    const { store, clock } = this.#deps;
    if (this.#stopping.signal.aborted) return;
    const pauseMs = forMs ?? Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(space.failures, 10));
    const until = clock.now() + pauseMs;
    log.warn("embedding failed; will retry", { tenant: space.tenant_id, code, pauseMs });
    await store.write((tx) =>
      new SpaceStore(tx.db).update(space.tenant_id, space.id, {
        failures: space.failures + 1,
        paused_code: code,
        paused_until: iso(until),
      })
    );
  }

  async #resume({ tenant_id: tenantId, id }: SpaceRow): Promise<void> {
    await this.#deps.store.write((tx) =>
      new SpaceStore(tx.db).update(tenantId, id, { failures: 0, paused_code: null, paused_until: null })
    );
  }

  async #enqueue(tenantId: string, key: string, runAt: number): Promise<void> {
    await this.#deps.store.write((tx) => tx.enqueue({ tenantId, kind: EMBED_JOB, payload: {}, key, runAt }));
  }

  get #items(): ItemStore {
    return new ItemStore(this.#deps.store.db, this.#deps.store.dialect);
  }
}

/** Resources whose texts fit in one call; one with more of them is by itself. */
function groupsOf(works: readonly Work[]): Work[][] {
  const groups: Work[][] = [];
  let texts = Infinity;
  for (const work of works) {
    texts += work.chunks.length;
    if (texts > BATCH_TEXTS) {
      groups.push([]);
      texts = work.chunks.length;
    }
    groups.at(-1)?.push(work);
  }
  return groups;
}
