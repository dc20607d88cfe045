// The audit log in the API.
import { z } from "@zod/zod";
import { pageInput } from "@/core/page.ts";
import { TimeInput } from "@/core/time/time_input.ts";

/** The position and the hash of an entry. */
const HEAD = /^[1-9][0-9]{0,14}:[\w-]{1,64}$/;

export const AuditEntry = z.object({
  id: z.string(),
  seq: z.int().describe("Position in the chain of the tenant's entries, without gaps"),
  hash: z.string().describe("Signs the entry and the hash before it; empty if it is from before the chain"),
  at: z.iso.datetime(),
  actorId: z.string().describe("Principal that called the operation"),
  onBehalfOf: z.string().nullable().describe("Owner of the actor, if that is an agent"),
  tokenId: z.string().nullable().describe("Token of the call; null if it has no id"),
  ip: z.string().nullable().describe("Address of the caller; null if it was called within the gateway, or is erased"),
  userAgent: z.string().nullable().describe("Program of the caller, as it names itself"),
  operation: z.string().describe("What was done, such as `principal.update`; `sign_in` if a session was started"),
  via: z.string().describe("How it was called: `http`, `ws`, `mcp`, `scim`, or `run` for a tool of an agent"),
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

export const AuditVerify = z.strictObject({
  head: z.string().regex(HEAD, "expected a head such as 17:x7Tq2cVbN0pLr5sYw8uZa1").optional().describe(
    "A head of the chain as it was logged once: the chain must contain it",
  ),
});

export const AuditVerification = z.object({
  valid: z.boolean().describe("Whether all entries are as they were written, and none is missing"),
  entryCount: z.int().describe("How many entries fit, from the oldest on"),
  erasedCount: z.int().describe(
    "Of these, how many are about a principal that was erased since: who did it, or to what, is not verified",
  ),
  firstSeq: z.int().describe(
    "Position of the oldest entry of the chain; those before it are from before the chain, or were deleted by age",
  ),
  head: z.string().describe("Position and hash of the last entry that fits, as they are logged"),
  problem: z.object({
    seq: z.int(),
    id: z.string().nullable(),
    reason: z.enum(["changed", "missing"]).describe("changed: it is not what was signed; missing: there is none here"),
  }).nullable().describe("The first entry that does not fit"),
}).meta({ id: "AuditVerification" });
export type AuditVerification = z.output<typeof AuditVerification>;
