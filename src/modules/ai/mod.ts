// AI: providers of language models and embedding models, what they cost, and who may use how much.
export { aiModule } from "./module.ts";
export type { AiModule } from "./module.ts";
export { COMPLETION_FAULTS } from "./completion_route.ts";
export type { Complete } from "./completion_service.ts";
export { MODEL_FAILURES } from "./service.ts";
export type { AiService, AiStepEnd } from "./service.ts";
export type { AiCharge, Used } from "./budgets.ts";
