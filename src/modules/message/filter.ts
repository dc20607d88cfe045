// Filters of messages: what other modules may change or refuse before a message is sent or edited.
import { canonicalJson } from "@/core/json.ts";
import type { Context } from "@/core/operation.ts";
import type { Message, MessageSend, MessageUpdate } from "./schema.ts";

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
  /**
   * The message to send instead; throws the Fault that its sender receives. Keeps the order of the messages of a sender. The text
   * may be longer than a message can be: then a file will have all of it.
   */
  apply<Message extends FilteredMessage>(context: Context, roomId: string, message: Message): Promise<Message>;
};

/** The change of a message as filters of its room let it through. */
export async function filterUpdate(
  filter: MessageFilter,
  context: Context,
  { roomId, metadata }: Pick<Message, "roomId" | "metadata">,
  input: MessageUpdate,
): Promise<MessageUpdate> {
  if (!filter.appliesTo(context.actor.tenantId, roomId)) return input;
  if (input.metadata !== undefined) return await filter.apply(context, roomId, input);
  // A mark of the filters is added to the metadata that the message has, or removed from it.
  const { metadata: marked, ...filtered } = await filter.apply(context, roomId, { ...input, metadata });
  return canonicalJson(marked) === canonicalJson(metadata) ? filtered : { ...filtered, metadata: marked };
}
