// JSON Schemas as readable types, in HTML with links to named types.
import { escapeHtml } from "@/core/text/text.ts";

/** The keywords of JSON Schema that are rendered. */
export type Schema = {
  $ref?: string;
  type?: string | readonly string[];
  const?: unknown;
  enum?: readonly unknown[];
  anyOf?: readonly Schema[];
  oneOf?: readonly Schema[];
  allOf?: readonly Schema[];
  items?: Schema;
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  additionalProperties?: boolean | Schema;
  description?: string;
};

const REF = /^#\/components\/schemas\/(.+)$/;
const ENUM_MAX = 12;

/** Text with its `code` marked up. */
export function proseHtml(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

/** A schema as an inline type; named schemas become links to `#type-<name>`. */
export function typeHtml(schema: Schema): string {
  const name = nameOf(schema);
  if (name !== undefined) return `<a href="#type-${escapeHtml(name)}">${escapeHtml(name)}</a>`;
  if (schema.const !== undefined) return escapeHtml(JSON.stringify(schema.const));
  if (schema.enum !== undefined) return enumHtml(schema.enum);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return [...new Set(choices.map(typeHtml))].join(" | ");
  if (schema.allOf !== undefined) return schema.allOf.map(typeHtml).join(" &amp; ");
  const types = typeof schema.type === "string" ? [schema.type] : schema.type ?? ["any"];
  return types.map((type) => plainHtml(type, schema)).join(" | ");
}

/** The fields of an object as a definition list; empty if it has none. */
export function fieldsHtml({ properties = {}, required = [] }: Schema): string {
  const fields = Object.entries(properties).map(([name, field]) => {
    const label = `<code>${escapeHtml(name)}${required.includes(name) ? "" : "?"}</code>`;
    const text = field.description === undefined ? "" : ` <span>${proseHtml(field.description)}</span>`;
    return `<dt>${label} <code class="type">${typeHtml(field)}</code></dt><dd>${text}</dd>`;
  });
  return fields.length === 0 ? "" : `<dl>${fields.join("")}</dl>`;
}

/** Names of the schemas that a schema refers to, directly or indirectly. */
export function namesIn(schema: Schema, all: Readonly<Record<string, Schema>>, found = new Set<string>()): Set<string> {
  for (const [, name = ""] of JSON.stringify(schema).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
    const named = all[name];
    if (found.has(name) || named === undefined) continue;
    found.add(name);
    namesIn(named, all, found);
  }
  return found;
}

function nameOf({ $ref = "" }: Schema): string | undefined {
  return REF.exec($ref)?.[1];
}

function enumHtml(values: readonly unknown[]): string {
  const shown = values.slice(0, ENUM_MAX).map((value) => escapeHtml(JSON.stringify(value)));
  return [...shown, ...values.length > ENUM_MAX ? ["…"] : []].join(" | ");
}

function plainHtml(type: string, { items = {}, properties, required = [], additionalProperties }: Schema): string {
  if (type === "array") {
    const item = typeHtml(items);
    return item.includes(" | ") ? `(${item})[]` : `${item}[]`;
  }
  if (type !== "object") return escapeHtml(type);
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(([name, field]) =>
      `${escapeHtml(name)}${required.includes(name) ? "" : "?"}: ${typeHtml(field)}`
    );
    return fields.length === 0 ? "{}" : `{ ${fields.join("; ")} }`;
  }
  return typeof additionalProperties === "object" ? `{ [key]: ${typeHtml(additionalProperties)} }` : "object";
}
