// Commands that modules offer in rooms, and the responses to them.
export { commandModule } from "./module.ts";
export type { Filtered } from "./delivery.ts";
export type { Interactions } from "./interactions.ts";
export { CommandDescription, CommandName, InteractionId, ResponseInput } from "./schema.ts";
