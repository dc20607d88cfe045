// Memory: facts with sources, validity and rights, and the context of agents that is assembled from them.
export { type MemoryModule, memoryModule } from "./module.ts";
