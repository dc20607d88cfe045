// The vector module: follows the search index, and searches by similarity.
import { nextSlice } from "@/core/caller.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { Module } from "@/core/module.ts";
import type { AiService } from "@/modules/ai/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { vectorApi } from "./api.ts";
import { CHUNKS_MAX } from "./chunks.ts";
import { Embedder } from "./embedder.ts";
import { Engines, vectorSpaceOf } from "./engines.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { VectorService } from "./service.ts";
import { SpaceStore } from "./space_store.ts";
import { Spaces } from "./spaces.ts";
import { Tracker } from "./tracker.ts";
import { VectorSearch } from "./vector_search.ts";

type Deps = {
  ai: AiService;
  /** Whether the operator's provider has an embedding model. */
  hasModel: boolean;
  /** Whether there is a search index to follow. */
  isEnabled: boolean;
};

export type VectorModule = Module & {
  tracker: Tracker;
  vectors: VectorSearch;
  /** Models of a tenant were changed in this transaction. */
  onModelsChanged(tx: AnyTransaction, tenantId: string): Promise<void>;
};

const log = logOf("vector");

export function vectorModule(platform: Platform, { ai, hasModel, isEnabled }: Deps): VectorModule {
  const { store, clock, metrics } = platform;
  const engines = new Engines(platform.vectors);
  const sources = () => platform.modules.flatMap((module) => module.search ?? []);
  const tracker = new Tracker({ clock, dialect: store.dialect, engines, hasModel });
  const spaces = new Spaces({ store, clock, ai, engines, tracker, sources });
  const embedder = new Embedder({ store, clock, ai, metrics, engines, spaces, sources });
  const vectors = new VectorSearch({ store, clock, ai, metrics, engines, spaces });

  /** Compares the spaces of all tenants with their models, which the operator may have changed. */
  async function checkTenants(): Promise<void> {
    if (!isEnabled) return;
    for (const tenantId of await new SpaceStore(store.db).tenants()) {
      await store.write((tx) => spaces.enqueueCheck(tx, tenantId));
      await nextSlice();
    }
  }

  async function optimize(): Promise<void> {
    const all = new SpaceStore(store.db);
    for (const tenantId of await all.tenants()) {
      const { active } = await all.current(tenantId);
      if (active !== undefined) await engines.of(active)?.optimize(vectorSpaceOf(active));
    }
  }

  return {
    name: "vector",
    migrations: [...migrations, ...engines.preferred.migrations],
    erases,
    ...vectorApi(new VectorService({ store, engines, spaces, search: vectors }), isEnabled),
    jobs: isEnabled ? [...spaces.jobs, embedder.job] : [],
    maintenance: { vectorModels: checkTenants, vectorIndexes: optimize },
    gauges: [
      { gauge: metrics.vectorsStored, collect: async (gauge) => gauge.set((await totals()).vectors) },
      { gauge: metrics.vectorsPending, collect: async (gauge) => gauge.set((await totals()).pending) },
    ],
    start: () => {
      checkTenants().catch((cause) => log.warn("comparing embedding models failed; will retry", failureOf(cause)));
    },
    drain: () => embedder.drain(),
    onFailover: () => engines.reset(),
    capability: () => ({
      enabled: isEnabled,
      engine: engines.preferred.engine,
      dimensions: engines.preferred.dimensionsMax,
      partsPerItem: CHUNKS_MAX,
    }),
    tracker,
    vectors,
    onModelsChanged: (tx, tenantId) => isEnabled ? spaces.enqueueCheck(tx, tenantId) : Promise.resolve(),
  };

  function totals(): Promise<{ vectors: number; pending: number }> {
    return new SpaceStore(store.db).totals();
  }
}
