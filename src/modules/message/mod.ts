// Messages: what people and agents say in rooms, each at one place of the room's line; with all that hangs on them.
export { type MessageMeter, messageModule } from "./api.ts";
export { MessageNotifier } from "./notifier.ts";
export { PinService } from "./pin/service.ts";
export { mentionRows, presentMessage } from "./presenter.ts";
export { REACTION_EVENTS } from "./reaction/schema.ts";
export { ReactionService } from "./reaction/service.ts";
export { READING_EVENTS, Unread } from "./reading/schema.ts";
export { ReadingService } from "./reading/service.ts";
export { SCHEDULED_EVENTS } from "./scheduled/schema.ts";
export { ScheduledService } from "./scheduled/service.ts";
export { type ScheduledTables } from "./scheduled/store.ts";
export { Message, MESSAGE_EVENTS, MESSAGE_TYPES, MessageId } from "./schema.ts";
export { MessageSender } from "./sender.ts";
export { MessageService } from "./service.ts";
export { COUNT_MAX, mentionsOf, type MessageRow, MessageStore, type MessageTables, unreadOf } from "./store.ts";
