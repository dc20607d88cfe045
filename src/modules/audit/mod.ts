// The audit module: what administers a tenant is recorded, for its administrators.
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import type { Platform } from "@/ports/platform.ts";
import { migrations } from "./migrations.ts";
import { AuditEntry, AuditList } from "./schema.ts";
import { AuditLog } from "./service.ts";

export type { AuditLog };

type AuditModule = Module & { audit: AuditLog };

export function auditModule({ store, clock, cursors }: Platform, { days }: { days: number }): AuditModule {
  const audit = new AuditLog({ store, clock, cursors, days });
  return {
    name: "audit",
    migrations,
    tags: { audit: "What was done that administers the tenant, or changes what others may do." },
    operations: [
      defineOperation({
        name: "audit.list",
        summary: "List who did what administers the tenant, the newest first",
        description:
          "Each call that changed people, their rights, their tokens, rooms, agents or what is connected to the tenant, and " +
          "each session that was started. A call and its entry commit together, so none is missing.",
        access: { scope: "audit.read", tenant: "admin" },
        http: { method: "GET", path: "/v1/collaboration/audit", status: 200 },
        input: AuditList,
        output: pageSchema(AuditEntry),
        faults: ["invalid_cursor"],
        run: ({ actor }, input) => audit.list(actor, input),
      }),
    ],
    record: (call, run) => audit.record(call, run),
    maintenance: { audit: () => audit.purge() },
    capability: () => ({ days }),
    audit,
  };
}
