// Memory: facts with sources, validity and rights, and the context of agents that is assembled from them.
export { runContext } from "./context/run_context.ts";
export { memoryModule } from "./module.ts";
