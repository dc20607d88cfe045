// Documents and their events as everybody sees them.
import type { Actor } from "@/core/actor.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event.ts";
import { retell } from "@/ports/retelling.ts";
import type { Transaction } from "@/ports/store.ts";
import type * as Y from "yjs";
import { findPosition } from "./crdt.ts";
import { ANCHORED_MAX, type Comment, type ContentChange, type Document, type RevisionInfo } from "./schema.ts";
import { DocumentStore } from "./store.ts";
import type { CommentRow, DocumentRow, DocumentTables, RevisionRow } from "./tables.ts";

export function presentDocument(row: DocumentRow): Document {
  return {
    id: row.id,
    roomId: row.room_id,
    parentId: row.parent_id,
    title: row.title,
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

export function presentRevision(row: Omit<RevisionRow, "text">): RevisionInfo {
  return {
    revision: row.revision,
    kind: row.kind,
    principalIds: JSON.parse(row.principal_ids_json),
    bytes: row.bytes,
    startedAt: row.started_at,
    at: row.at,
  };
}

/** A comment with the place it has in `doc`, whose text `text` is. */
export function presentComment(row: CommentRow, doc: Y.Doc, text: string): Comment {
  return {
    id: row.id,
    documentId: row.document_id,
    parentId: row.parent_id,
    authorId: row.author_id,
    text: row.text,
    anchor: presentAnchor(row, doc, text),
    resolved: row.resolved_at !== null,
    resolvedBy: row.resolved_by,
    resolvedAt: row.resolved_at,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function presentAnchor({ quote, anchor_start, anchor_end }: CommentRow, doc: Y.Doc, text: string): Comment["anchor"] {
  if (quote === null || anchor_start === null || anchor_end === null) return null;
  const [start, end] = [findPosition(doc, anchor_start), findPosition(doc, anchor_end)];
  if (start === undefined || end === undefined || end <= start) return { quote, text: null, start: null, end: null };
  const isShown = end - start <= ANCHORED_MAX;
  return { quote, text: isShown ? text.slice(start, end).toWellFormed() : null, start, end };
}

/** Tells those who see the document: its room, or the readers of a private one. `actor` is absent for what jobs do. */
export async function tell(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  type: `document.${string}`,
  data: unknown,
  actor?: Pick<Actor, "principalId" | "kind">,
): Promise<void> {
  const streams = await streamsOf(tx, row);
  await tx.emit(...streams.map((stream): EventDraft => ({
    tenantId: row.tenant_id,
    stream,
    type,
    data,
    ...(actor === undefined ? {} : { actor }),
  })));
}

/** Takes what a comment and its replies said out of the events that told it; `until` is a time. */
export async function silence(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  { id, created_at }: CommentRow,
  until: string,
): Promise<void> {
  await hush(tx, row, created_at, until, id, (comment) => comment.id === id || comment.parentId === id);
}

/** The same of all comments of a document that leaves the place in which they were told. */
export async function silenceAll(tx: Transaction<DocumentTables>, row: DocumentRow, until: string): Promise<void> {
  await hush(tx, row, row.created_at, until, row.id, () => true);
}

/** Takes the texts of those comments that `isMeant` out of the events that name `id`. */
async function hush(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  from: string,
  to: string,
  id: string,
  isMeant: (comment: Comment) => boolean,
): Promise<void> {
  for (const stream of await streamsOf(tx, row)) {
    await retell(
      tx.db,
      { tenantId: row.tenant_id, stream, type: "document.commented", from, to },
      id,
      ({ comment, ...data }) => isMeant(comment) ? { ...data, comment: withoutText(comment) } : undefined,
    );
  }
}

/** What is told of a comment that is deleted. */
export function withoutText(comment: Comment): Comment {
  return { ...comment, text: "", anchor: null };
}

/** Where those who see a document hear of it. */
async function streamsOf(tx: Transaction<DocumentTables>, row: DocumentRow): Promise<string[]> {
  if (row.room_id !== null) return [roomStream(row.room_id)];
  return (await new DocumentStore(tx.db).audience(row.tenant_id, row.id)).map(principalStream);
}
