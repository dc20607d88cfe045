// What the sections of other modules get of a running import.
import type { ImportContext } from "@/core/archive/section.ts";
import { candidateIds, LocalIds } from "@/core/archive/ids.ts";
import { MessageArchiveStore } from "@/modules/message/mod.ts";
import { idsOfOtherTenants } from "@/ports/sql/global_ids.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { ImportRow } from "../store.ts";
import type { FileImport } from "./files.ts";
import { ImportHistory } from "./history.ts";
import type { ImportRun } from "./run.ts";

export function importContext(run: ImportRun & { files: FileImport }, row: ImportRow): ImportContext<AnyTransaction> {
  const { tenant_id: tenantId, requested_by: requestedBy } = row;
  const { report, refs, principals } = run;
  return {
    tenantId,
    requestedBy,
    report,
    get now() {
      return run.now;
    },
    refOf: (idPrefix, sourceId, scope) => refs.of(idPrefix, sourceId, scope),
    write: (work) => run.write(work),
    createPlaceholders: (tx, ids) => principals.createPlaceholders(tx, ids, run.now),
    async principalKinds(tx, ids) {
      await principals.load(tx, ids);
      return new Map(ids.filter((id) => principals.isKnown(id)).map((id) => [id, principals.kindOf(id)]));
    },
    hasFile: (id) => run.files.isImported(id),
    async locateMessages(tx, sourceIds) {
      const given = [...new Set(sourceIds)].map((id) => refs.of("msg", id));
      const rows = await new MessageArchiveStore(tx.db).messages(tenantId, [...new Set(given.flatMap(candidateIds))]);
      const existing = new Map(rows.map((message) => [message.id, message]));
      const ids = new LocalIds(existing.keys(), await idsOfOtherTenants(tx.db, "message", tenantId, sourceIds));
      return new Map(given.map((ref) => {
        const id = ids.of(ref);
        const found = existing.get(id);
        return [ref.original, { id, roomId: found?.room_id, threadId: found?.thread_id ?? null }];
      }));
    },
    history: (tx) => new ImportHistory(tx, tenantId),
  };
}
