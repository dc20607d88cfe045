// Full-text search over the resources of all modules that register a `Searchable`, within the caller's permissions.
export { type SearchModule, searchModule } from "./module.ts";
export type { Recall, RecallHit } from "./recall.ts";
export { SearchIndex } from "./search_index.ts";
