// Schemas of tools for models: as short as possible, since each is part of every prompt.
import { z } from "@zod/zod";
import type { Operation } from "@/core/operation.ts";
import type { ModelTool } from "@/ports/model.ts";

const DESCRIPTION_MAX = 160;
/** What models do not need to fill in a form; the gateway checks it. */
const DROPPED: ReadonlySet<string> = new Set([
  "$schema",
  "$id",
  "id",
  "pattern",
  "maxLength",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "additionalProperties",
  "propertyNames",
  "title",
  "examples",
]);
/** Fields of the API that make no sense in a call of an agent. */
const HIDDEN_FIELDS: ReadonlySet<string> = new Set([
  "version",
  "cursor",
  "clientMessageId",
  "parseMentions",
  "metadata",
]);

const ROOM_PATH = "/v1/rooms/:id";

const known = new WeakMap<Operation, ModelTool>();

/** The name of an operation as models see it. */
export function toolNameOf(operation: string): string {
  return operation.replaceAll(".", "_");
}

/** An operation as a tool. */
export function operationTool(operation: Operation): ModelTool {
  let tool = known.get(operation);
  if (tool === undefined) {
    const schema = z.toJSONSchema(operation.input, { io: "input", unrepresentable: "any", reused: "inline" });
    const description = operation.description === undefined
      ? operation.summary
      : `${operation.summary}. ${operation.description}`;
    const roomField = roomFieldOf(operation);
    const form = roomField === undefined ? schema : withOptional(roomField, schema);
    tool = {
      name: toolNameOf(operation.name),
      description: shortened(description),
      inputSchema: { type: "object", ...trimmed(form, true) as Record<string, unknown> },
    };
    known.set(operation, tool);
  }
  return tool;
}

/** The field in which the operation requires a room, if it does. A call that names none is about the room of the run. */
export function roomFieldOf({ input, http: { path } }: Operation): string | undefined {
  const field = path.startsWith(ROOM_PATH) ? "id" : "roomId";
  const fields: Record<string, z.ZodType> = input instanceof z.ZodObject ? input.shape : {};
  return fields[field]?.safeParse(undefined).success === false ? field : undefined;
}

function withOptional(
  field: string,
  { required = [], properties, ...schema }: z.core.JSONSchema.BaseSchema,
): z.core.JSONSchema.BaseSchema {
  return {
    ...schema,
    required: required.filter((name) => name !== field),
    properties: { ...properties, [field]: { type: "string", description: "Default: the room you are in" } },
  };
}

function trimmed(schema: unknown, isRoot = false): unknown {
  if (Array.isArray(schema)) return schema.map((part) => trimmed(part));
  if (typeof schema !== "object" || schema === null) return schema;
  const fields = Object.entries(schema).filter(([name]) => !DROPPED.has(name)).map(([name, value]) => {
    if (name === "description") return [name, shortened(String(value))];
    if (name === "properties") return [name, propertiesOf(value as Record<string, unknown>, isRoot)];
    return [name, name === "default" || name === "enum" || name === "const" ? value : trimmed(value)];
  });
  return Object.fromEntries(fields);
}

function propertiesOf(properties: Record<string, unknown>, isRoot: boolean): Record<string, unknown> {
  const shown = Object.entries(properties).filter(([name]) => !isRoot || !HIDDEN_FIELDS.has(name));
  return Object.fromEntries(shown.map(([name, value]) => [name, trimmed(value)]));
}

function shortened(text: string): string {
  return text.length <= DESCRIPTION_MAX ? text : `${text.slice(0, DESCRIPTION_MAX - 1)}…`;
}
