// The audit log in the API.
import { z } from "@zod/zod";
import { pageInput } from "@/core/page.ts";
import { TimeInput } from "@/core/time_input.ts";

export const AuditEntry = z.object({
  id: z.string(),
  at: z.iso.datetime(),
  actorId: z.string().describe("Principal that called the operation"),
  onBehalfOf: z.string().nullable().describe("Owner of the actor, if that is an agent"),
  tokenId: z.string().nullable().describe("Token of the call; null if it has no id"),
  operation: z.string().describe("What was done, such as `principal.update`; `sign_in` if a session was started"),
  via: z.string().describe("How it was called: `http`, `ws`, `mcp`, or `run` for a tool of an agent"),
  requestId: z.string().nullable().describe("As in the log of the gateway; null for a session"),
  resourceId: z.string().nullable().describe("What it was done to, or what was created; null if that has no id"),
  changes: z.record(z.string(), z.string().nullable()).describe(
    "Fields that were given: roles, scopes, ids, numbers and switches with their value as text, others with null, since their texts may " +
      "be confidential",
  ),
}).meta({ id: "AuditEntry" });
export type AuditEntry = z.output<typeof AuditEntry>;

export const AuditList = z.strictObject({
  ...pageInput,
  actorId: z.string().min(1).max(200).optional().describe("Only what this principal did"),
  operation: z.string().min(1).max(100).optional().describe(
    "Only calls of this operation, or of those with this noun, such as `principal`",
  ),
  resourceId: z.string().min(1).max(200).optional().describe("Only what was done to this resource"),
  from: TimeInput.optional().describe("Only from this time on"),
  to: TimeInput.optional().describe("Only before this time"),
});
export type AuditList = z.output<typeof AuditList>;
