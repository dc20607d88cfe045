// Filters of SCIM (RFC 7644, section 3.4.2.2), as conditions on what the store can look up.
import { type Filter, parse } from "scim2-parse-filter";
import { iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { withoutUrn } from "./schema.ts";

export type Field = "id" | "userName" | "externalId" | "email" | "emailType" | "active" | "lastModified";
const OPERATORS = ["eq", "ne", "co", "sw", "ew", "gt", "ge", "lt", "le", "pr"] as const;
export type Operator = typeof OPERATORS[number];
export type Condition =
  | { all: readonly Condition[] }
  | { any: readonly Condition[] }
  | { not: Condition }
  | { field: Field; operator: Operator; value: string };

/** Also bounds how deep it is nested. */
export const FILTER_MAX_CHARS = 1000;
export const EVERYONE: Condition = { all: [] };

/** By the attribute in lower case. */
const FIELDS: ReadonlyMap<string, Field> = new Map([
  ["id", "id"],
  ["username", "userName"],
  ["externalid", "externalId"],
  ["emails", "email"],
  ["emails.value", "email"],
  ["emails.type", "emailType"],
  ["active", "active"],
  ["meta.lastmodified", "lastModified"],
]);
/** Attributes whose case counts. */
const EXACT: ReadonlySet<Field> = new Set<Field>(["id", "externalId"]);

export function conditionOf(text: string): Condition {
  return convert(parseFilter(text), "");
}

/** The filter as it was parsed; throws `invalidFilter`. */
export function parseFilter(text: string): Filter {
  // For a line break in a text that does not end, the parser's expression takes exponential time.
  if (text.length > FILTER_MAX_CHARS || text.includes("\n")) {
    throw invalidFilter(`expected at most ${FILTER_MAX_CHARS} characters on one line`);
  }
  try {
    return parse(text);
  } catch (cause) {
    throw invalidFilter(`not understood: ${cause instanceof Error ? cause.message : ""}`);
  }
}

function convert(filter: Filter, within: string): Condition {
  switch (filter.op) {
    case "and":
      return { all: filter.filters.map((part) => convert(part, within)) };
    case "or":
      return { any: filter.filters.map((part) => convert(part, within)) };
    case "not":
      return { not: convert(filter.filter, within) };
    case "[]":
      // Of addresses there is one, so what holds for one of them holds for all.
      return convert(filter.valFilter, `${filter.attrPath}.`);
  }
  const { op, attrPath } = filter;
  const operator = OPERATORS.find((known) => known === op);
  const field = FIELDS.get(withoutUrn(within + attrPath).toLowerCase());
  if (field === undefined || operator === undefined) {
    throw invalidFilter(`${attrPath} ${op}: people are found by ${[...new Set(FIELDS.keys())].join(", ")}`);
  }
  return { field, operator, value: "compValue" in filter ? valueOf(field, filter.compValue) : "" };
}

function valueOf(field: Field, value: string | number | boolean | null): string {
  const text = String(value ?? "");
  if (field !== "lastModified") return EXACT.has(field) ? text : text.toLowerCase();
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw invalidFilter("expected a time, such as 2026-01-31T12:00:00Z");
  return iso(at);
}

function invalidFilter(detail: string): Fault {
  return Fault.forField("/filter", "invalidFilter", detail, "bad_request");
}
