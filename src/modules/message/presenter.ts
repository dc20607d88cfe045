// Messages as JSON, and the events and mention rows of a message.
import { type EventActor, type EventDraft, roomStream } from "@/core/event/event.ts";
import type { Message, Reaction } from "./schema.ts";
import { MENTION_ALL, type MentionRow, type MessageRow, type MessageStore } from "./store.ts";

/** The columns that store JSON. */
type Parts = Pick<Message, "mentions" | "files" | "metadata">;

/** A message in a form that is the same for all readers. Callers that have the parsed `parts` pass them. */
export function presentMessage(row: MessageRow, reactions: Reaction[] = [], parts = partsOf(row)): Message {
  const message: Message = {
    id: row.id,
    roomId: row.room_id,
    seq: row.seq,
    senderId: row.sender_id,
    senderKind: row.sender_kind,
    type: row.type,
    text: row.text,
    format: row.format,
    threadId: row.thread_id,
    replyToId: row.reply_to_id,
    mentions: parts.mentions,
    files: parts.files,
    reactions,
    pinned: row.pinned_at !== null,
    replyCount: row.reply_count,
    lastReplyAt: row.last_reply_at,
    clientMessageId: row.client_message_id,
    metadata: parts.metadata,
    editedAt: row.edited_at,
    editCount: row.edit_count,
    deletedAt: row.deleted_at,
    version: row.version,
    createdAt: row.created_at,
  };
  if (row.elements_json !== null) message.elements = JSON.parse(row.elements_json);
  return message;
}

function partsOf(row: MessageRow): Parts {
  return {
    mentions: JSON.parse(row.mentions_json),
    files: JSON.parse(row.files_json),
    metadata: JSON.parse(row.metadata_json),
  };
}

/** Messages with their reactions, as seen by `readerId`. */
export async function presentMessages(
  messages: MessageStore,
  tenantId: string,
  readerId: string,
  rows: readonly MessageRow[],
): Promise<Message[]> {
  const reactions = await messages.reactions(tenantId, readerId, rows.map((row) => row.id));
  return rows.map((row) => presentMessage(row, reactions.get(row.id)));
}

/** An event about a message; readers who may not see the message get it without content. */
export function messageEvent(actor: EventActor | undefined, row: MessageRow, type: string, data: unknown): EventDraft {
  const stream = roomStream(row.room_id);
  return { tenantId: row.tenant_id, stream, type, actor, data, effect: { kind: "concerns", seq: row.seq } };
}

/** Reactions in events, which are the same for all recipients. */
export function sharedReactions(reactions: readonly Reaction[]): Reaction[] {
  return reactions.map(({ key, count }) => ({ key, count }));
}

/** Rows for counting the mentions of a message. */
export function mentionRows(row: MessageRow, { principalIds, room }: Message["mentions"]): MentionRow[] {
  if (principalIds.length === 0 && !room) return [];
  const ids = new Set(principalIds);
  if (room) ids.add(MENTION_ALL);
  return [...ids].map((principal_id) => ({
    tenant_id: row.tenant_id,
    room_id: row.room_id,
    seq: row.seq,
    principal_id,
    message_id: row.id,
  }));
}
