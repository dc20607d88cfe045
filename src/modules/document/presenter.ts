// Documents and comments as clients see them, and the events that publish them.
import type { Actor } from "@/core/actor.ts";
import { type EventActor, principalStream, roomStream } from "@/core/event/event.ts";
import { redactEvents } from "@/ports/sql/event_redaction.ts";
import { changesBetween, shorten } from "@/core/event/event_data.ts";
import type { Transaction } from "@/ports/store.ts";
import type { AnchoredText } from "./content/representation.ts";
import {
  ANCHORED_MAX,
  type Comment,
  type Document,
  type FoundComment,
  LONG_COMMENT_FIELDS,
  LONG_FIELDS,
} from "./schema.ts";
import type { ContentChange, RevisionInfo } from "./content/schema.ts";
import { DocumentStore } from "./store.ts";
import type { CommentRow, DocumentRow, DocumentTables, RevisionHead } from "./tables.ts";

export function presentDocument(row: DocumentRow): Document {
  return {
    id: row.id,
    roomId: row.room_id,
    parentId: row.parent_id,
    title: row.title,
    kind: row.kind,
    fragment: row.fragment,
    state: row.state,
    locked: row.is_locked === 1,
    revision: row.revision,
    generation: row.generation,
    metadata: JSON.parse(row.metadata_json),
    version: row.version,
    createdBy: row.created_by,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    editedBy: row.edited_by,
    editedAt: row.edited_at,
    deletedAt: row.deleted_at,
  };
}

export function presentChange({ revision, generation }: DocumentRow, applied: number): ContentChange {
  return { revision, version: revision, generation, applied };
}

export function presentRevision(row: RevisionHead): RevisionInfo {
  return {
    revision: row.revision,
    kind: row.kind,
    principalIds: JSON.parse(row.principal_ids_json),
    size: row.bytes,
    startedAt: row.started_at,
    at: row.at,
  };
}

/** A comment with its current position in the text of its document. */
export function presentComment(row: CommentRow, content: AnchoredText): Comment {
  return { ...commentFields(row), anchor: presentAnchor(row, content) };
}

export function presentFoundComment(row: CommentRow, document: DocumentRow): FoundComment {
  return { ...commentFields(row), roomId: document.room_id, documentTitle: document.title };
}

/** All but the text that it is on. */
export function commentFields(row: CommentRow): Omit<Comment, "anchor"> {
  return {
    id: row.id,
    documentId: row.document_id,
    parentId: row.parent_id,
    authorId: row.author_id,
    text: row.text,
    resolved: row.resolved_at !== null,
    resolvedBy: row.resolved_by,
    resolvedAt: row.resolved_at,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function presentAnchor({ quote, anchor_start, anchor_end }: CommentRow, content: AnchoredText): Comment["anchor"] {
  if (quote === null || anchor_start === null || anchor_end === null) return null;
  const [start, end] = [content.resolve(anchor_start), content.resolve(anchor_end)];
  if (start === undefined || end === undefined || end <= start) return { quote, text: null, start: null, end: null };
  const isShown = end - start <= ANCHORED_MAX;
  return { quote, text: isShown ? content.text.slice(start, end).toWellFormed() : null, start, end };
}

/** Publishes to the room of a document, or to the readers of a private one. Jobs have no `actor`. */
export async function publishDocumentEvent(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  type: `document.${string}`,
  data: unknown,
  actor?: EventActor,
): Promise<void> {
  const streams = await streamsOf(tx, row);
  await tx.emit(...streams.map((stream) => ({ tenantId: row.tenant_id, stream, type, data, actor })));
}

export async function publishDocumentCreated(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  actor?: Actor,
): Promise<void> {
  const { value: document, omitted } = shorten(presentDocument(row), LONG_FIELDS);
  await publishDocumentEvent(tx, row, "document.created", { document, omitted }, actor);
}

/** Publishes the changes of a document; `besides` names changes that are not fields. */
export async function publishDocumentUpdated(
  tx: Transaction<DocumentTables>,
  [was, is]: readonly [DocumentRow, DocumentRow],
  besides: readonly ("content" | "access")[],
  principalIds: readonly string[],
  actor?: Actor,
): Promise<void> {
  const { changes, omitted } = changesBetween(presentDocument(was), presentDocument(is));
  if (besides.includes("content")) {
    // Live edits have changed these before this event, so the two rows may have the same values.
    const { revision, generation, editedBy, editedAt, updatedAt } = presentDocument(is);
    Object.assign(changes, { revision, generation, editedBy, editedAt, updatedAt });
    // The first content of a rich document names its fragment.
    if (is.fragment !== null) changes.fragment = is.fragment;
  }
  const data = { documentId: is.id, roomId: is.room_id, changes, omitted: [...omitted, ...besides], principalIds };
  await publishDocumentEvent(tx, is, "document.updated", data, actor);
}

export async function publishCommentEvent(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  action: "created" | "updated" | "resolved" | "reopened" | "deleted",
  source: Comment,
  actor?: Actor,
): Promise<void> {
  const { value: comment, omitted } = shorten(action === "deleted" ? withoutText(source) : source, LONG_COMMENT_FIELDS);
  await publishDocumentEvent(tx, row, "document.commented", { documentId: row.id, action, comment, omitted }, actor);
}

/** Redacts a comment and its replies in the events up to the time `until`. */
export async function redactComments(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  { id, created_at }: CommentRow,
  until: string,
): Promise<void> {
  await redactMatching(tx, row, created_at, until, id, (comment) => comment.id === id || comment.parentId === id);
}

/** Redacts all comments of a document that leaves its streams. */
export async function redactAllComments(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  until: string,
): Promise<void> {
  await redactMatching(tx, row, row.created_at, until, row.id, () => true);
}

/** Redacts the comments that match, in events that contain `id`. */
async function redactMatching(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  from: string,
  to: string,
  id: string,
  matches: (comment: Comment) => boolean,
): Promise<void> {
  for (const stream of await streamsOf(tx, row)) {
    await redactEvents(
      tx.db,
      { tenantId: row.tenant_id, stream, type: "document.commented", from, to },
      id,
      ({ comment, ...data }) => matches(comment) ? { ...data, comment: withoutText(comment) } : undefined,
    );
  }
}

/** A deleted comment as it is published. */
function withoutText(comment: Comment): Comment {
  return { ...comment, text: "", anchor: null };
}

/** Streams on which a document's viewers receive its events. */
async function streamsOf(tx: Transaction<DocumentTables>, row: DocumentRow): Promise<string[]> {
  if (row.room_id !== null) return [roomStream(row.room_id)];
  return (await new DocumentStore(tx.db).audience(row.tenant_id, row.id)).map(principalStream);
}
