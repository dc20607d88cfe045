// Search: what was said, found again by those who may read it. Other modules bring their things through `Searchable`.
export { searchModule } from "./api.ts";
export { SearchIndexer } from "./indexer.ts";
export { type Fields } from "./matcher.ts";
export { MessageSource } from "./message_source.ts";
export { Reindexer } from "./reindexer.ts";
export { SearchIndex } from "./search_index.ts";
export { type Found, type Searchable, type SearchEntry } from "./searchable.ts";
export { SearchService } from "./service.ts";
