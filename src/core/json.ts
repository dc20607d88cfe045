// JSON as a schema, and in canonical form.
import { z } from "@zod/zod";
import { compareText } from "./text/text.ts";

/**
 * Any JSON. Input was parsed from JSON, so there is little left to check; and a recursive schema, as `z.json()` is, makes zod
 * look for cycles each time a schema that contains it parses.
 */
export const Json = z.unknown().refine(isAllFinite, "number out of range") as z.ZodType<z.core.util.JSONType>;
/** A JSON object. One error is reported, however many numbers are out of range. */
export const JsonObject = z.record(z.string(), z.unknown()).refine(isAllFinite, "number out of range") as z.ZodType<
  Record<string, z.core.util.JSONType>
>;

/** A record of at most `max` entries, which are counted before they are parsed: to parse thousands of them takes long. */
export function boundedRecord<Key extends z.core.$ZodRecordKey, Value extends z.ZodType>(
  key: Key,
  value: Value,
  max: number,
  noun: string,
): z.ZodPreprocess<z.ZodRecord<Key, Value>> {
  return z.preprocess((input, context) => {
    if (hasMoreFieldsThan(input, max)) context.addIssue(`expected at most ${max} ${noun}`);
    return input;
  }, z.record(key, value)).meta({ maxProperties: max });
}

function hasMoreFieldsThan(input: unknown, max: number): boolean {
  return typeof input === "object" && input !== null && Object.keys(input).length > max;
}

/** Whether the value is a JSON object: neither null nor an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value if it is an object, else an empty one. */
export function objectOf(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {};
}

/** The JSON of a value with the fields of each object sorted by name: equal values have equal texts. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(
    value,
    (_, part: unknown) =>
      isObject(part) ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => compareText(a, b))) : part,
  );
}

/** Whether all numbers in the value are finite: `1e400` is parsed as infinite, which JSON would write as `null`. */
function isAllFinite(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  for (const name in value) {
    if (!isAllFinite((value as Record<string, unknown>)[name])) return false; // an object, as just checked
  }
  return true;
}
