// Operations on the caller's own tenant; no operation accepts another one.
import { z } from "@zod/zod";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { Tenant, TenantUpdate } from "./schema.ts";
import type { TenantService } from "./service.ts";

export function tenantApi(tenants: TenantService): ModuleApi {
  return {
    tags: {
      tenant: "The caller's tenant: its name and settings, such as allowed origins.",
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
    ],
  };
}
