// Operations on the caller's own tenant; there is no way to name another.
import { z } from "@zod/zod";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { Tenant, TenantUpdate } from "./schema.ts";
import type { TenantService } from "./service.ts";

/** The tenant module. */
export function tenantModule(tenants: TenantService): Module {
  return {
    name: "tenant",
    operations: [
      defineOperation({
        name: "tenant.read",
        summary: "Read the caller's tenant",
        access: { scope: "tenant.read" },
        http: { method: "GET", path: "/v1/collaboration/tenant", status: 200 },
        input: z.strictObject({}),
        output: Tenant,
        run: ({ actor }) => tenants.read(actor.tenantId),
      }),
      defineOperation({
        name: "tenant.update",
        summary: "Change the caller's tenant",
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
