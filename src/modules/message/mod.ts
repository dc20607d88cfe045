// Messages in rooms, each at one position of the room's stream, with threads, reactions, pins and read positions.
export { MessageAccess, sendContext } from "./message_access.ts";
export { addArchivedMessages, type ExistingMessage, MessageArchiveStore } from "./archive_store.ts";
export { contentOfText, fitsMessage, partsOfText } from "./long_text.ts";
export { createPreviewReader } from "./message_preview_store.ts";
export { lookedUp, MentionedNames, namesIn } from "./mentions.ts";
export { messageModule } from "./module.ts";
export type { AgentTrigger, TriggerAgents } from "./notifier.ts";
export type { RunMessages } from "./scheduled/service.ts";
export { presentMessage } from "./presenter.ts";

export { UnreadCounter } from "./read_state/unread_counts.ts";
export { Unread } from "./read_state/schema.ts";
export { presentUnread } from "./read_state/service.ts";
export {
  IncludeSenders,
  Mentions,
  MENTIONS_MAX,
  Message,
  MESSAGE_TYPES,
  MessageFile,
  MessageId,
  MessageType,
  type MessageUpdate,
  REACTION_KINDS_MAX,
  ReactionKey,
  TEXT_MAX_BYTES,
  TEXT_MAX_CODE_POINTS,
} from "./schema.ts";
export { type FilteredMessage, filterUpdate, type MessageFilter } from "./filter.ts";
export type { MessageService } from "./service.ts";
export { countCommitted } from "./api.ts";
export type { MessageContent } from "./admission.ts";
export { fileOwner, type MessageSender } from "./sender.ts";
export { type MessageEditRow, type MessageRow, type MessageTables, type ReactionRow } from "./store.ts";
