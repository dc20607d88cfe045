// Agents: principals that respond with a language model, and their runs.
export { agentModule } from "./module.ts";
export type { AgentModule } from "./module.ts";
export type { AssembleContext, CallOperation, ContextRequest } from "./run/context.ts";
export { systemText } from "./run/context.ts";
export type { AgentTool, ToolCall, ToolSource } from "./tool/tool.ts";
