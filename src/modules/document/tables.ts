// Rows of documents. Binary is kept as base64 text, which both engines store alike.
import type { RoomTables } from "@/modules/room/mod.ts";
import type { DOCUMENT_STATES, REVISION_KINDS } from "./schema.ts";

export type DocumentRow = {
  tenant_id: string;
  id: string;
  /** null: a private document, which has readers of its own. */
  room_id: string | null;
  parent_id: string | null;
  title: string;
  state: (typeof DOCUMENT_STATES)[number];
  is_locked: number;
  generation: string;
  /** How many updates the content has taken. */
  revision: number;
  /** Size of the text when it was last derived. */
  text_bytes: number;
  /** Bytes of the updates since then: the text has grown by no more. */
  loose_bytes: number;
  /** Bytes of snapshot and updates together. */
  state_bytes: number;
  /** Since when there are live edits that no revision holds yet. */
  dirty_at: string | null;
  edited_by: string;
  edited_at: string;
  metadata_json: string;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
  deleted_at: string | null;
  /** The document whose deletion took this one along; itself when it was the one deleted. */
  deleted_with: string | null;
};

export type StateRow = {
  tenant_id: string;
  document_id: string;
  /** A Yjs update with everything up to `snapshot_revision`. */
  snapshot: string;
  snapshot_revision: number;
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
  bytes: number;
  principal_ids_json: string;
  started_at: string;
  at: string;
};

/** Roles in a private document, on the ladder of rooms. */
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
  /** The text it was anchored to. */
  quote: string | null;
  /** Relative positions in the CRDT. */
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
