// Which message is being edited, and which one the next message replies to.
import { signal } from "@preact/signals";

export const editedId = signal("");
/** By room: the message that the next one replies to. */
export const replyTo = signal<ReadonlyMap<string, string>>(new Map());

export function setReply(roomId: string, messageId: string | undefined): void {
  const next = new Map(replyTo.value);
  if (messageId === undefined) next.delete(roomId);
  else next.set(roomId, messageId);
  replyTo.value = next;
}
