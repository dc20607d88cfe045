// The search module: one index over the resources of all modules with searchables.
import type { Module } from "@/core/module.ts";
import type { RoomPeople } from "@/modules/room/mod.ts";
import type { VectorSearch } from "@/modules/vector/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { modesOf, searchApi } from "./api.ts";
import { SearchIndexer } from "./indexer.ts";
import { LongTextIndexer } from "./long_text.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { createRecall, type Recall } from "./recall.ts";
import { Reindexer } from "./reindexer.ts";
import { kindsOf } from "./schema.ts";
import type { SearchIndex } from "./search_index.ts";
import { SearchService } from "./service.ts";

type Deps = { index: SearchIndex; vectors: VectorSearch; people: RoomPeople; isEnabled: boolean };

export type SearchModule = Module & {
  /** Removes messages from the index, within the current transaction. */
  unindex(tenantId: string, roomId: string, messageIds: readonly string[]): Promise<void>;
  /** Absent where search is disabled. */
  recall: Recall | undefined;
};

/** Must be built after the modules with searchables. */
export function searchModule(
  { store, clock, cursors, modules }: Platform,
  { index, vectors, people, isEnabled }: Deps,
): SearchModule {
  const sources = modules.flatMap((module) => module.search ?? []);
  const [stream, second] = sources.flatMap((source) => source.stream ?? []);
  if (stream === undefined || second !== undefined) throw new TypeError("Expected one source with a stream");
  const indexer = new SearchIndexer({ store, index, stream });
  const reindexer = new Reindexer({ store, clock, index, sources });
  const longTexts = new LongTextIndexer({ store, sources });
  const search = new SearchService({ store, clock, cursors, indexer, people, sources, vectors });
  return {
    name: "search",
    migrations,
    erases,
    ...searchApi({ search, reindexer, sources, isEnabled }),
    jobs: isEnabled ? [reindexer.job, longTexts.job] : [],
    purgeRoom: (tenantId, roomId) => indexer.purgeRoom(tenantId, roomId),
    onCommit: (events) => indexer.onEvents(events),
    start: () => isEnabled && indexer.start(),
    stop: () => indexer.stop(),
    capability: () => ({ enabled: isEnabled, modes: modesOf(isEnabled), types: kindsOf(sources) }),
    recall: isEnabled ? createRecall(search, sources) : undefined,
    unindex: (tenantId, roomId, messageIds) => indexer.remove(tenantId, roomId, messageIds),
  };
}
