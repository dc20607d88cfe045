// What a tenant looks like from outside.
import { z } from "@zod/zod";
import { patchOf } from "@/core/patch.ts";

/** Settings a tenant may change for itself. */
export const TenantSettings = z.strictObject({
  messageEditWindowSeconds: z.int().min(0).max(31_536_000).nullable()
    .describe("How long after sending a message its author may edit it; null = always").default(null),
}).meta({ id: "TenantSettings" });
export type TenantSettings = z.output<typeof TenantSettings>;

const LOCAL = /^(.+\.)?localhost$|^127(\.\d+){3}$|^\[::1\]$/;
const Origin = z.string().max(300).refine(isOrigin, "an exact origin such as https://app.example.com")
  .overwrite(normal);

export const Tenant = z.object({
  id: z.string(),
  name: z.string(),
  settings: TenantSettings,
  allowedOrigins: z.array(z.string())
    .describe("Origins that browsers may call from for this tenant, besides those of the gateway's settings"),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Tenant" });
export type Tenant = z.output<typeof Tenant>;

export const TenantUpdate = z.strictObject({
  name: z.string().trim().min(1).max(120).optional(),
  settings: patchOf(TenantSettings).optional(),
  allowedOrigins: z.array(Origin).max(50).nullable().optional()
    .describe("Exact origins, https or of this machine; null or [] = none besides those of the gateway's settings"),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type TenantUpdate = z.output<typeof TenantUpdate>;

/** Scheme, host and port and nothing else; plain http is for pages of the machine itself. */
function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.href !== `${url.origin}/` || url.hostname.includes("*")) return false;
  return url.protocol === "https:" || url.protocol === "http:" && LOCAL.test(url.hostname);
}

/** As browsers send it. */
function normal(text: string): string {
  return URL.parse(text)?.origin ?? text;
}
