// Search by similarity: which space is searched, the vector of the query, and what is near it in the visible scopes.
import { SharedBreakers } from "@/core/limit/breaker.ts";
import { type Actor, chargedId, isGuest } from "@/core/actor.ts";
import { type Clock, MINUTE_MS, withTimeout } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { Metrics } from "@/core/metrics.ts";
import { EVERYONE } from "@/core/searchable.ts";
import type { AiService } from "@/modules/ai/mod.ts";
import { ModelError } from "@/ports/model.ts";
import type { Store } from "@/ports/store.ts";
import type { VectorHit } from "@/ports/vectors.ts";
import { principalScope, roomScope } from "./chunks.ts";
import { type Engines, vectorSpaceOf } from "./engines.ts";
import { type SpaceRow, SpaceStore } from "./space_store.ts";
import type { Spaces, VectorTables } from "./spaces.ts";

/** A search waits for the vector of its query so long at most. */
const EMBED_MS = 1000;
/** Vectors of queries in memory, of all tenants. */
const CACHED_MAX = 500;
/** A space is compared with the model of its tenant so often at most. */
const CHECK_EVERY_MS = MINUTE_MS;
const CHECKED_MAX = 10_000;

/** Why a search did not use vectors, or not all of them. */
export const DEGRADED_REASONS = [
  "no_embedding_model",
  "vectors_incomplete",
  "model_unavailable",
  "budget_exceeded",
] as const;
type DegradedReason = (typeof DEGRADED_REASONS)[number];

type VectorSearchQuery = {
  text: string;
  /** Rooms that the caller may read now. */
  roomIds: readonly string[];
  kinds: readonly string[];
  limit: number;
};

/** Finds what is near the query; `reason` is set if vectors are missing or cannot be used. */
export type VectorSearchResult = {
  find: ((query: Omit<VectorSearchQuery, "text">) => Promise<VectorHit[]>) | undefined;
  reason: DegradedReason | undefined;
};

type Deps = {
  store: Store<VectorTables>;
  clock: Clock;
  ai: Pick<AiService, "models" | "embed">;
  metrics: Metrics;
  engines: Engines;
  spaces: Spaces;
};

const log = logOf("vector");

export class VectorSearch {
  readonly #deps: Deps;
  readonly #queries = new LruMap<string, readonly number[]>(CACHED_MAX);
  readonly #checkedAt = new LruMap<string, number>(CHECKED_MAX);
  /** Skip models that are too slow for searches, though they may do for the index. */
  readonly #breakers: SharedBreakers;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#breakers = new SharedBreakers(deps.clock);
  }

  /** Embeds a query. A failure of the model is a reason, since the search continues without vectors. */
  async open(actor: Actor, text: string): Promise<VectorSearchResult> {
    const { space, isComplete, reason } = await this.#spaceFor(actor.tenantId);
    if (space === undefined) return { find: undefined, reason };
    const vector = await this.#embed(actor, space, text);
    if (typeof vector === "string") return { find: undefined, reason: vector };
    // Until the new vectors are complete, the model may have other dimensions than these.
    if (vector.length !== space.dimensions) return { find: undefined, reason: "vectors_incomplete" };
    return {
      find: async (query) => {
        const hits = await this.#find(actor, space, vector, query);
        return await this.#isKept(space) ? hits : await this.#findInNext(actor, text, query);
      },
      reason: isComplete ? undefined : "vectors_incomplete",
    };
  }

  /** Whether what was just read of a space was there: the vectors of one that has retired are deleted. */
  async #isKept({ tenant_id: tenantId, id }: SpaceRow): Promise<boolean> {
    const spaces = await new SpaceStore(this.#deps.store.db).all(tenantId);
    return spaces.some((space) => space.id === id && space.state !== "retired");
  }

  /** Finds in the space that took the place of one that was opened. */
  async #findInNext(actor: Actor, text: string, query: Omit<VectorSearchQuery, "text">): Promise<VectorHit[]> {
    const { find } = await this.open(actor, text);
    if (find === undefined) throw new Fault("unavailable", "The vectors were replaced during the search; retry");
    return await find(query);
  }

  /** Whether a tenant has an embedding model. */
  async isAvailable(tenantId: string): Promise<boolean> {
    return (await this.#deps.ai.models(tenantId)).some(({ kind }) => kind === "embedding");
  }

  /** The complete space if its model is still offered, else the one that is built. */
  async #spaceFor(
    tenantId: string,
  ): Promise<{ space: SpaceRow | undefined; isComplete?: boolean; reason?: DegradedReason }> {
    const { store, ai, engines } = this.#deps;
    const models = (await ai.models(tenantId)).filter(({ kind }) => kind === "embedding");
    const [preferred] = models;
    if (preferred === undefined) return { space: undefined, reason: "no_embedding_model" };
    const usable = (await new SpaceStore(store.db).all(tenantId)).filter((space) =>
      engines.of(space) !== undefined && models.some(({ id }) => id === space.model)
    );
    const active = usable.find(({ state }) => state === "active");
    const building = usable.find(({ state }) => state === "building");
    if ((building ?? active)?.model !== preferred.id) await this.#requestCheck(tenantId);
    if (active !== undefined) return { space: active, isComplete: true };
    if (building !== undefined && building.dimensions !== null) return { space: building, isComplete: false };
    return { space: undefined, reason: "vectors_incomplete" };
  }

  async #embed(actor: Actor, space: SpaceRow, text: string): Promise<readonly number[] | DegradedReason> {
    const { tenantId, principalId, kind } = actor;
    const key = JSON.stringify([tenantId, space.id, text]);
    const known = this.#queries.get(key);
    if (known !== undefined) {
      this.#queries.set(key, known);
      return known;
    }
    const charge = { tenantId, principalId: chargedId(actor), agentId: kind === "agent" ? principalId : undefined };
    const breaker = [`${tenantId}/${space.model}`, charge.principalId] as const;
    if (this.#breakers.enter(...breaker) > 0) return this.#failed("overloaded");
    const signal = AbortSignal.timeout(EMBED_MS);
    try {
      const call = { model: space.model, texts: [text] };
      // Also when the provider does not react to the signal.
      const embedded = await withTimeout(this.#deps.ai.embed(charge, call, signal), EMBED_MS);
      if (embedded === undefined) throw new ModelError("timed_out", { isRetryable: true });
      this.#breakers.succeed(...breaker);
      const [vector = []] = embedded.vectors;
      if (vector.length === space.dimensions) this.#queries.set(key, vector);
      else await this.#requestReplacement(space, vector.length);
      return vector;
    } catch (thrown) {
      if (!(thrown instanceof ModelError || thrown instanceof Fault)) throw thrown;
      const isLate = thrown.code === "timed_out" || signal.aborted;
      if (isLate) this.#breakers.fail(...breaker);
      return this.#failed(isLate ? "timed_out" : thrown.code);
    }
  }

  #failed(code: string): DegradedReason {
    this.#deps.metrics.vectorFailures.inc({ code });
    return code === "budget_exceeded" ? code : "model_unavailable";
  }

  async #find(
    actor: Actor,
    space: SpaceRow,
    vector: readonly number[],
    { roomIds, kinds, limit }: Omit<VectorSearchQuery, "text">,
  ): Promise<VectorHit[]> {
    const startedAt = performance.now();
    const everyone = isGuest(actor) ? [] : [principalScope(EVERYONE)];
    const scopes = [...roomIds.map(roomScope), principalScope(actor.principalId), ...everyone];
    const hits = await this.#deps.engines.of(space)?.search(vectorSpaceOf(space), { vector, scopes, kinds, limit });
    this.#deps.metrics.vectorSearch.observe((performance.now() - startedAt) / 1000);
    return hits ?? [];
  }

  /** The vectors of the space are built again, with the dimensions that its model has now. */
  async #requestReplacement(space: SpaceRow, dimensions: number): Promise<void> {
    if (dimensions === 0 || !this.#isDue(`dimensions ${space.id}`)) return;
    await this.#inBackground(() => this.#deps.spaces.replace(space));
  }

  async #requestCheck(tenantId: string): Promise<void> {
    if (!this.#isDue(`model ${tenantId}`)) return;
    await this.#inBackground(() => this.#deps.store.write((tx) => this.#deps.spaces.enqueueCheck(tx, tenantId)));
  }

  /** What the search itself does not need must not make it fail, such as a budget of writes. */
  async #inBackground(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (cause) {
      log.warn("a change of the embedding model was not noted; will retry", failureOf(cause));
    }
  }

  #isDue(key: string): boolean {
    const now = this.#deps.clock.now();
    if (now - (this.#checkedAt.get(key) ?? -Infinity) < CHECK_EVERY_MS) return false;
    this.#checkedAt.set(key, now);
    return true;
  }
}
