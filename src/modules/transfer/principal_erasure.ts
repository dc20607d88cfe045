// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";
import type { ExportService } from "./export/service.ts";
import { memberName } from "./import/history.ts";
import type { ExportRow } from "./store.ts";
import { isStored } from "./transfer_jobs.ts";

export const transferErasure = (exports: Pick<ExportService, "expireCopies">): PrincipalErasure => ({
  transfer_import: {
    key: ["id"],
    renames: ["requested_by", "charged_id"],
    ids: ["principal_map_json"],
    json: ["report_json"],
    keeps: { progress_json: "counts and positions", failure_json: "a code", blob_key: "a name of the gateway" },
  },
  transfer_import_history: { key: ["tenant_id", "container", "name"], renames: [{ column: "name", text: memberName }] },
  transfer_line: {
    key: ["import_id", "room_key", "at", "line"],
    keeps: { json: "of an archive while it is imported", room_key: "as the line" },
  },
  transfer_export: {
    key: ["id"],
    reads: ["kind", "state"],
    // Nobody else may have the copy of what there is of the person.
    removal: {
      of: "requested_by",
      applies: ({ kind, state }) => kind === "principal" && isStored({ state: state as ExportRow["state"] }),
      run: ({ tenantId }, rows) => exports.expireCopies(tenantId, rows.map(({ id }) => String(id))),
    },
    renames: ["requested_by", "charged_id"],
    keeps: {
      counts_json: "numbers",
      failure_json: "a code",
      blob_key: "an archive, which is deleted after three days",
    },
  },
});
