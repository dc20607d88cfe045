// Messages as JSON, and what a send turns into.
import type { Message, Reaction } from "./schema.ts";
import { EVERYBODY, type MentionRow, type MessageRow, type MessageStore } from "./store.ts";

/** A message as everybody sees it. A new one has no reactions. */
export function presentMessage(row: MessageRow, reactions: Reaction[] = []): Message {
  return {
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
    mentions: JSON.parse(row.mentions_json),
    files: JSON.parse(row.files_json),
    reactions,
    pinned: row.pinned_at !== null,
    replyCount: row.reply_count,
    lastReplyAt: row.last_reply_at,
    clientMessageId: row.client_message_id,
    metadata: JSON.parse(row.metadata_json),
    editedAt: row.edited_at,
    editCount: row.edit_count,
    deletedAt: row.deleted_at,
    version: row.version,
    createdAt: row.created_at,
  };
}

/** Messages with their reactions, as `readerId` sees them. */
export async function presentMessages(
  messages: MessageStore,
  tenantId: string,
  readerId: string,
  rows: readonly MessageRow[],
): Promise<Message[]> {
  const reactions = await messages.reactions(tenantId, readerId, rows.map((row) => row.id));
  return rows.map((row) => presentMessage(row, reactions.get(row.id)));
}

/** Reactions as events carry them. */
export function shared(reactions: readonly Reaction[] = []): Reaction[] {
  return reactions.map(({ key, count }) => ({ key, count }));
}

/** The rows that make a message's mentions countable. */
export function mentionRows(row: MessageRow, { principalIds, room }: Message["mentions"]): MentionRow[] {
  const ids = new Set(principalIds);
  if (room) ids.add(EVERYBODY);
  return [...ids].map((principal_id) => ({
    tenant_id: row.tenant_id,
    room_id: row.room_id,
    seq: row.seq,
    principal_id,
    message_id: row.id,
  }));
}
