// What is wrong with the fields of an input, and what was probably meant.
import type { z } from "@zod/zod";
import { ERRORS_MAX, type FieldFault } from "../fault.ts";
import { fieldNamesAt } from "./schema_introspection.ts";
import { suggestionFor } from "./suggestion.ts";
import { jsonPointer } from "../text/text.ts";

/** Most unknown fields for which a known one is suggested. */
const SUGGESTIONS_MAX = 5;
/** Most kinds of objects in a text, and most fields of each. */
const SHAPES_MAX = 3;
const SHAPE_FIELDS_MAX = 6;

/** What is wrong with the fields of an input of this schema. */
export function fieldFaults(issue: z.core.$ZodIssue, schema: z.ZodType): FieldFault[] {
  if (issue.code === "unrecognized_keys") {
    const shapes = fieldNamesAt(schema, issue.path);
    return issue.keys.slice(0, ERRORS_MAX).map((key, at) =>
      unknownField(key, issue.path, at < SUGGESTIONS_MAX ? shapes : [])
    );
  }
  if (issue.code === "invalid_union") {
    // The option that has most of the given fields, and of these the one with the fewest errors, is probably the one that was meant.
    const [nearest] = issue.errors.toSorted((one, other) =>
      countUnknown(one) - countUnknown(other) || one.length - other.length
    );
    if (nearest !== undefined) {
      return nearest.flatMap((inner) => fieldFaults({ ...inner, path: [...issue.path, ...inner.path] }, schema));
    }
  }
  const isObject = issue.code === "invalid_type" && issue.expected === "object";
  const shapes = isObject ? fieldNamesAt(schema, issue.path) : [];
  const detail = shapes.length === 0
    ? issue.message
    : issue.message.replace("expected object", `expected object ${describeShapes(shapes)}`);
  return [{ pointer: jsonPointer(issue.path), code: issue.code === "custom" ? "invalid" : issue.code, detail }];
}

/** The error of a field that an object of one of these shapes does not have, or that only another of them has. */
function unknownField(key: string, path: readonly PropertyKey[], shapes: readonly (readonly string[])[]): FieldFault {
  const pointer = jsonPointer([...path, key]);
  const known = shapes.flat();
  if (!known.includes(key)) {
    return { pointer, code: "unknown_field", detail: `unknown field${suggestionFor(key, known)}` };
  }
  const detail = `not allowed beside the others; expected ${describeShapes(shapes)}`;
  return { pointer, code: "invalid_combination", detail };
}

function countUnknown(issues: readonly z.core.$ZodIssue[]): number {
  return issues.reduce((sum, issue) => sum + (issue.code === "unrecognized_keys" ? issue.keys.length : 0), 0);
}

/** `{dateTime, timeZone} or {date}`; options of a union may have the same fields. */
function describeShapes(shapes: readonly (readonly string[])[]): string {
  return [...new Set(shapes.map(describeShape))].slice(0, SHAPES_MAX).join(" or ");
}

/** `{dateTime, timeZone}` */
function describeShape(names: readonly string[]): string {
  const more = names.length > SHAPE_FIELDS_MAX ? ", …" : "";
  return `{${names.slice(0, SHAPE_FIELDS_MAX).join(", ")}${more}}`;
}
