// Tenants in the API.
import { z } from "@zod/zod";
import { nameSchema } from "@/core/text/name.ts";
import { BaseVersion, patchSchema } from "@/core/patch.ts";

/** Settings that admins of the tenant can change. */
export const TenantSettings = z.strictObject({
  messageEditWindowSeconds: z.int().min(0).max(31_536_000).nullable()
    .describe("Seconds after sending in which its author can edit a message; null: unlimited").default(null),
}).meta({ id: "TenantSettings" });
export type TenantSettings = z.output<typeof TenantSettings>;

const LOCAL = /^(.+\.)?localhost$|^127(\.\d+){3}$|^\[::1\]$/;
const Origin = z.string().max(300).refine(isOrigin, "expected an exact origin such as https://app.example.com")
  .overwrite(normalizeOrigin);

export const Tenant = z.object({
  id: z.string(),
  name: z.string().describe("Name of the tenant"),
  settings: TenantSettings,
  allowedOrigins: z.array(z.string())
    .describe("Browser origins allowed for this tenant, in addition to those of the gateway"),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Tenant" });
export type Tenant = z.output<typeof Tenant>;

export const TenantUpdate = z.strictObject({
  name: nameSchema(120).optional().describe("New name of the tenant"),
  settings: patchSchema(TenantSettings).optional().describe("Settings to change; absent ones are unchanged"),
  allowedOrigins: z.array(Origin).max(50).nullable().optional()
    .describe("Exact origins with https, or of localhost; null or [] for none"),
  version: BaseVersion,
});
export type TenantUpdate = z.output<typeof TenantUpdate>;

/** Days that runs of agents are stored after their end, unless a tenant has fewer. */
export const RUN_DAYS = 90;
export const AUDIT_DAYS_MIN = 90;

const retentionDays = {
  messagesDays: z.int().min(1).max(36_500).nullable().describe(
    "Days that messages are stored; rooms may have fewer, see `retentionDays` of a room. null: unlimited",
  ),
  filesDays: z.int().min(1).max(90).nullable().describe(
    "Days that uploads are stored while nothing shows them; what a message or another resource shows is deleted with the last " +
      "that shows it. null: 1",
  ),
  runsDays: z.int().min(1).max(RUN_DAYS).nullable().describe(
    `Days that runs of agents are stored after their end; their texts are stored for a day. null: ${RUN_DAYS}`,
  ),
  auditDays: z.int().min(1).max(36_500).nullable().describe(
    `Days that entries of the audit log are stored, at most \`maxAuditDays\` and at least that or ${AUDIT_DAYS_MIN}. null: \`maxAuditDays\``,
  ),
};

export const RetentionPut = z.strictObject(retentionDays);
export type RetentionPut = z.output<typeof RetentionPut>;

export const Retention = z.object({
  ...retentionDays,
  maxAuditDays: z.int().describe("Days that the gateway stores entries of the audit log"),
  legalHold: z.boolean().describe(
    "Whether a legal hold on the tenant keeps all of it; holds on rooms and people keep theirs",
  ),
  updatedAt: z.iso.datetime().nullable().describe("null: never set"),
}).meta({ id: "Retention" });
export type Retention = z.output<typeof Retention>;

/** Only scheme, host and port; http only for localhost. */
function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.href !== `${url.origin}/` || url.hostname.includes("*")) return false;
  return url.protocol === "https:" || url.protocol === "http:" && LOCAL.test(url.hostname);
}

/** As browsers send it. */
function normalizeOrigin(text: string): string {
  return URL.parse(text)?.origin ?? text;
}
