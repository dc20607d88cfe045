// Partial updates: their schemas, and the version that they apply to.
import { z } from "@zod/zod";
import { Fault } from "./fault.ts";

type WithoutDefault<Field> = Field extends z.ZodDefault<infer Inner> ? Inner : Field;
type Patch<Shape extends z.ZodRawShape> = { [Name in keyof Shape]: z.ZodOptional<WithoutDefault<Shape[Name]>> };

/** The schema of a partial update. With `partial` alone, the defaults of absent fields would be applied. */
export function patchSchema<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
): z.ZodObject<Patch<Shape>, z.core.$strict> {
  const fields = Object.entries(schema.shape).map(([name, field]) =>
    [name, withDescription(z.optional(field instanceof z.ZodDefault ? field.unwrap() : field), field)] as const
  );
  return z.strictObject(Object.fromEntries(fields) as Patch<Shape>); // field by field what `Patch` says
}

/** Copies the description, which belongs to the removed default. */
function withDescription<Field extends z.core.$ZodType>(
  field: z.ZodOptional<Field>,
  from: z.core.$ZodType,
): z.ZodOptional<Field> {
  const { description } = z.globalRegistry.get(from) ?? {};
  return description === undefined ? field : field.describe(description);
}

/** Names the version that an update applies to. */
export const BaseVersion = z.int().min(1).optional().describe(
  "Version the change is based on; fails with `version_mismatch` if it is not the current one (HTTP: If-Match)",
);

/** The value of an optional field of an update, in which null is a value; without it, what there is. */
export function patchedOr<Value>(patched: Value | undefined, current: Value): Value {
  return patched === undefined ? current : patched;
}

/** A boolean field as databases store it, `undefined` as it is. */
export function flagOf(value: boolean | undefined): 0 | 1 | undefined {
  return value === undefined ? undefined : value ? 1 : 0;
}

/** The same for a field that is stored as JSON. */
export function jsonOf<Value>(value: Value): string | Extract<Value, undefined> {
  return JSON.stringify(value); // `undefined` for `undefined`, which its type does not say
}

type Given<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** The fields that have a value, null included: the columns that an update sets. */
export function withoutUndefined<Fields extends object>(fields: Fields): Given<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<Fields>; // what the filter leaves
}

/** Throws `version_mismatch` for an update of another version than the current one; without a version it applies to any. */
export function assertVersion(what: string, current: number, wanted: number | undefined): void {
  if (wanted === undefined || wanted === current) return;
  throw new Fault("version_mismatch", `The ${what} is at version ${current}, expected ${wanted}`);
}
