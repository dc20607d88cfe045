// The fields that a schema accepts, read from the schema itself.
import type { z } from "@zod/zod";

/** The schema that a schema wraps, on its input side. */
export function unwrapSchema(schema: z.core.$ZodType): z.core.$ZodType | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod; // the union of all kinds of schema, distinguished by `type`
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "nonoptional":
    case "catch":
    case "readonly":
      return def.innerType;
    case "pipe":
      return (def.in as z.core.$ZodTypes)._zod.def.type === "transform" ? def.out : def.in; // `z.preprocess` starts with one
    case "lazy":
      return def.getter();
    default:
      return undefined;
  }
}

/** The schemas that may apply to the value at `path`. */
function schemasAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): z.core.$ZodType[] {
  const { def } = (schema as z.core.$ZodTypes)._zod; // as in `unwrapSchema`
  if (def.type === "union") return def.options.flatMap((option) => schemasAt(option, path));
  if (def.type === "intersection") return [def.left, def.right].flatMap((side) => schemasAt(side, path));
  const inner = unwrapSchema(schema);
  if (inner !== undefined) return schemasAt(inner, path);
  const [key, ...rest] = path;
  if (key === undefined) return [schema];
  const next = def.type === "object" && Object.hasOwn(def.shape, key)
    ? def.shape[String(key)]
    : def.type === "array"
    ? def.element
    : def.type === "record"
    ? def.valueType
    : undefined;
  return next === undefined ? [] : schemasAt(next, rest);
}

/** The names of the fields of each kind of object that may be at `path`. */
export function fieldNamesAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): string[][] {
  return schemasAt(schema, path).flatMap((found) => {
    const { def } = (found as z.core.$ZodTypes)._zod; // as in `unwrapSchema`
    return def.type === "object" ? [Object.keys(def.shape)] : [];
  });
}
