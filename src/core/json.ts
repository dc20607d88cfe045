// JSON as a schema, and as a text that is the same for what says the same.
import { z } from "@zod/zod";

/**
 * Any JSON. Input was parsed from JSON, so there is little left to find out; and a schema that contains itself, as `z.json()`
 * does, makes zod look for cycles each time anything that it is part of is parsed.
 */
export const Json = z.unknown().refine(isAllFinite, "no number this large") as z.ZodType<z.core.util.JSONType>;

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

/** Whether all numbers in the value are some: `1e400` is parsed as infinite, which JSON would write as `null`. */
function isAllFinite(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  for (const name in value) {
    if (!isAllFinite((value as Record<string, unknown>)[name])) return false; // an object, as just checked
  }
  return true;
}
