// Messages: what people and agents say in rooms, each at one place of the room's line; with all that hangs on them.
export { messageModule } from "./api.ts";
export { MessageFinder } from "./finder.ts";
export { MessageNotifier } from "./notifier.ts";
export { PinService } from "./pin/service.ts";
export { mentionRows, presentMessage } from "./presenter.ts";
export { ReactionService } from "./reaction/service.ts";
export { Unread } from "./reading/schema.ts";
export { presentUnread, ReadingService } from "./reading/service.ts";
export { RetentionService } from "./retention/service.ts";
export { ScheduledService } from "./scheduled/service.ts";
export { Message, MESSAGE_TYPES, MessageId } from "./schema.ts";
export { fileOwner, MessageSender } from "./sender.ts";
export { MessageService } from "./service.ts";
export { EVERYBODY, type MessageRow, MessageStore, type MessageTables } from "./store.ts";
export { UnreadCounter } from "./reading/counts.ts";
export { REACTION_KINDS_MAX, ReactionKey } from "./reaction/schema.ts";
export { Mentions, MENTIONS_MAX, MessageFile, TEXT_MAX_BYTES, TEXT_MAX_CODE_POINTS } from "./schema.ts";
