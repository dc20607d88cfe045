// Vectors: embeddings of everything that search finds, made in the background, and search by similarity.
export { type VectorModule, vectorModule } from "./module.ts";
export { DEGRADED_REASONS, type VectorSearch, type VectorSearchResult } from "./vector_search.ts";
