// Documents and their events as everybody sees them.
import type { Actor } from "@/core/actor.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event.ts";
import type { Transaction } from "@/ports/store.ts";
import type { ContentChange, Document, RevisionInfo } from "./schema.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables, RevisionRow } from "./tables.ts";

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

/** Tells those who see the document: its room, or the readers of a private one. `actor` is absent for what jobs do. */
export async function tell(
  tx: Transaction<DocumentTables>,
  row: DocumentRow,
  type: `document.${string}`,
  data: unknown,
  actor?: Pick<Actor, "principalId" | "kind">,
): Promise<void> {
  const streams = row.room_id === null
    ? (await new DocumentStore(tx.db).audience(row.tenant_id, row.id)).map(principalStream)
    : [roomStream(row.room_id)];
  await tx.emit(...streams.map((stream): EventDraft => ({
    tenantId: row.tenant_id,
    stream,
    type,
    data,
    ...(actor === undefined ? {} : { actor }),
  })));
}
