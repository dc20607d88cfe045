// Filters of SCIM (RFC 7644, section 3.4.2.2), as conditions on what the store can look up.
import { type Filter, parse } from "scim2-parse-filter";
import { iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { withoutUrn } from "./schema.ts";

const OPERATORS = ["eq", "ne", "co", "sw", "ew", "gt", "ge", "lt", "le", "pr"] as const;
export type Operator = typeof OPERATORS[number];
export type Condition<Field extends string> =
  | { all: readonly Condition<Field>[] }
  | { any: readonly Condition<Field>[] }
  | { not: Condition<Field> }
  | { field: Field; operator: Operator; value: string };

/** What resources of a kind are found by. */
type Fields<Field extends string> = {
  /** By the attribute in lower case. */
  byAttribute: ReadonlyMap<string, Field>;
  /** Attributes whose case counts. */
  exact: ReadonlySet<Field>;
};

/** Also bounds how deep it is nested. */
export const FILTER_MAX_CHARS = 1000;
export const ALL = { all: [] } as const;

export type UserField = "id" | "userName" | "externalId" | "email" | "emailType" | "active" | "lastModified";
export const USER_FIELDS: Fields<UserField> = {
  byAttribute: new Map([
    ["id", "id"],
    ["username", "userName"],
    ["externalid", "externalId"],
    ["emails", "email"],
    ["emails.value", "email"],
    ["emails.type", "emailType"],
    ["active", "active"],
    ["meta.lastmodified", "lastModified"],
  ]),
  exact: new Set(["id", "externalId"]),
};

export type GroupField = "id" | "displayName" | "externalId" | "member" | "lastModified";
export const GROUP_FIELDS: Fields<GroupField> = {
  byAttribute: new Map([
    ["id", "id"],
    ["displayname", "displayName"],
    ["externalid", "externalId"],
    ["members", "member"],
    ["members.value", "member"],
    ["meta.lastmodified", "lastModified"],
  ]),
  exact: new Set(["id", "externalId", "member"]),
};

export function conditionOf<Field extends string>(text: string, fields: Fields<Field>): Condition<Field> {
  return convert(parseFilter(text), "", fields);
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

function convert<Field extends string>(filter: Filter, within: string, fields: Fields<Field>): Condition<Field> {
  switch (filter.op) {
    case "and":
      return { all: filter.filters.map((part) => convert(part, within, fields)) };
    case "or":
      return { any: filter.filters.map((part) => convert(part, within, fields)) };
    case "not":
      return { not: convert(filter.filter, within, fields) };
    case "[]":
      // There is one address, so what holds for one of them holds for all; and of members, one value is asked for.
      return convert(filter.valFilter, `${filter.attrPath}.`, fields);
  }
  const { op, attrPath } = filter;
  const operator = OPERATORS.find((known) => known === op);
  const field = fields.byAttribute.get(withoutUrn(within + attrPath).toLowerCase());
  if (field === undefined || operator === undefined) {
    const known = [...fields.byAttribute.keys()].join(", ");
    throw invalidFilter(`${attrPath} ${op}: expected a comparison of ${known}`);
  }
  return { field, operator, value: "compValue" in filter ? valueOf(field, filter.compValue, fields.exact) : "" };
}

function valueOf<Field extends string>(
  field: Field,
  compared: string | number | boolean | null,
  exact: ReadonlySet<Field>,
): string {
  const text = String(compared ?? "");
  if (field !== "lastModified") return exact.has(field) ? text : text.toLowerCase();
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw invalidFilter("expected a time, such as 2026-01-31T12:00:00Z");
  return iso(at);
}

function invalidFilter(detail: string): Fault {
  return Fault.forField("/filter", "invalidFilter", detail, "bad_request");
}
