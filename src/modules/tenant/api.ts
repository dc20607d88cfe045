// Operations on the caller's own tenant; no operation accepts another one.
import { z } from "@zod/zod";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import type { RetentionService } from "./retention.ts";
import { Retention, RetentionPut, Tenant, TenantUpdate } from "./schema.ts";
import type { TenantService } from "./service.ts";

const RETENTION_PATH = "/v1/collaboration/retention";

export function tenantApi(tenants: TenantService, retention: RetentionService): ModuleApi {
  return {
    tags: {
      tenant: "The caller's tenant: its name and settings, such as allowed origins.",
      retention: "How long the tenant stores what is deleted by its age.",
    },
    operations: [
      defineOperation({
        name: "tenant.read",
        summary: "Get the caller's tenant",
        access: { scope: "tenant.read" },
        http: { method: "GET", path: "/v1/collaboration/tenant", status: 200 },
        input: z.strictObject({}),
        output: Tenant,
        run: ({ actor }) => tenants.read(actor.tenantId),
      }),
      defineOperation({
        name: "tenant.update",
        summary: "Update the caller's tenant",
        access: { scope: "tenant.manage", tenant: "admin" },
        http: { method: "PATCH", path: "/v1/collaboration/tenant", status: 200, ifMatch: "version" },
        input: TenantUpdate,
        output: Tenant,
        faults: ["version_mismatch"],
        example: { name: "Example Ltd" },
        run: ({ actor }, input) => tenants.update(actor.tenantId, input),
      }),
      defineOperation({
        name: "retention.read",
        summary: "Get how long the tenant stores messages, files, runs and its audit log",
        access: { scope: "retention.read", tenant: "owner" },
        http: { method: "GET", path: RETENTION_PATH, status: 200 },
        input: z.strictObject({}),
        output: Retention,
        run: ({ actor }) => retention.read(actor),
      }),
      defineOperation({
        name: "retention.put",
        summary: "Set how long the tenant stores messages, files, runs and its audit log",
        description:
          "What is older is deleted permanently within about an hour, and the audit log verifies from its first entry that is " +
          "left. A legal hold keeps what is under it until it is released.",
        access: { scope: "retention.manage", tenant: "owner" },
        http: { method: "PUT", path: RETENTION_PATH, status: 200 },
        input: RetentionPut,
        output: Retention,
        example: { messagesDays: 365, filesDays: 7, runsDays: null, auditDays: null },
        run: ({ actor }, input) => retention.put(actor, input),
      }),
    ],
  };
}
