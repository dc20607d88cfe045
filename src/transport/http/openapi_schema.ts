// JSON schemas of the OpenAPI and AsyncAPI documents: made by zod from the schemas that validate, named ones hoisted to components.
import { z } from "@zod/zod";

/** A JSON schema. */
export type JsonSchema = Record<string, unknown>;

/** The dialect of a document: OpenAPI 3.1 speaks 2020-12, AsyncAPI draft 7. */
type Dialect = "draft-2020-12" | "draft-7";

/** Which side of a schema: what may be sent, or what is answered. */
type Side = "input" | "output";

const REF = /"#\/components\/schemas\/(input|output):([^"]+)"/g;

/** The named schemas met so far. One name may mean different things for input and output; `seal` settles that. */
export class Schemas {
  readonly #named: Record<Side, Map<string, JsonSchema>> = { input: new Map(), output: new Map() };
  readonly #dialect: Dialect;
  #anonymous = 0;

  constructor(dialect: Dialect = "draft-2020-12") {
    this.#dialect = dialect;
  }

  /** The schema of one side; named schemas in it are references that `seal` completes. */
  of(schema: z.ZodType, side: Side): JsonSchema {
    // Wrapped, so that a recursive schema refers to itself by a name and not as the root of the document.
    const { $defs, definitions: older, properties = {} } = z.toJSONSchema(z.object({ schema }), {
      target: this.#dialect,
      io: side,
      unrepresentable: "any",
      override: ({ jsonSchema }) => tidy(jsonSchema, side),
    });
    const definitions = objectOf($defs ?? older) as Record<string, JsonSchema>; // zod writes schemas there
    const names = new Map(Object.keys(definitions).map((name) => [name, this.#nameOf(name)]));
    const rename = (json: JsonSchema): JsonSchema =>
      JSON.parse(
        JSON.stringify(json).replaceAll(
          /"#\/(?:\$defs|definitions)\/([^"]+)"/g,
          (_ref, name: string) => `"#/components/schemas/${side}:${names.get(name) ?? name}"`,
        ),
      );
    for (const [name, json] of Object.entries(definitions)) {
      this.#named[side].set(names.get(name) ?? name, rename(json));
    }
    return rename(objectOf(properties["schema"]));
  }

  /** What a reference made by `of` stands for; other schemas as they are. */
  resolve(schema: JsonSchema): JsonSchema {
    const [, side, name = ""] = /^#\/components\/schemas\/(input|output):(.+)$/.exec(String(schema["$ref"])) ?? [];
    if (side !== "input" && side !== "output") return schema;
    return this.resolve(this.#named[side].get(name) ?? {});
  }

  /** The document as text, with its components; a name whose input and output differ gets a second one for input. */
  seal(document: Record<string, unknown> & { components: Record<string, unknown> }): string {
    const differing = this.#differing();
    const schemas: Record<string, JsonSchema> = {};
    for (const [name, json] of this.#named.output) schemas[name] = json;
    for (const [name, json] of this.#named.input) {
      if (!this.#named.output.has(name)) schemas[name] = json;
      else if (differing.has(name)) schemas[`${name}Input`] = json;
    }
    const components = { ...document.components, schemas: { ...schemas, ...objectOf(document.components["schemas"]) } };
    return JSON.stringify({ ...document, components }).replaceAll(
      REF,
      (_ref, side, name) => `"#/components/schemas/${side === "input" && differing.has(name) ? `${name}Input` : name}"`,
    );
  }

  /** Names that mean different things on the two sides, by themselves or by what they refer to. */
  #differing(): Set<string> {
    const differing = new Set<string>();
    const both = [...this.#named.input.keys()].filter((name) => this.#named.output.has(name));
    for (let isGrowing = true; isGrowing;) {
      isGrowing = false;
      for (const name of both) {
        const json = JSON.stringify(this.#named.input.get(name));
        const other = JSON.stringify(this.#named.output.get(name)).replaceAll(REF, '"#/components/schemas/input:$2"');
        const isSame = json === other && ![...json.matchAll(REF)].some(([, , inner = ""]) => differing.has(inner));
        if (isSame || differing.has(name)) continue;
        differing.add(name);
        isGrowing = true;
      }
    }
    return differing;
  }

  /** Zod numbers recursive schemas that have no name, from 0 in each conversion. */
  #nameOf(name: string): string {
    return name.startsWith("__schema") ? `Anonymous${++this.#anonymous}` : name;
  }
}

/** Takes out what tells a reader nothing, and lets answers grow. */
function tidy(json: JsonSchema, side: Side): void {
  if (json["maximum"] === Number.MAX_SAFE_INTEGER) {
    delete json["maximum"];
    // Without it generators of clients make it a number of 32 bits, which sizes and times outgrow.
    json["format"] = "int64";
  }
  if (json["minimum"] === Number.MIN_SAFE_INTEGER) delete json["minimum"];
  if (json["format"] !== undefined) {
    // The format alone would allow any offset, and many a client writes +00:00.
    const isUtc = json["format"] === "date-time" && !String(json["pattern"]).includes("[+-]");
    delete json["pattern"];
    if (isUtc && side === "input") json["pattern"] = "Z$";
  }
  if (side === "output" && json["additionalProperties"] === false) delete json["additionalProperties"];
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? value as Record<string, unknown> : {}; // as just checked
}

/** Properties of an object schema, also when it is a union or an intersection of objects. */
export function propertiesOf(
  schemas: Schemas,
  schema: JsonSchema,
): { properties: Record<string, JsonSchema>; required: string[] } {
  const json = schemas.resolve(schema);
  const own = objectOf(json["properties"]) as Record<string, JsonSchema>; // zod writes schemas there
  const required = new Set(Array.isArray(json["required"]) ? json["required"].map(String) : []);
  const properties = { ...own };
  for (const keyword of ["allOf", "anyOf", "oneOf"]) {
    const parts = (Array.isArray(json[keyword]) ? json[keyword] : []).map((part) => propertiesOf(schemas, part));
    for (const part of parts) Object.assign(properties, part.properties);
    const isNeeded = (name: string): boolean =>
      keyword === "allOf"
        ? parts.some((part) => part.required.includes(name))
        : parts.every((part) => part.required.includes(name));
    for (const name of new Set(parts.flatMap((part) => part.required))) if (isNeeded(name)) required.add(name);
  }
  return { properties, required: [...required] };
}

/** The schema without some properties; a named schema that loses none stays a reference. */
export function omit(schemas: Schemas, schema: JsonSchema, names: readonly string[]): JsonSchema {
  const { properties } = propertiesOf(schemas, schema);
  if (!names.some((name) => Object.hasOwn(properties, name))) return schema;
  const json: JsonSchema = { ...schemas.resolve(schema) };
  if (json["properties"] !== undefined) {
    json["properties"] = Object.fromEntries(
      Object.entries(objectOf(json["properties"])).filter(([name]) => !names.includes(name)),
    );
  }
  if (Array.isArray(json["required"])) {
    json["required"] = json["required"].filter((name) => !names.includes(name));
    if (Array.isArray(json["required"]) && json["required"].length === 0) delete json["required"];
  }
  for (const keyword of ["allOf", "anyOf", "oneOf"]) {
    const parts = json[keyword];
    if (Array.isArray(parts)) json[keyword] = parts.map((part) => omit(schemas, part, names));
  }
  return json;
}
