// What administrators see of the vectors of their tenant.
import type { Actor } from "@/core/actor.ts";
import type { Store } from "@/ports/store.ts";
import { type Engines, vectorSpaceOf } from "./engines.ts";
import { type ItemCounts, ItemStore } from "./item_store.ts";
import type { VectorStatus } from "./schema.ts";
import { type SpaceRow, SpaceStore } from "./space_store.ts";
import type { Spaces, VectorTables } from "./spaces.ts";
import type { VectorSearch } from "./vector_search.ts";

const NOTHING: ItemCounts = { stored: 0, pending: 0, failed: 0 };

type Deps = { store: Store<VectorTables>; engines: Engines; spaces: Spaces; search: VectorSearch };

export class VectorService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async status({ tenantId }: Actor): Promise<VectorStatus> {
    const { store, engines, search } = this.#deps;
    const { active, building } = await new SpaceStore(store.db).current(tenantId);
    const paused = [active, building].find((space) => (space?.paused_code ?? null) !== null);
    return {
      enabled: await search.isAvailable(tenantId),
      engine: engines.preferred.engine,
      model: active?.model ?? null,
      dimensions: active?.dimensions ?? null,
      vectors: active === undefined ? 0 : await engines.of(active)?.count(vectorSpaceOf(active)) ?? 0,
      ...active === undefined ? NOTHING : await this.#counts(active),
      building: building === undefined ? null : {
        model: building.model,
        dimensions: building.dimensions,
        startedAt: building.created_at,
        ...await this.#counts(building),
      },
      pausedCode: paused?.paused_code ?? null,
      pausedUntil: paused?.paused_until ?? null,
    };
  }

  /** Begins to build all vectors again. */
  async reindex(actor: Actor): Promise<VectorStatus> {
    await this.#deps.spaces.rebuild(actor.tenantId);
    return await this.status(actor);
  }

  #counts({ tenant_id: tenantId, id: space }: SpaceRow): Promise<ItemCounts> {
    const { store } = this.#deps;
    return new ItemStore(store.db, store.dialect).counts({ tenantId, space });
  }
}
