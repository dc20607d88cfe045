// JSON as a schema, and as a text that is the same for what says the same.
import { z } from "@zod/zod";

/**
 * Any JSON. Input was parsed from JSON, so there is nothing left to find out; and a schema that contains itself, as `z.json()`
 * does, makes zod look for cycles each time anything that it is part of is parsed.
 */
export const Json: z.ZodType<z.core.util.JSONType> = z.unknown() as z.ZodType<z.core.util.JSONType>;

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
