// The audit module: what administers a tenant is recorded, for its administrators.
import { chargedTo } from "@/core/actor.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import { Places } from "@/core/limit/slots.ts";
import type { RetentionService } from "@/modules/tenant/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { AuditChain } from "./chain.ts";
import { exportRoute } from "./export.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { AuditEntry, AuditList, AuditVerification, AuditVerify } from "./schema.ts";
import { AuditLog } from "./service.ts";

export type { AuditLog };

/** Readings of all entries at once: they take the longer, the longer the log is. */
const WHOLE_READS = { perOwner: 2, perTenant: 4, perNode: 16 };

type AuditModule = Module & { audit: AuditLog };

export function auditModule(
  { store, clock, cursors, metrics, holds }: Platform,
  { retention, days, secrets }: { retention: RetentionService; days: number; secrets: readonly Uint8Array[] },
): AuditModule {
  const chain = new AuditChain(store, secrets);
  const places = new Places("readings of the whole audit log", WHOLE_READS);
  const audit = new AuditLog({ store, clock, cursors, chain, holds, retention, days });
  return {
    name: "audit",
    migrations,
    erases,
    tags: { audit: "What was done that administers the tenant, or changes what others may do." },
    operations: [
      defineOperation({
        name: "audit.list",
        summary: "List who did what administers the tenant, the newest first",
        description:
          "Each call that changed people, their rights, their tokens, rooms, agents or what is connected to the tenant, and " +
          "each session that was started; and each call that read this log. A call and its entry commit together, so none is " +
          "missing.",
        access: { scope: "audit.read", tenant: "auditor" },
        http: { method: "GET", path: "/v1/collaboration/audit", status: 200 },
        audited: true,
        input: AuditList,
        output: pageSchema(AuditEntry),
        faults: ["invalid_cursor"],
        run: ({ actor }, input) => audit.list(actor, input),
      }),
      defineOperation({
        name: "audit.verify",
        summary: "Verify that no entry of the audit log was changed, added or removed",
        description:
          "Entries are chained: each is signed together with the one before it, by a key of the gateway. The gateway logs the " +
          "head of the chain each hour; with one of these as `head`, entries that were removed from its end are noticed, too. The " +
          "key is derived from the secret of the gateway: after its second change, entries that the first one signed no longer verify.",
        access: { scope: "audit.read", tenant: "auditor" },
        http: { method: "GET", path: "/v1/collaboration/audit/verification", status: 200 },
        audited: true,
        input: AuditVerify,
        output: AuditVerification,
        async run({ actor }, { head }) {
          using _place = places.enter(chargedTo(actor));
          return await audit.verify(actor, head);
        },
      }),
    ],
    routes: [exportRoute(store, audit, places)],
    record: (call, run) => audit.record(call, run),
    gauges: [{ gauge: metrics.auditEntries, collect: async (gauge) => gauge.set(await audit.count()) }],
    maintenance: { audit: () => audit.purge(), auditHeads: () => audit.publishHeads() },
    capability: () => ({ days }),
    audit,
  };
}
