// The tables of imports and exports.
import type { TenantRole } from "@/core/actor.ts";
import type { IdentityTables } from "@/modules/identity/mod.ts";
import type { MessageTables } from "@/modules/message/mod.ts";
import type { Export, Import } from "./schema.ts";

export type ImportRow = {
  tenant_id: string;
  id: string;
  kind: Import["kind"];
  namespace: string;
  principal_map_json: string;
  state: Import["state"];
  blob_key: string | null;
  size: number | null;
  progress_json: string;
  report_json: string;
  failure_json: string | null;
  requested_by: string;
  /** Whose bytes the content takes, and how many: the requester's, or its owner's. */
  charged_id: string;
  charged_bytes: number;
  /** Highest role that principals of the archive get. */
  requester_role: TenantRole;
  version: number;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
};

export type ExportRow = {
  tenant_id: string;
  id: string;
  kind: Export["kind"];
  room_id: string | null;
  /** Positions of the room up to this one were hidden from the requester. */
  hidden_up_to: number;
  with_files: number;
  with_revisions: number;
  state: Export["state"];
  blob_key: string | null;
  size: number | null;
  counts_json: string;
  failure_json: string | null;
  requested_by: string;
  /** Whose bytes the content takes, and how many: the requester's, or its owner's. */
  charged_id: string;
  charged_bytes: number;
  version: number;
  created_at: string;
  finished_at: string | null;
  expires_at: string | null;
};

/** A line of an archive that waits to be sorted. */
export type LineRow = {
  tenant_id: string;
  import_id: string;
  room_key: string;
  at: string;
  line: number;
  json: string;
};

/** A part of a container, such as a task of a room, that was imported: deleted since, it is not imported again. */
export type ImportHistoryRow = { tenant_id: string; container: string; name: string };

export type TransferTables =
  & MessageTables
  & IdentityTables
  & {
    transfer_import: ImportRow;
    transfer_export: ExportRow;
    transfer_line: LineRow;
    transfer_import_history: ImportHistoryRow;
  };
