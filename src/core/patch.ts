// What a change of an object may say: some of its fields, and of the others nothing; and which version it is a change of.
import { z } from "@zod/zod";
import { Fault } from "./fault.ts";

type Bare<Field> = Field extends z.ZodDefault<infer Inner> ? Inner : Field;
type Patch<Shape extends z.ZodRawShape> = { [Name in keyof Shape]: z.ZodOptional<Bare<Shape[Name]>> };

/** A schema of changes. With `partial` alone the defaults of what is not named would come in as if they were wanted. */
export function patchOf<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
): z.ZodObject<Patch<Shape>, z.core.$strict> {
  const fields = Object.entries(schema.shape).map(([name, field]) =>
    [name, z.optional(field instanceof z.ZodDefault ? field.unwrap() : field)] as const
  );
  return z.strictObject(Object.fromEntries(fields) as Patch<Shape>); // field by field what `Patch` says
}

/** Throws `version_mismatch` for a change of another version than the current one; one that names none is of any. */
export function checkVersion(what: string, current: number, wanted: number | undefined): void {
  if (wanted === undefined || wanted === current) return;
  throw new Fault("version_mismatch", `The ${what} is at version ${current}, not ${wanted}`);
}
