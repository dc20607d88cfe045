// The transfer module: imports and exports.
import { type Module, operationsOf } from "@/core/module.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { transferApi } from "./api.ts";
import type { ModuleArchives } from "./format/content_records.ts";
import { COPY_NOTIFICATIONS, ExportService } from "./export/service.ts";
import { ImportService } from "./import/service.ts";
import { migrations } from "./migrations.ts";
import { transferErasure } from "./principal_erasure.ts";
import { ARCHIVE_MAX_BYTES, EXPORT_RETENTION_HOURS, EXPORTS_PER_PRINCIPAL } from "./schema.ts";
import { TransferStore } from "./store.ts";

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  notify: Notify;
  archives: ModuleArchives;
  membersMax: number;
};

/** To be built after every module with an archive section. */
export function transferModule(
  { store, clock, cursors, blobs, modules, dispatch }: Platform,
  { roomAccess, identity, notify, archives, membersMax }: Deps,
): Module {
  let isStopping = false;
  const sections = modules.flatMap((module) => module.archive ?? []);
  const shared = { store, clock, cursors, blobs, archives, sections, isStopping: () => isStopping };
  const imports = new ImportService({ ...shared, membersMax });
  let known: ReturnType<typeof operationsOf> | undefined;
  const operations = () => known ??= operationsOf(modules);
  const exports = new ExportService({ ...shared, roomAccess, identity, notify, dispatch, operations });
  return {
    name: "transfer",
    migrations,
    erases: transferErasure(exports),
    ...transferApi(imports, exports, sections),
    notificationKinds: Object.fromEntries(Object.values(COPY_NOTIFICATIONS).map((kind) => [kind, null])),
    resourceScopes: { export: "transfer.manage" },
    jobs: [...imports.jobs, ...exports.jobs],
    async purgeRoom(tenantId, roomId) {
      while (await store.write((tx) => new TransferStore(tx.db).deleteImportHistory(tenantId, roomId)));
    },
    // What runs stops at the next record, and continues at the next start.
    drain() {
      isStopping = true;
    },
    capability: () => ({
      imports: ["slack", "mattermost", "gateway"],
      exports: ["ndjson"],
      archiveMaxBytes: ARCHIVE_MAX_BYTES,
      exportRetentionHours: EXPORT_RETENTION_HOURS,
      exportsPerPrincipal: EXPORTS_PER_PRINCIPAL,
    }),
  };
}
