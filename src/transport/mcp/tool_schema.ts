// Inputs of operations as JSON Schema for a model: references resolved, and without what only a program needs.
import { z } from "@zod/zod";
import type { Operation } from "@/core/operation.ts";
import type { Json } from "./render.ts";

export type ToolSchema = { type: "object"; properties?: Record<string, object>; required?: string[] };

/** A schema that contains itself is cut here. */
const DEPTH_MAX = 8;
const DESCRIPTION_MAX_CHARS = 250;
/** Limits are explained by the fault of a call that exceeds one, to the few that do. */
const DROPPED_KEYWORDS: ReadonlySet<string> = new Set([
  ...["$schema", "$defs", "id", "title", "format", "pattern", "propertyNames"],
  ...["minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
]);

/** The input schema without the fields of `omit`. */
export function toolSchema({ input }: Operation, omit: readonly string[] = []): ToolSchema {
  const schema = z.toJSONSchema(input, { io: "input", unrepresentable: "any", reused: "inline" }) as Json;
  const whole = resolve(schema, (schema["$defs"] ?? {}) as Json, 0) as Json;
  const properties = { ...whole["properties"] as Record<string, object> | undefined };
  for (const name of omit) delete properties[name];
  const required = ((whole["required"] ?? []) as string[]).filter((name) => !omit.includes(name));
  return { type: "object", properties, ...required.length === 0 ? {} : { required } };
}

function resolve(node: unknown, definitions: Json, depth: number): unknown {
  if (Array.isArray(node)) return node.map((part) => resolve(part, definitions, depth));
  if (typeof node !== "object" || node === null) return node;
  const { $ref, ...rest } = node as Json;
  if (typeof $ref === "string") {
    if (depth >= DEPTH_MAX) return {};
    const name = $ref.split("/").at(-1) ?? "";
    return resolve({ ...definitions[name] as Json | undefined, ...rest }, definitions, depth + 1);
  }
  const entries = Object.entries(rest).filter(([name, value]) => isUseful(name, value)).map(([name, value]) => [
    name,
    name === "properties" ? resolveProperties(value, definitions, depth) : resolve(value, definitions, depth),
  ]);
  return withoutNull(withoutRepetition(shortened(Object.fromEntries(entries))));
}

/** A constant says what it is; a long description is cut after a sentence. */
function shortened(schema: Json): Json {
  const { description, ...rest } = schema;
  if (typeof description !== "string" || "const" in rest) return rest;
  const end = description.length > DESCRIPTION_MAX_CHARS ? description.lastIndexOf(". ", DESCRIPTION_MAX_CHARS) : -1;
  return { ...rest, description: end < 0 ? description : description.slice(0, end) };
}

/** Options that differ only in what was dropped are one. */
function withoutRepetition(schema: Json): Json {
  const { anyOf, ...rest } = schema;
  if (!Array.isArray(anyOf)) return schema;
  const options = [...new Map(anyOf.map((option) => [JSON.stringify(option), option])).values()];
  return options.length === 1 ? { ...options[0], ...rest } : { anyOf: options, ...rest };
}

/** Where null is the default, a model says it by saying nothing. */
function withoutNull(schema: Json): Json {
  if (schema["default"] !== null) return schema;
  const { default: _null, anyOf, ...rest } = schema;
  const others = Array.isArray(anyOf) ? anyOf.filter((option) => option.type !== "null") : [];
  return others.length === 1 ? { ...others[0], ...rest } : { ...rest, ...anyOf === undefined ? {} : { anyOf } };
}

/** Names of properties are no keywords. */
function resolveProperties(properties: unknown, definitions: Json, depth: number): Json {
  const entries = Object.entries(properties as Json);
  return Object.fromEntries(entries.map(([name, schema]) => [name, resolve(schema, definitions, depth)]));
}

function isUseful(keyword: string, value: unknown): boolean {
  if (DROPPED_KEYWORDS.has(keyword)) return false;
  if (keyword === "additionalProperties") return value !== false && JSON.stringify(value) !== "{}";
  return !(keyword === "default" && Array.isArray(value) && value.length === 0);
}
