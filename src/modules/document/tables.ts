// Rows of documents. Binary data is base64 text, which both engines store alike.
import type { RoomTables } from "@/modules/room/mod.ts";
import type { DOCUMENT_KINDS, DOCUMENT_STATES, REVISION_KINDS } from "./schema.ts";

export type DocumentRow = {
  tenant_id: string;
  id: string;
  /** null: a private document, with readers of its own. */
  room_id: string | null;
  parent_id: string | null;
  title: string;
  kind: (typeof DOCUMENT_KINDS)[number];
  /** Name of the XML fragment of a rich document; null until its first content names it, and for text. */
  fragment: string | null;
  state: (typeof DOCUMENT_STATES)[number];
  is_locked: number;
  generation: string;
  /** Number of updates applied to the content. */
  revision: number;
  /** Bytes of the text, or of the nodes of a rich document as JSON, when they were last derived. */
  text_bytes: number;
  /** Bytes of the updates since then, an upper bound of the growth of the text. */
  pending_bytes: number;
  /** Bytes of snapshot and updates together. */
  state_bytes: number;
  /** Time of the first live edit that is in no revision yet. */
  pending_since: string | null;
  edited_by: string;
  edited_at: string;
  metadata_json: string;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
  deleted_at: string | null;
  /** The document whose deletion also deleted this one; itself for the root of a deletion. */
  deletion_root_id: string | null;
};

export type StateRow = {
  tenant_id: string;
  document_id: string;
  /** Yjs update with all changes up to `snapshot_revision`. */
  snapshot: string;
  snapshot_revision: number;
  /** Markdown, or the plain text of a rich document. */
  text: string;
  text_revision: number;
};

export type UpdateRow = {
  tenant_id: string;
  document_id: string;
  revision: number;
  data: string;
  principal_id: string;
};

export type RevisionRow = {
  tenant_id: string;
  document_id: string;
  revision: number;
  kind: (typeof REVISION_KINDS)[number];
  text: string;
  /** Nodes of a rich document; null for text, and for a document that has become too large. */
  nodes_json: string | null;
  bytes: number;
  principal_ids_json: string;
  started_at: string;
  at: string;
};

/** A revision without its content. */
export type RevisionHead = Omit<RevisionRow, "text" | "nodes_json">;

/** Roles in a private document, as roles of rooms. */
export type AccessRole = "observer" | "member" | "owner";

export type AccessRow = { tenant_id: string; document_id: string; principal_id: string; role: AccessRole };

export type CommentRow = {
  tenant_id: string;
  id: string;
  document_id: string;
  /** The comment this one replies to. */
  parent_id: string | null;
  author_id: string;
  text: string;
  /** The text that was commented on. */
  quote: string | null;
  /** Relative positions of the CRDT. */
  anchor_start: string | null;
  anchor_end: string | null;
  resolved_by: string | null;
  resolved_at: string | null;
  version: number;
  created_at: string;
  updated_at: string;
};

export type DocumentTables = RoomTables & {
  document: DocumentRow;
  document_state: StateRow;
  document_update: UpdateRow;
  document_revision: RevisionRow;
  document_access: AccessRow;
  document_comment: CommentRow;
};
