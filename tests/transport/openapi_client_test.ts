// `/openapi.json` for client generators: few types, each with a unique name.
import assert from "node:assert/strict";
import { pascalCase } from "@/transport/shared/json_schema.ts";
import { openGateway } from "../harness.ts";

// deno-lint-ignore no-explicit-any -- tests read an arbitrary JSON document
type Json = any;

async function documentOf(): Promise<Json> {
  await using gateway = await openGateway();
  return (await gateway.withToken(undefined).get("/openapi.json")).body;
}

const document = await documentOf();
const schemas: Record<string, Json> = document.components.schemas;
const operations: Json[] = Object.values(document.paths).flatMap((path: Json) => Object.values(path));

Deno.test("every error response is a plain reference to the one Problem", () => {
  for (const { operationId, responses } of operations) {
    for (const [status, response] of Object.entries<Json>(responses)) {
      // Readiness returns 503 with its checks; clients of OAuth, MCP and SCIM read errors in forms of their own.
      if (
        Number(status) < 400 || /^(readiness\.get|oauth\..*|mcp\.call|scim(?:_user|_group)?\..*)$/.test(operationId)
      ) {
        continue;
      }
      const name = response.$ref?.split("/").at(-1);
      const { content } = document.components.responses[name] ?? {};
      assert.deepEqual(
        content?.["application/problem+json"].schema,
        { $ref: "#/components/schemas/Problem" },
        operationId,
      );
    }
  }
  assert.ok(Object.keys(document.components.responses).length < 25);
});

Deno.test("every JSON body of an operation has a named schema", () => {
  const inline = operations.filter(({ requestBody }) => {
    const schema = requestBody?.content["application/json"]?.schema;
    return schema !== undefined && schema.$ref === undefined;
  });
  assert.deepEqual(inline.map(({ operationId }) => operationId), []);
});

Deno.test("every enumeration of a named schema's property has a name", () => {
  const inline = Object.entries(schemas).flatMap(([name, { properties }]) =>
    Object.entries<Json>(properties ?? {}).filter(([, schema]) => schema.type === "string" && "enum" in schema)
      .map(([property]) => `${name}.${property}`)
  );
  assert.deepEqual(inline, []);
});

Deno.test("no generated type name collides with a component", () => {
  const collisions = Object.entries(schemas).flatMap(([name, { properties }]) =>
    Object.entries<Json>(properties ?? {}).filter(([property, schema]) => {
      const generated = `${name}${pascalCase(property)}`;
      const isGenerated = schema.$ref === undefined &&
        !JSON.stringify(schema).includes(`"#/components/schemas/${generated}"`);
      return isGenerated && generated in schemas &&
        (schema.type === "object" || "anyOf" in schema || "oneOf" in schema);
    }).map(([property]) => `${name}.${property}`)
  );
  assert.deepEqual(collisions, []);
});

Deno.test("no type is called as generators call what they make of an operation", () => {
  const suffixes = ["Result", "Response", "Responses", "Params", "Body", "Data", "Error", "Errors", "Headers"];
  const taken = new Set(operations.flatMap(({ operationId }) => suffixes.map((one) => pascalCase(operationId) + one)));
  const names = Object.entries(schemas).flatMap(([name, { properties }]) => [
    name,
    ...Object.entries<Json>(properties ?? {}).filter(([, schema]) => schema.$ref === undefined)
      .map(([property]) => `${name}${pascalCase(property)}`),
  ]);
  assert.deepEqual(names.filter((name) => taken.has(name)), []);
});

Deno.test("every object has a name, so that generators call none after its place", () => {
  const unnamed: string[] = [];
  const check = (json: Json, place: string): void => {
    if (typeof json !== "object" || json === null) return;
    const isComponent = /^schemas\/[^/]+$/.test(place);
    if (json.type === "object" && json.properties !== undefined && !isComponent) unnamed.push(place);
    for (const [key, value] of Object.entries<Json>(json)) {
      if (key !== "example" && key !== "examples") check(value, `${place}/${key}`);
    }
  };
  check(document.paths, "paths");
  check(schemas, "schemas");
  assert.deepEqual(unnamed, ["schemas/Capabilities/properties/modules/additionalProperties"]);
});

Deno.test("each success status has one response type", () => {
  const send = document.paths["/v1/messages"].post.responses;
  const typeOf = (status: string): string => send[status].content["application/json"].schema.$ref.split("/").at(-1);
  assert.deepEqual(["200", "201", "202"].map(typeOf), ["Message", "Message", "ScheduledMessage"]);
});

Deno.test("a discriminated union maps values to variants", () => {
  const unions = Object.values(schemas).filter(({ discriminator }) => discriminator !== undefined);
  assert.ok(unions.length >= 2);
  for (const { discriminator: { propertyName, mapping }, oneOf } of unions) {
    assert.deepEqual(Object.values(mapping), oneOf.map(({ $ref }: Json) => $ref));
    for (const [value, ref] of Object.entries<string>(mapping)) {
      assert.equal(schemas[ref.split("/").at(-1) ?? ""].properties[propertyName].const, value);
    }
  }
  const { task } = schemas["SearchResult"].discriminator.mapping;
  assert.ok(schemas[task.split("/").at(-1)].required.includes("task"), "what was found is in its result");
});

Deno.test("every required field is one of the fields", () => {
  const check = (json: Json): void => {
    if (typeof json !== "object" || json === null) return;
    if (Array.isArray(json["required"])) {
      const fields = Object.keys(json["properties"] ?? {});
      assert.deepEqual(json["required"].filter((name: string) => !fields.includes(name)), []);
    }
    for (const part of Object.values(json)) check(part);
  };
  check(schemas);
});

Deno.test("every parameter, every property and every tag has a description", () => {
  const missing: string[] = [];
  const walk = (schema: Json, where: string): void => {
    if (typeof schema !== "object" || schema === null) return;
    for (const [name, property] of Object.entries<Json>(schema.properties ?? {})) {
      if (property.description === undefined && property.$ref === undefined) missing.push(`${where}.${name}`);
      walk(property, `${where}.${name}`);
    }
    for (const part of [schema.items, schema.additionalProperties, schema.allOf, schema.anyOf, schema.oneOf].flat()) {
      walk(part, where);
    }
  };
  for (const [name, schema] of Object.entries(schemas)) walk(schema, name);
  for (const { operationId, parameters = [], requestBody, responses } of operations) {
    for (const { $ref, name, description } of parameters) {
      if ($ref === undefined && description === undefined) missing.push(`${operationId} ${name}`);
    }
    for (const { content = {} } of [requestBody ?? {}, ...Object.values<Json>(responses)]) {
      for (const { schema } of Object.values<Json>(content)) walk(schema, operationId);
    }
  }
  for (const { name, description } of document.tags) if (!/ .*\.$/.test(description)) missing.push(`tag ${name}`);
  assert.deepEqual(missing, []);
});

Deno.test("defaults that are arrays are documented, those that are objects are not", () => {
  const parameter = (path: string, name: string): Json =>
    document.paths[path].get.parameters.find((parameter: Json) => parameter.name === name);
  assert.deepEqual(parameter("/v1/search", "types").schema.default, ["message"]);
  const { mentions } = schemas["MessageSendRequest"].properties;
  assert.equal(mentions.default, undefined);
});
