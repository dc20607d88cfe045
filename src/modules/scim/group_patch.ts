// PATCH of groups, with the habits of identity providers: members that are named by a filter or by a value, and fields without a path.
import type { Filter } from "scim2-parse-filter";
import { parse } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { isObject } from "@/core/json.ts";
import { parseFilter } from "./filter.ts";
import { GivenExternalId, GivenMembers, GivenName } from "./group_schema.ts";
import { PATH } from "./patch.ts";
import { attributeOf, type PatchOperation, storedAttribute, withoutUrn } from "./schema.ts";

/** What a patch changes of a group. */
export type GroupChange = {
  displayName?: string;
  externalId?: string | null;
  /** Whether only those stay whom it adds. */
  replacesMembers: boolean;
  added: Set<string>;
  removed: Set<string>;
};

/** The change that the operations make, one after the other. What the gateway does not know is left out. */
export function readGroupPatch(operations: readonly PatchOperation[]): GroupChange {
  const change: GroupChange = { replacesMembers: false, added: new Set(), removed: new Set() };
  for (const { op, path, value } of operations) {
    if (path !== undefined) apply(change, op, path, value);
    else if (isObject(value) && op !== "remove") {
      for (const [name, field] of Object.entries(value)) apply(change, op, name, field);
    } else throw invalid("noTarget", "expected a path, or a value with fields");
  }
  return change;
}

function apply(change: GroupChange, op: PatchOperation["op"], path: string, value: unknown): void {
  const short = withoutUrn(path.trim());
  if (short.toLowerCase().startsWith("urn:")) return;
  const [, attribute, filter] = PATH.exec(short) ?? [];
  if (attribute === undefined) throw invalid("invalidPath", `not a path: ${short}`);
  const name = storedAttribute(attribute);
  if (name === "members") changeMembers(change, op, filter, value);
  else if (name === "displayName") {
    if (op === "remove") throw invalid("invalidValue", "a group has a displayName");
    change.displayName = parse(GivenName, value);
  } else if (name === "externalId") change.externalId = op === "remove" ? null : parse(GivenExternalId, value);
}

function changeMembers(
  change: GroupChange,
  op: PatchOperation["op"],
  filter: string | undefined,
  value: unknown,
): void {
  const named = filter === undefined ? undefined : idsOf(parseFilter(filter));
  const given = value === undefined || value === null ? undefined : parse(GivenMembers, value).map((one) => one.value);
  if (op === "remove" || named !== undefined) remove(change, named ?? given);
  else if (op === "replace") remove(change, undefined);
  if (op === "remove") return;
  for (const id of given ?? []) {
    change.added.add(id);
    change.removed.delete(id);
  }
}

/** Without ids: everybody. */
function remove(change: GroupChange, ids: readonly string[] | undefined): void {
  if (ids === undefined) {
    change.replacesMembers = true;
    change.added.clear();
    change.removed.clear();
  }
  for (const id of ids ?? []) {
    change.added.delete(id);
    change.removed.add(id);
  }
}

/** `value eq "ada"`, or several of that kind. */
function idsOf(filter: Filter): string[] {
  if (filter.op === "or") return filter.filters.flatMap(idsOf);
  if (filter.op === "eq" && attributeOf(filter.attrPath) === "value") return [String(filter.compValue)];
  throw invalid("invalidPath", "a filter of members compares value by eq and or");
}

function invalid(code: string, detail: string): Fault {
  return Fault.forField("/Operations", code, detail, "bad_request");
}
