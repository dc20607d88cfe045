// The texts of errors of input, in one style: a phrase such as `expected at most 120 characters`, which follows the name of its field.
import { z } from "@zod/zod";

/** The options of each parse whose errors a caller sees. */
export const INPUT_ERRORS: { error: z.core.$ZodErrorMap } = { error: describeIssue };

const { localeError } = z.locales.en();
/** What bounds are about; other kinds of values are numbers. */
const UNITS: Readonly<Record<string, string>> = { string: "character", array: "item", set: "item" };

function describeIssue(issue: z.core.$ZodRawIssue): string {
  if (issue.code === "invalid_format" && issue.format === "datetime") {
    return "expected a time such as 2026-03-01T09:00:00Z";
  }
  if (issue.code === "invalid_format" && issue.format === "date") return "expected a date such as 2026-03-01";
  if (issue.code === "invalid_type" && issue.expected === "int") return "expected an integer";
  const prefix = issue.input === undefined ? "required, " : "";
  if (issue.code === "invalid_type" && prefix !== "") return `${prefix}expected ${issue.expected}`;
  if (issue.code === "invalid_value") {
    return `${prefix}expected ${issue.values.map((value) => JSON.stringify(value)).join(" or ")}`;
  }
  if (issue.code === "too_big") {
    return `expected ${boundOf(issue, issue.maximum, issue.inclusive ? "at most" : "less than")}`;
  }
  if (issue.code === "too_small") {
    return `expected ${boundOf(issue, issue.minimum, issue.inclusive ? "at least" : "more than")}`;
  }
  return phraseOf(localeError(issue));
}

/** `at most 120 characters` */
function boundOf(
  { origin, exact }: { origin: string; exact?: boolean | undefined },
  bound: unknown,
  than: string,
): string {
  const unit = UNITS[origin];
  const count = unit === undefined ? `${bound}` : `${bound} ${unit}${bound === 1 || bound === 1n ? "" : "s"}`;
  return `${exact === true ? "exactly" : than} ${count}`;
}

/** The text of the library without the sort of the error, which is its code. */
function phraseOf(thrown: ReturnType<z.core.$ZodErrorMap>): string {
  const text = typeof thrown === "string" ? thrown : thrown?.message ?? "invalid value";
  const phrase = text.replace(/^Invalid [a-z ]{1,40}[:.] /, "");
  return phrase.charAt(0).toLowerCase() + phrase.slice(1);
}
