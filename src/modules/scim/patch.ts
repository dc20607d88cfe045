// PATCH of SCIM (RFC 7644, section 3.5.2), with the habits of identity providers: operations in any case, without a path, with paths
// as names of fields, and with items that a filter names and that do not exist yet.
import type { Filter } from "scim2-parse-filter";
import { Fault } from "@/core/fault.ts";
import { parseFilter } from "./filter.ts";
import { attributeOf, type Json, type PatchOperation, withoutUrn } from "./schema.ts";

type Kind = PatchOperation["op"];
type Target = { name: string; conditions: Json | undefined; sub: string | undefined };

const PATH = /^([A-Za-z]+)(?:\[([^\]]*)\])?(?:\.([A-Za-z]+))?$/;
/** Attributes with several items. */
const LISTS: ReadonlySet<string> = new Set(["emails", "roles"]);

/** The resource after the operations, one after the other. What the gateway does not know is left out when it is read. */
export function applyPatch(resource: Json, operations: readonly PatchOperation[]): Json {
  const after = { ...resource };
  for (const { op, path, value } of operations) {
    if (path !== undefined) change(after, op, path, value);
    else if (isObject(value) && op !== "remove") {
      for (const [name, field] of Object.entries(value)) change(after, op, name, field);
    } else throw Fault.forField("/Operations", "noTarget", "expected a path, or a value with fields", "bad_request");
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

/** `undefined` for an attribute of another schema, such as a department. */
function targetOf(path: string): Target | undefined {
  const short = withoutUrn(path.trim());
  if (short.toLowerCase().startsWith("urn:")) return undefined;
  const [, name, filter, sub] = PATH.exec(short) ?? [];
  if (name === undefined) throw Fault.forField("/Operations", "invalidPath", `not a path: ${short}`, "bad_request");
  return {
    name: attributeOf(name),
    conditions: filter === undefined ? undefined : conditionsOf(parseFilter(filter)),
    sub: sub === undefined ? undefined : attributeOf(sub),
  };
}

/** `type eq "work"`, or several of that kind. */
function conditionsOf(filter: Filter): Json {
  if (filter.op === "and") return Object.assign({}, ...filter.filters.map(conditionsOf));
  if (filter.op === "eq") return { [attributeOf(filter.attrPath)]: filter.compValue };
  throw Fault.forField("/Operations", "invalidPath", "a filter in a path compares by eq and and", "bad_request");
}

/** An item, several of them, or values without fields. */
function itemsOf(value: unknown): Json[] {
  return [value].flat().filter((item) => item !== undefined).map((item) => isObject(item) ? item : { value: item });
}

/** `true` and `"True"` are the same. */
function sameText(a: unknown, b: unknown): boolean {
  return String(a).toLowerCase() === String(b).toLowerCase();
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
