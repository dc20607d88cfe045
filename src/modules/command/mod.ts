// Commands that modules offer in rooms, and the responses to them.
export { type CommandModule, commandModule } from "./module.ts";
export type { Interactions } from "./interactions.ts";
export {
  CommandDescription,
  CommandName,
  InteractionId,
  LATE_RESPONSES_MAX,
  RESPONSE_MINUTES,
  ResponseInput,
} from "./schema.ts";
