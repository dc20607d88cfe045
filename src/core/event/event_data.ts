// What events contain of a resource: the whole of a new one, the changes of a changed one. Long values are left out and only named;
// otherwise a change of a few bytes would send them again to every subscriber.
import { z } from "@zod/zod";

/** Longest JSON of a value in an event, in characters. */
export const EVENT_VALUE_MAX_CHARS = 1024;

/** Part of the description of every event's `data`. */
export const OmittedFields = z.array(z.string()).describe(
  "Names of the fields that changed but are left out of the event because their value is longer than " +
    `${EVENT_VALUE_MAX_CHARS} characters; read the resource to get them`,
);

/** A resource without its long values, and the names of what was left out. */
export type Shortened<Resource, Field extends keyof Resource> = {
  value: Omit<Resource, Field> & Partial<Pick<Resource, Field>>;
  omitted: Field[];
};
/** Changes of a resource: new values, and the names of those that are too long. */
export type Changes<Resource> = { changes: Partial<Resource>; omitted: string[] };

/** Leaves out long values; `fields` are those that may be long. */
export function shorten<Resource extends object, Field extends keyof Resource & string>(
  resource: Resource,
  fields: readonly Field[],
): Shortened<Resource, Field> {
  const omitted = fields.filter((field) => isTooLong(resource[field]));
  if (omitted.length === 0) return { value: resource, omitted };
  const value = { ...resource };
  for (const field of omitted) delete value[field];
  return { value, omitted };
}

/** The changes between two states of a resource. */
export function changesBetween<Resource extends object>(
  before: Resource,
  after: Resource,
  { alwaysIncluded = [] }: { alwaysIncluded?: readonly (keyof Resource)[] } = {},
): Changes<Resource> {
  const changes: Partial<Resource> = {};
  const omitted: string[] = [];
  for (const field of Object.keys(after) as (keyof Resource & string)[]) {
    if (JSON.stringify(before[field]) === JSON.stringify(after[field])) continue;
    if (isTooLong(after[field]) && !alwaysIncluded.includes(field)) omitted.push(field);
    else changes[field] = after[field];
  }
  return { changes, omitted };
}

/** The schema of what `shorten` returns. */
export function shortenedSchema<Shape extends z.ZodRawShape, Field extends keyof Shape & string>(
  resource: z.ZodObject<Shape>,
  fields: readonly Field[],
): z.ZodObject {
  const optional = fields.map((field) => [field, (resource.shape[field] as unknown as z.ZodType).optional()]);
  return resource.extend(Object.fromEntries(optional));
}

/** The schema of `data` that contains a whole resource, except for long values. */
export function snapshotSchema<Shape extends z.ZodRawShape>(
  name: string,
  resource: z.ZodObject<Shape>,
  fields: readonly (keyof Shape & string)[],
): z.ZodObject {
  return z.object({ [name]: shortenedSchema(resource, fields), omitted: OmittedFields });
}

/** The schema of `data` that contains changes, without the fields that identify the resource. */
export function changesSchema(resource: z.ZodObject): z.ZodObject {
  const values = resource.partial().describe("New values of the changed fields");
  return z.object({ changes: values, omitted: OmittedFields });
}

function isTooLong(value: unknown): boolean {
  if (typeof value === "string") return value.length > EVENT_VALUE_MAX_CHARS;
  if (typeof value !== "object" || value === null) return false;
  return JSON.stringify(value).length > EVENT_VALUE_MAX_CHARS;
}
