// Messages: what people and agents say in rooms, each at one place of the room's line.
export { type MessageMeter, messageModule } from "./api.ts";
export { mentionRows, presentMessage } from "./presenter.ts";
export { Message, MESSAGE_EVENTS, MessageId } from "./schema.ts";
export { MessageSender } from "./sender.ts";
export { MessageService } from "./service.ts";
export { COUNT_MAX, type MessageRow, MessageStore, type MessageTables } from "./store.ts";
