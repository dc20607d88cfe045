// Search: what was said, found again by those who may read it. Other modules bring their things through `Searchable`.
export { searchModule } from "./api.ts";
export { type IndexEngine, indexEngineOf, type SearchTables } from "./index/store.ts";
export { SearchIndexer } from "./indexer.ts";
export { type Fields, Matcher } from "./matcher.ts";
export { MessageSource, type PresentMessages } from "./message_source.ts";
export { Reindexer } from "./reindexer.ts";
export { SearchScope } from "./scope.ts";
export { SearchIndex } from "./search_index.ts";
export { type Found, type Searchable, type SearchEntry } from "./searchable.ts";
export { SearchService } from "./service.ts";
export { SearchStore } from "./store.ts";
