// PATCH of SCIM (RFC 7644, section 3.5.2), with the habits of identity providers: operations in any case, without a path, with paths
// as names of fields, and with items that a filter names and that do not exist yet.
import type { Filter } from "scim2-parse-filter";
import { Fault } from "@/core/fault.ts";
import { isObject } from "@/core/json.ts";
import { parseFilter } from "./filter.ts";
import { attributeOf, ITEMS_MAX, type Json, type PatchOperation, storedAttribute, withoutUrn } from "./schema.ts";

type Kind = PatchOperation["op"];
type Target = { name: string; conditions: Json | undefined; sub: string | undefined };

export const PATH = /^([\w$-]+)(?:\[([^\]]*)\])?(?:\.([\w$-]+))?$/;
/** Attributes with several items. */
const LISTS: ReadonlySet<string> = new Set(["emails", "roles"]);

/** The resource after the operations, one after the other. What the gateway does not know is left out when it is read. */
export function applyPatch(resource: Json, operations: readonly PatchOperation[]): Json {
  const after = { ...resource };
  for (const { op, path, value } of operations) {
    if (path !== undefined) change(after, op, path, value);
    else if (isObject(value) && op !== "remove") {
      for (const [name, field] of Object.entries(value)) change(after, op, name, field);
    } else throw invalid("noTarget", "expected a path, or a value with fields");
  }
  return after;
}

function change(resource: Json, op: Kind, path: string, value: unknown): void {
  const target = targetOf(path);
  if (target === undefined) return;
  const { name, conditions, sub } = target;
  if (LISTS.has(name) && (conditions !== undefined || sub !== undefined)) {
    resource[name] = changedItems(itemsOf(resource[name]), op, target, value);
  } else if (sub !== undefined) {
    resource[name] = { ...isObject(resource[name]) ? resource[name] : {}, [sub]: op === "remove" ? undefined : value };
  } else if (op === "remove") {
    delete resource[name];
  } else if (name === "emails" && op === "add") {
    resource[name] = [...itemsOf(resource[name]), ...itemsOf(value)];
  } else if (LISTS.has(name)) {
    // A person has one role, so one that is added replaces it.
    resource[name] = itemsOf(value);
  } else {
    resource[name] = isObject(value) && isObject(resource[name]) ? { ...resource[name], ...value } : value;
  }
}

/** Changes the items that fulfil the conditions; without any, one that fulfils them is added. */
function changedItems(items: readonly Json[], op: Kind, { conditions = {}, sub }: Target, value: unknown): Json[] {
  const isMeant = (item: Json): boolean =>
    Object.entries(conditions).every(([name, wanted]) => sameText(item[name], wanted));
  if (op === "remove" && sub === undefined) return items.filter((item) => !isMeant(item));
  const set = sub === undefined ? itemsOf(value)[0] : { [sub]: op === "remove" ? undefined : value };
  if (!items.some(isMeant)) return op === "remove" ? [...items] : [...items, { ...conditions, ...set }];
  return items.map((item) => isMeant(item) ? { ...item, ...set } : item);
}

/** `undefined` for what is not stored, such as a department. */
function targetOf(path: string): Target | undefined {
  const short = withoutUrn(path.trim());
  if (short.toLowerCase().startsWith("urn:")) return undefined;
  const [, attribute, filter, part] = PATH.exec(short) ?? [];
  if (attribute === undefined) throw invalid("invalidPath", `not a path: ${short}`);
  const conditions = filter === undefined ? undefined : conditionsOf(parseFilter(filter));
  const [name, sub] = [storedAttribute(attribute), part === undefined ? undefined : storedAttribute(part)];
  return name === undefined || part !== undefined && sub === undefined ? undefined : { name, conditions, sub };
}

/** `type eq "work"`, or several of that kind. */
function conditionsOf(filter: Filter): Json {
  if (filter.op === "and") return Object.assign({}, ...filter.filters.map(conditionsOf));
  if (filter.op === "eq") return { [attributeOf(filter.attrPath)]: filter.compValue };
  throw invalid("invalidPath", "a filter in a path compares by eq and and");
}

/** An item, several of them, or values without fields. Each operation reads all, so they are counted before they are too many. */
function itemsOf(value: unknown): Json[] {
  const items = [value].flat().filter((item) => item !== undefined);
  if (items.length > ITEMS_MAX) throw invalid("invalidValue", `at most ${ITEMS_MAX} items of one attribute`);
  return items.map((item) => isObject(item) ? item : { value: item });
}

function invalid(code: string, detail: string): Fault {
  return Fault.forField("/Operations", code, detail, "bad_request");
}

/** `true` and `"True"` are the same. */
function sameText(a: unknown, b: unknown): boolean {
  return String(a).toLowerCase() === String(b).toLowerCase();
}
