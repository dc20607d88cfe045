// Query strings: text becomes the numbers, booleans and lists that the schema of an operation asks for.
import type { z } from "@zod/zod";
import { Fault } from "@/core/fault.ts";
import { jsonPointer } from "@/core/text.ts";

/** How one field of an input is written in a query. */
export type QueryField = { kind: "text" | "number" | "boolean"; isList: boolean };

const NUMBER = /^-?\d+(?:\.\d+)?$/;
const TEXT: QueryField = { kind: "text", isList: false };

/** The fields an input may have, by name. */
export function fieldsOf(schema: z.core.$ZodType): Map<string, QueryField> {
  const { def } = (schema as z.core.$ZodTypes)._zod; // the union of all kinds of schema, to tell them apart by `type`
  switch (def.type) {
    case "object":
      return new Map(Object.entries(def.shape).map(([name, field]) => [name, fieldOf(field)]));
    case "union":
      return new Map(def.options.flatMap((option) => [...fieldsOf(option)]));
    case "intersection":
      return new Map([...fieldsOf(def.left), ...fieldsOf(def.right)]);
    default: {
      const inner = innerOf(schema);
      return inner === undefined ? new Map() : fieldsOf(inner);
    }
  }
}

/** Reads a query into `input`; a name that is no field, or was `taken` by the path or the body, is refused. */
export function readQuery(
  query: string,
  fields: ReadonlyMap<string, QueryField>,
  taken: (name: string) => boolean,
  input: Record<string, unknown>,
): void {
  const params = new URLSearchParams(query);
  for (const name of new Set(params.keys())) {
    const field = fields.get(name);
    if (field === undefined || taken(name)) {
      throw new Fault("unknown_parameter", `Unknown query parameter ${name.slice(0, 64)}`, {
        errors: [{ pointer: pointerOf(name), code: "unknown_parameter", detail: "Unknown query parameter" }],
      });
    }
    const texts = params.getAll(name);
    if (field.isList) {
      input[name] = texts.flatMap((text) => text.split(",")).filter((text) => text !== "")
        .map((text) => valueOf(text, field.kind));
    } else if (texts.length > 1) {
      throw new Fault("bad_request", `Query parameter ${name} is given more than once`, {
        errors: [{ pointer: pointerOf(name), code: "repeated", detail: "Given more than once" }],
      });
    } else input[name] = valueOf(texts[0] ?? "", field.kind);
  }
}

/** JSON pointer of a field of the input. */
export function pointerOf(name: string): string {
  return jsonPointer([name.toWellFormed()]);
}

/** What does not look like the kind stays text, and the schema then says what it expected. */
function valueOf(text: string, kind: QueryField["kind"]): unknown {
  if (kind === "number" && NUMBER.test(text)) return Number(text);
  if (kind === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

function fieldOf(schema: z.core.$ZodType): QueryField {
  const { def } = (schema as z.core.$ZodTypes)._zod; // as in `fieldsOf`
  switch (def.type) {
    case "number":
      return { kind: "number", isList: false };
    case "boolean":
      return { kind: "boolean", isList: false };
    case "array":
      return { kind: fieldOf(def.element).kind, isList: true };
    case "set":
      return { kind: fieldOf(def.valueType).kind, isList: true };
    case "literal":
      return { kind: kindOfLiterals(def.values), isList: false };
    case "union": {
      const options = def.options.map(fieldOf);
      return {
        kind: options.some(({ kind }) => kind === "text") ? "text" : options[0]?.kind ?? "text",
        isList: options.some(({ isList }) => isList),
      };
    }
    default: {
      const inner = innerOf(schema);
      return inner === undefined ? TEXT : fieldOf(inner);
    }
  }
}

/** What a schema wraps, on the side that input comes in. */
function innerOf(schema: z.core.$ZodType): z.core.$ZodType | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod; // as in `fieldsOf`
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

function kindOfLiterals(values: readonly unknown[]): QueryField["kind"] {
  const types = new Set(values.map((value) => typeof value));
  if (types.size !== 1) return "text";
  return types.has("number") ? "number" : types.has("boolean") ? "boolean" : "text";
}
