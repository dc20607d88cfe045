// Query strings: converts text to the numbers, booleans and lists of an operation's schema.
import type { z } from "@zod/zod";
import { Fault } from "@/core/fault.ts";
import { unwrapSchema } from "@/core/input/schema_introspection.ts";
import { suggestionFor } from "@/core/input/suggestion.ts";
import { jsonPointer } from "@/core/text/text.ts";

/** The type of an input field in a query. */
export type QueryField = { kind: "text" | "number" | "boolean"; isList: boolean };

const NUMBER = /^-?\d+(?:\.\d+)?$/;
const TEXT: QueryField = { kind: "text", isList: false };

/** The fields of an input, by name. */
export function fieldsOf(schema: z.core.$ZodType): Map<string, QueryField> {
  const { def } = (schema as z.core.$ZodTypes)._zod; // the union of all schema types, discriminated by `type`
  switch (def.type) {
    case "object":
      return new Map(Object.entries(def.shape).map(([name, field]) => [name, fieldOf(field)]));
    case "union":
      return new Map(def.options.flatMap((option) => [...fieldsOf(option)]));
    case "intersection":
      return new Map([...fieldsOf(def.left), ...fieldsOf(def.right)]);
    default: {
      const inner = unwrapSchema(schema);
      return inner === undefined ? new Map() : fieldsOf(inner);
    }
  }
}

/** Reads a query into `input`; throws for an unknown field, or one `isTaken` by the path or the body. */
export function readQuery(
  query: string,
  fields: ReadonlyMap<string, QueryField>,
  isTaken: (name: string) => boolean,
  input: Record<string, unknown>,
): void {
  const params = new URLSearchParams(query);
  for (const name of new Set(params.keys())) {
    const field = fields.get(name);
    if (field === undefined || isTaken(name)) {
      throw unknownParameter(
        name,
        field === undefined ? remedyFor(name, [...fields.keys()].filter((one) => !isTaken(one))) : "",
      );
    }
    const texts = params.getAll(name);
    if (field.isList) {
      input[name] = texts.flatMap((text) => text.split(",")).map((text) => valueOf(text, field.kind));
    } else if (texts.length > 1) {
      throw new Fault("bad_request", `Query parameter ${name} is given more than once`, {
        errors: [{ pointer: pointerOf(name), code: "repeated", detail: "given more than once" }],
      });
    } else input[name] = valueOf(texts[0] ?? "", field.kind);
  }
}

/** Throws for a query parameter that is none of `known`. */
export function assertParametersKnown(url: string, known: readonly string[]): void {
  for (const name of new URL(url).searchParams.keys()) {
    if (!known.includes(name)) throw unknownParameter(name, remedyFor(name, known));
  }
}

function unknownParameter(name: string, remedy: string): Fault {
  return new Fault("unknown_parameter", `Unknown query parameter ${name.slice(0, 64)}${remedy}`, {
    errors: [{ pointer: pointerOf(name), code: "unknown_parameter", detail: `unknown query parameter${remedy}` }],
  });
}

function remedyFor(name: string, known: readonly string[]): string {
  return suggestionFor(name, known) || `; expected ${known.length === 0 ? "none" : known.join(" or ")}`;
}

/** JSON pointer of an input field. */
export function pointerOf(name: string): string {
  return jsonPointer([name.toWellFormed()]);
}

/** Text of another form is passed on unchanged, and the schema rejects it. */
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
      const inner = unwrapSchema(schema);
      return inner === undefined ? TEXT : fieldOf(inner);
    }
  }
}

function kindOfLiterals(values: readonly unknown[]): QueryField["kind"] {
  const types = new Set(values.map((value) => typeof value));
  if (types.size !== 1) return "text";
  return types.has("number") ? "number" : types.has("boolean") ? "boolean" : "text";
}
