// Texts for errors of input that the schema library words badly: what is missing, and the form of a time, a date or a number.
import type { z } from "@zod/zod";

/** The options of each parse whose errors a caller sees. */
export const INPUT_ERRORS: { error: z.core.$ZodErrorMap } = { error: describeIssue };

/** The text for an issue; `undefined`: that of the library. */
function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === "invalid_format" && issue.format === "datetime") {
    return "expected a time such as 2026-03-01T09:00:00Z";
  }
  if (issue.code === "invalid_format" && issue.format === "date") return "expected a date such as 2026-03-01";
  if (issue.code === "invalid_type" && issue.expected === "int") return "expected an integer";
  if (issue.input !== undefined) return undefined;
  if (issue.code === "invalid_type") return `required, expected ${issue.expected}`;
  if (issue.code !== "invalid_value") return undefined;
  return `required, expected ${issue.values.map((value) => JSON.stringify(value)).join(" or ")}`;
}
