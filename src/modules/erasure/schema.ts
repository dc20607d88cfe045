// Erasures of people in the API.
import { z } from "@zod/zod";
import { pageInput } from "@/core/page.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";

export const ErasureMode = z.enum(["anonymize", "delete_content"]).meta({ id: "ErasureMode" });
export type ErasureMode = z.output<typeof ErasureMode>;

export const ErasureState = z.enum(["waiting", "running", "done", "cancelled"]).meta({ id: "ErasureState" });
export type ErasureState = z.output<typeof ErasureState>;

export const ErasureCount = z.object({
  table: z.string().describe("Name of a table of the database"),
  changed: z.int().describe("Rows in which the person was replaced by the pseudonym"),
  deleted: z.int().describe("Rows that were deleted, or lost their content"),
}).meta({ id: "ErasureCount" });
export type ErasureCount = z.output<typeof ErasureCount>;

export const Erasure = z.object({
  id: z.string(),
  principalId: PrincipalId.describe("The person; once it is done, the pseudonym"),
  pseudonymId: PrincipalId.nullable().describe("Id that replaces that of the person; null until the work begins"),
  mode: ErasureMode,
  dryRun: z.boolean().describe("Whether rows are only counted"),
  state: ErasureState,
  counts: z.array(ErasureCount).describe("By table: what was done up to now, or would be done by a dry run"),
  requestedBy: PrincipalId,
  dueAt: z.iso.datetime().describe("When the work begins; it can be cancelled until then"),
  createdAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
}).meta({ id: "Erasure" });
export type Erasure = z.output<typeof Erasure>;

export const ErasureCreate = z.strictObject({
  principalId: PrincipalRef,
  mode: ErasureMode.describe(
    "`anonymize`: what the person wrote stays under a pseudonym; `delete_content`: messages, comments, what was said in " +
      "meetings, and private documents and events that no other person could see are deleted as well",
  ),
  dryRun: z.boolean().default(false).describe("Only count the rows; nothing changes, and the person is not disabled"),
  confirm: PrincipalId.optional().describe("The id of the principal again; required unless it is a dry run"),
});
export type ErasureCreate = z.output<typeof ErasureCreate>;

export const ErasureRef = z.strictObject({ id: z.string().min(1).max(64) });

export const ErasureList = z.strictObject({ ...pageInput });
export type ErasureList = z.output<typeof ErasureList>;
