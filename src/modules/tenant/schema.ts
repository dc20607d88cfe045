// What a tenant looks like from outside.
import { z } from "@zod/zod";
import { patchOf } from "@/core/patch.ts";

/** Settings a tenant may change for itself. */
export const TenantSettings = z.strictObject({
  messageEditWindowSeconds: z.int().min(0).max(31_536_000).nullable()
    .describe("How long after sending a message its author may edit it; null = always").default(null),
}).meta({ id: "TenantSettings" });
export type TenantSettings = z.output<typeof TenantSettings>;

export const Tenant = z.object({
  id: z.string(),
  name: z.string(),
  settings: TenantSettings,
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Tenant" });
export type Tenant = z.output<typeof Tenant>;

export const TenantUpdate = z.strictObject({
  name: z.string().trim().min(1).max(120).optional(),
  settings: patchOf(TenantSettings).optional(),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type TenantUpdate = z.output<typeof TenantUpdate>;
