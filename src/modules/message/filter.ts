// Filters of messages: what other modules may change or refuse before a message is sent or edited.
import type { Context } from "@/core/operation.ts";
import type { MessageSend } from "./schema.ts";

/** What a filter looks at. */
export type FilteredMessage = {
  text?: MessageSend["text"] | undefined;
  format?: MessageSend["format"] | undefined;
  threadId?: MessageSend["threadId"];
  metadata?: MessageSend["metadata"] | undefined;
};

export type MessageFilter = {
  /** Whether any room is filtered. */
  readonly isActive: boolean;
  /** Whether messages of the room are filtered. Called for each message, so it must not wait. */
  appliesTo(tenantId: string, roomId: string): boolean;
  /** The message to send instead; throws the Fault that its sender receives. Keeps the order of the messages of a sender. */
  apply<Message extends FilteredMessage>(context: Context, roomId: string, message: Message): Promise<Message>;
};
