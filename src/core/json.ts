// JSON that leaves by several doors: the text of a value is made once and found again by the value.
import { z } from "@zod/zod";

/**
 * Any JSON. Input was parsed from JSON, so there is nothing left to find out; and a schema that contains itself, as `z.json()`
 * does, makes zod look for cycles each time anything that it is part of is parsed.
 */
export const Json: z.ZodType<z.core.util.JSONType> = z.unknown() as z.ZodType<z.core.util.JSONType>;

const texts = new WeakMap<object, string>();

/** The JSON of a value that is not changed any more, remembered as long as the value lives. */
export function encodeOnce(value: object): string {
  let text = texts.get(value);
  if (text === undefined) texts.set(value, text = JSON.stringify(value));
  return text;
}

/** The JSON of a value with the fields of each object in order of their names: the same for what says the same. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(
    value,
    (_, part: unknown) =>
      typeof part === "object" && part !== null && !Array.isArray(part)
        ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => a < b ? -1 : 1))
        : part,
  );
}

/** The JSON of a value, made now unless `encodeOnce` has made it before; `null` for `undefined`. */
export function jsonOf(value: unknown): string {
  const known = typeof value === "object" && value !== null ? texts.get(value) : undefined;
  return known ?? JSON.stringify(value) ?? "null";
}
