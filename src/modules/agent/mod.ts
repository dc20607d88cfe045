// Agents: principals that respond with a language model, and their runs. From a mention to its response:
//
// 1. `MessageNotifier` decides who is notified, with all rights, mutes and brakes. In the same transaction, `RunTriggers` adds a
//    run for each agent among them, or joins one that has not started.
// 2. A `Runner` of some node claims it under a lease, and `RunExecutor` executes it step by step. Each step is a row, so any node
//    can continue after the last one.
// 3. `RunActors` derives the actor for each call: the rights of the agent, its owner and those who asked, within the `Audience`,
//    which is what all readers of the room can see: its members, and of a public room everybody.
// 4. `ModelStep` streams the response: parts to `run:<id>` each 100 ms, the text so far to the row each second.
// 5. `ToolStep` runs a call. An operation and its step are one transaction, in which `ApprovalGate` may stop it.
// 6. `RunEnding` commits the last step, the message and the end of the run together.
export { agentModule } from "./module.ts";
export type { AgentModule } from "./module.ts";
export type { AssembleContext, RunContext } from "./run/context.ts";
export { systemText } from "./run/context.ts";
export type { ScheduleTakeover } from "./run/takeover.ts";
export { type AgentTool, type ToolCall, ToolFailed, type ToolSource } from "./tool/tool.ts";
