// `/openapi.json`: complete, consistent, and in accordance with the server.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import { Ajv2020 } from "npm:ajv@8.20.0/dist/2020.js";
import { parse } from "@/core/dispatch.ts";
import { defineOperation } from "@/core/operation.ts";
import { jsonPointer } from "@/core/text/text.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { propertiesOf, Schemas } from "@/transport/shared/json_schema.ts";
import { FIRST_TAGS } from "@/transport/http/openapi/document.ts";
import { webSocketRoute } from "@/transport/ws/server.ts";
import { openGateway } from "../harness.ts";
import { createSampleGateway } from "./http_sample.ts";

const Times = z.strictObject({ until: TimeInput });

// deno-lint-ignore no-explicit-any -- tests read an arbitrary JSON document
type Json = any;

async function documentOf(gateway = createSampleGateway()): Promise<Json> {
  const response = await gateway.call("/openapi.json", { token: null });
  assert.equal(response.headers.get("Content-Type"), "application/json");
  return await response.json();
}

/** Every value inside `value` under a key. */
function* valuesOf(value: Json, key: string): Generator<Json> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    if (name === key) yield inner;
    yield* valuesOf(inner, key);
  }
}

Deno.test("an operation with its own rate limit documents it", async () => {
  await using gateway = await openGateway();
  const { body: { paths } } = await (await gateway.as("alice")).get("/openapi.json");
  assert.match(
    paths["/v1/rooms"].post.description,
    /\n\nRate limit: 30 calls in 60 s by a principal and its agents; services/,
  );
  const edits = /\n\nRate limit: 20 calls in 4 s by a principal, and 50 calls in 5 s by its agents;/;
  assert.match(paths["/v1/messages/{id}"].patch.description, edits);
  assert.ok(!paths["/v1/rooms"].get.description.includes("Rate limit"));
});

Deno.test("the document has every operation and every route, each with its own operationId", async () => {
  const gateway = createSampleGateway({ routes: [webSocketRoute(() => new Response())] });
  const document = await documentOf(gateway);
  assert.equal(document.openapi, "3.1.0");
  const ids = [...valuesOf(document.paths, "operationId")];
  const builtIn = [
    "ws.connect",
    "home.get",
    "client.asset",
    "client.worker",
    "client.manifest",
    "health.get",
    "metrics.get",
    "readiness.get",
    "docs.get",
    "docs.asset",
    "openapi.get",
  ];
  assert.deepEqual(ids.toSorted(), [...gateway.deps.operations.map(({ name }) => name), ...builtIn].toSorted());
  assert.ok(document.paths["/v1/rooms/{roomId}"].delete);
  const tags = new Set(document.tags.map(({ name }: Json) => name));
  const described = Object.values(document.paths).flatMap((path: Json) => Object.values(path));
  for (const operation of described as Json[]) assert.ok(tags.has(operation.tags[0]), operation.operationId);
});

Deno.test("tags that newcomers look for come first, and each starts with its collection", async () => {
  await using gateway = await openGateway();
  const { body: document } = await gateway.withToken(undefined).get("/openapi.json");
  const names: string[] = document.tags.map(({ name }: Json) => name);
  assert.deepEqual(names.slice(0, 2), ["rooms", "messages"]);
  assert.deepEqual(names.slice(0, FIRST_TAGS.length), FIRST_TAGS);
  assert.ok(names.indexOf("jobs") >= FIRST_TAGS.length);
  const pathsOf = Map.groupBy(
    Object.keys(document.paths),
    (path) => Object.values<Json>(document.paths[path])[0].tags[0],
  );
  for (const [tag, paths] of pathsOf) {
    const collection = paths.find((path) => [`/v1/${tag}`, `/v1/collaboration/${tag}`].includes(path));
    if (collection !== undefined) assert.equal(paths[0], collection, tag);
  }
  assert.equal(Object.keys(document.paths["/v1/messages"])[0], "post");
});

Deno.test("the server is described, since its relative URL says nothing to a reader", async () => {
  const { servers } = await documentOf();
  assert.deepEqual(servers, [{ url: ".", description: "The gateway that serves this document" }]);
});

Deno.test("no two paths differ only in the names of their parameters, no schema is called like the maker of another", async () => {
  await using gateway = await openGateway();
  const { body: document } = await gateway.withToken(undefined).get("/openapi.json");
  // Generators for Go write a function `NewToken` for a schema `Token`.
  const schemas = Object.keys(document.components.schemas);
  assert.deepEqual(schemas.filter((name) => schemas.includes(`New${name}`)), []);
  const shapes = Object.keys(document.paths).map((path) => path.replaceAll(/\{\w+\}/g, "{}"));
  assert.equal(new Set(shapes).size, shapes.length);
});

Deno.test("every parameter of a path is declared, once and as required", async () => {
  await using gateway = await openGateway();
  const { body: document } = await gateway.withToken(undefined).get("/openapi.json");
  const operations = Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.values<Json>(methods).map((operation) => ({ path, ...operation }))
  );
  for (const { path, operationId, parameters = [] } of operations) {
    const declared = parameters.filter((parameter: Json) => parameter.in === "path");
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    assert.deepEqual(declared.map(({ name }: Json) => name), names, operationId);
    for (const parameter of declared) {
      assert.ok(parameter.required && parameter.description && parameter.schema, operationId);
    }
  }
  assert.ok(operations.length > 100);
});

Deno.test("every default and example is valid for its schema", async () => {
  await using gateway = await openGateway();
  const { body: document } = await gateway.withToken(undefined).get("/openapi.json");
  // Without Unicode classes such as \p{Cc}, like many generators.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, unicodeRegExp: false, logger: false });
  ajv.addSchema({ $id: "document", ...document });
  const invalid: string[] = [];
  let count = 0;
  const check = (pointer: string, value: Json): void => {
    count++;
    const validate = ajv.compile({ $ref: `document#${encodeURI(pointer)}` });
    if (!validate(value)) invalid.push(`${pointer}: ${ajv.errorsText(validate.errors)}`);
  };
  const walk = (at: Json, pointer: string): void => {
    if (typeof at !== "object" || at === null) return;
    if ("default" in at && ("type" in at || "anyOf" in at)) check(pointer, at.default);
    if ("example" in at && typeof at.schema === "object") check(`${pointer}/schema`, at.example);
    for (const [name, inner] of Object.entries(at)) {
      if (name !== "example" && name !== "examples") walk(inner, pointer + jsonPointer([name]));
    }
  };
  walk(document, "");
  assert.deepEqual(invalid, []);
  assert.ok(count > 100);
});

Deno.test("every parameter of a path, and every text or JSON body of a request, has an example", async () => {
  await using gateway = await openGateway();
  const { body: document } = await gateway.withToken(undefined).get("/openapi.json");
  const operations: Json[] = Object.values(document.paths).flatMap((path: Json) => Object.values(path));
  const without = operations.flatMap(({ operationId, parameters = [], requestBody }) => [
    ...parameters.filter((one: Json) =>
      one.in === "path" && one.example === undefined && one.schema.examples === undefined &&
      one.schema.enum === undefined
    ).map(({ name }: Json) => `${operationId} ${name}`),
    ...Object.entries<Json>(requestBody?.content ?? {})
      .filter(([type, body]) => !/octet-stream|multipart/.test(type) && body.example === undefined)
      .map(([type]) => `${operationId} ${type}`),
  ]);
  assert.deepEqual(without, ["client.asset digest", "client.asset file"]);
});

Deno.test("a boolean with one value is a boolean, of which generators make no enumeration of strings", () => {
  const { properties } = new Schemas().of(z.object({ pinned: z.literal(true) }), "input");
  assert.deepEqual(properties, { pinned: { type: "boolean" } });
});

Deno.test("an unbounded integer has the format int64, and the limits of a JSON number", () => {
  const schema = new Schemas().of(z.object({ lines: z.int(), columns: z.int().min(1).max(200) }), "output");
  assert.deepEqual(propertiesOf(new Schemas(), schema).properties, {
    lines: { type: "integer", format: "int64", minimum: -9007199254740991, maximum: 9007199254740991 },
    columns: { type: "integer", minimum: 1, maximum: 200 },
  });
});

Deno.test("every reference in the document resolves", async () => {
  const document = await documentOf();
  const refs = new Set<string>(valuesOf(document, "$ref"));
  assert.ok(refs.size > 20);
  for (const ref of refs) {
    const found = ref.slice(2).split("/").reduce((at: Json, part) => at?.[part], document);
    assert.ok(found, ref);
  }
  assert.ok(!JSON.stringify(document).includes("$defs"));
});

Deno.test("path and query fields become parameters with descriptions, the others the body", async () => {
  const document = await documentOf();
  const list = document.paths["/v1/rooms"].get;
  const limit = list.parameters.find(({ name }: Json) => name === "limit");
  assert.deepEqual(limit, {
    name: "limit",
    in: "query",
    required: false,
    description:
      "Maximum number of items on the page; long ones make it shorter, so `hasMore` says whether there are more",
    schema: { default: 50, type: "integer", minimum: 1, maximum: 200 },
  });
  assert.equal(list.requestBody, undefined);
  const update = document.paths["/v1/rooms/{roomId}"].patch;
  const roomId = update.parameters.find(({ name }: Json) => name === "roomId");
  assert.deepEqual([roomId.in, roomId.required, roomId.example], ["path", true, "room_1"]);
  const { schema: { $ref }, example } = update.requestBody.content["application/json"];
  assert.equal($ref, "#/components/schemas/RoomUpdateRequest");
  const schema = document.components.schemas.RoomUpdateRequest;
  assert.deepEqual(Object.keys(schema.properties).toSorted(), ["name", "version"]);
  assert.equal(schema.required, undefined);
  assert.deepEqual(example, { name: "Renamed" });
  assert.ok(update.parameters.some(({ $ref }: Json) => $ref?.endsWith("/IfMatch")));
  const create = document.paths["/v1/rooms"].post;
  assert.ok(create.parameters.some(({ $ref }: Json) => $ref?.endsWith("/IdempotencyKey")));
  assert.equal(create.requestBody.required, true);
  assert.deepEqual(Object.keys(create.responses).filter((status) => status < "400"), ["200", "201"]);
  assert.ok(create.responses["201"].headers["Location"]);
  assert.ok(document.paths["/v1/rooms/{roomId}"].get.responses["304"]);
});

Deno.test("every possible problem is listed by status, with codes as data and as text", async () => {
  const document = await documentOf();
  const create = document.paths["/v1/rooms"].post;
  const codesOf = (status: string): string[] => {
    const { $ref, description } = create.responses[status];
    const shared = document.components.responses[$ref.split("/").at(-1)].content["application/problem+json"];
    assert.deepEqual(shared.schema, { $ref: "#/components/schemas/Problem" });
    const codes: string[] = create["x-problem-codes"][status];
    for (const code of codes) {
      assert.ok(description.includes(`\`${code}\`: `), code);
      assert.equal(shared.examples[code].value.status, Number(status));
    }
    return codes;
  };
  assert.deepEqual(codesOf("409"), ["idempotency_in_flight", "response_not_stored", "slug_taken"]);
  assert.deepEqual(codesOf("401"), ["token_expired", "token_revoked", "unauthenticated"]);
  assert.deepEqual(codesOf("422"), ["idempotency_key_reused", "unknown_field", "validation_failed"]);
  for (const status of ["400", "403", "406", "413", "415", "429", "500", "503"]) assert.ok(create.responses[status]);
});

Deno.test("public routes need no token, all others need a bearer token", async () => {
  const document = await documentOf();
  assert.deepEqual(document.security, [{ bearer: [] }]);
  assert.deepEqual(document.paths["/health"].get.security, []);
  assert.equal(document.paths["/v1/rooms"].get.security, undefined);
});

Deno.test("header patterns of the document match those of the server", async () => {
  const gateway = createSampleGateway();
  const { parameters } = (await documentOf(gateway)).components;
  // An invalid id is replaced, not rejected.
  assert.equal(parameters.RequestId.schema.pattern, undefined);
  const ifMatch = new RegExp(parameters.IfMatch.schema.pattern, "u");
  for (const tag of ["*", '"1"', 'W/"1"', '"1.zzz"', "", "1", '"-1"', '"1", "2"', `"${"9".repeat(16)}"`]) {
    const response = await gateway.call("/v1/rooms/room_1", {
      method: "PATCH",
      headers: { "If-Match": tag, "Content-Type": "application/json" },
      body: "{}",
    });
    assert.equal(response.status === 400, !ifMatch.test(tag), tag);
  }
});

Deno.test("CORS allows and exposes every documented header", async () => {
  const origin = "https://app.example";
  await using gateway = await openGateway({ SVC_CORS_ALLOW_ORIGINS: origin });
  const { body: document } = await gateway.withToken(undefined).get("/openapi.json");
  const sent = [...valuesOf(document, "parameters")].flatMap((all) => Object.values(all) as Json[])
    .filter((parameter) => parameter.in === "header").map(({ name }) => name.toLowerCase());
  const request = new Request("http://gateway.test/v1/rooms", {
    method: "OPTIONS",
    headers: { Origin: origin, "Access-Control-Request-Method": "GET" },
  });
  const { headers } = await gateway.app.fetch(request, "127.0.0.1");
  const listed = (name: string): string[] => (headers.get(name) ?? "").toLowerCase().split(", ");
  assert.ok(sent.length > 5);
  assert.deepEqual(sent.filter((name) => !listed("Access-Control-Allow-Headers").includes(name)), []);
  const read = Object.keys(document.components.headers).map((name) => name.toLowerCase());
  assert.deepEqual(read.filter((name) => !listed("Access-Control-Expose-Headers").includes(name)), []);
});

Deno.test("a time is documented as what is accepted: any form of RFC 3339, and nothing without an offset", () => {
  const until = { type: "string", format: "date-time" };
  assert.deepEqual(new Schemas().of(Times, "input")["properties"], { until });
  assert.deepEqual(new Schemas().of(Times, "output")["properties"], { until });
  for (const text of ["2026-03-01T09:00:00+01:00", "2026-03-01t08:00:00z", "2026-03-01T08:00:00.000000+0000"]) {
    assert.deepEqual(parse(Times, { until: text }), { until: "2026-03-01T08:00:00.000Z" });
  }
  for (const text of ["2026-03-01T09:00:00", "2026-02-30T09:00:00Z", "2026-03-01", "noon", "Z".repeat(99)]) {
    assert.throws(() => parse(Times, { until: text }), {
      message: "/until: expected a time such as 2026-03-01T09:00:00Z",
    });
  }
});

Deno.test("each schema has one type, and null at most, and a reference has no other structure", async () => {
  await using gateway = await openGateway();
  const { body: document } = await gateway.withToken(undefined).get("/openapi.json");
  for (const type of valuesOf(document, "type")) {
    if (Array.isArray(type)) assert.ok(type.length === 2 && type.includes("null"), JSON.stringify(type));
  }
  assert.doesNotMatch(JSON.stringify(document), /"\$ref":"[^"]*","(?:oneOf|discriminator)"/);
});

Deno.test("every documentation file has a documented media type", async () => {
  const gateway = createSampleGateway();
  const { paths } = await documentOf(gateway);
  const manifest = paths["/manifest.webmanifest"].get.responses["200"].content["application/manifest+json"];
  assert.equal(manifest.schema.type, "object");
  const { get } = paths["/docs/{asset}"];
  const types = Object.keys(get.responses["200"].content);
  for (const asset of get.parameters[0].schema.enum) {
    const response = await gateway.call(`/docs/${asset}`, { token: null });
    await response.body?.cancel();
    assert.ok(types.includes(response.headers.get("Content-Type")?.split(";")[0] ?? ""), asset);
  }
});

Deno.test("a schema that differs between input and output gets two names, and so do its referrers", () => {
  const schemas = new Schemas();
  const Leaf = z.object({ size: z.int().default(1) }).meta({ id: "Leaf" });
  const Tree = z.object({ leaf: Leaf }).meta({ id: "Tree" });
  const Same = z.object({ name: z.string() }).meta({ id: "Same" });
  const Both = z.object({ tree: Tree, same: Same });
  const input = schemas.of(Both, "input");
  const output = schemas.of(Both, "output");
  const document = JSON.parse(schemas.serialize({ input, output, components: {} }));
  assert.deepEqual(Object.keys(document.components.schemas).toSorted(), [
    "Leaf",
    "LeafInput",
    "Same",
    "Tree",
    "TreeInput",
  ]);
  assert.equal(document.input.properties.tree.$ref, "#/components/schemas/TreeInput");
  assert.equal(document.output.properties.tree.$ref, "#/components/schemas/Tree");
  assert.equal(document.components.schemas.TreeInput.properties.leaf.$ref, "#/components/schemas/LeafInput");
  assert.deepEqual(document.components.schemas.Leaf.required, ["size"]);
  assert.equal(document.components.schemas.LeafInput.required, undefined);
});

Deno.test("unions, recursive schemas and named inputs are described", async () => {
  const Node: z.ZodType = z.object({
    get children() {
      return z.array(Node);
    },
  });
  const Input = z.discriminatedUnion("kind", [
    z.strictObject({ id: z.string(), kind: z.literal("a"), depth: z.int() }),
    z.strictObject({ id: z.string(), kind: z.literal("b"), name: z.string().optional() }),
  ]).meta({ id: "PickInput" });
  const operation = defineOperation({
    name: "tree.pick",
    summary: "Pick",
    access: { scope: "tree.write" },
    http: { method: "POST", path: "/v1/trees/:id/pick", status: 200 },
    input: Input,
    output: Node,
    run: () => Promise.resolve({ children: [] }),
  });
  const gateway = createSampleGateway({ operations: [operation] });
  const { paths, components } = await documentOf(gateway);
  const { schema: { $ref } } = paths["/v1/trees/{id}/pick"].post.requestBody.content["application/json"];
  const schema = components.schemas[$ref.split("/").at(-1)];
  assert.deepEqual(schema.oneOf.map(({ required }: Json) => required), [["kind", "depth"], ["kind"]]);
  assert.deepEqual(schema.oneOf.map(({ properties }: Json) => properties.id), [undefined, undefined]);
  assert.ok(Object.values(components.schemas).some((json: Json) => json.properties?.children?.type === "array"));
  const body = { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"kind":"a","depth":1}' };
  assert.equal((await gateway.call("/v1/trees/x/pick", body)).status, 200);
});

Deno.test("/openapi.json is the same whatever is set", async () => {
  const settings = {
    SVC_ENV: "staging",
    SVC_JWT_SECRET: crypto.randomUUID() + crypto.randomUUID(),
    SVC_PUBLIC_URL: "https://collab.example",
    SVC_JWKS_URL: "https://login.example/keys",
    SVC_JWT_ISSUER: "https://login.example",
    SVC_LEGACY_QUERY_TOKEN: "on",
    SVC_RATE_LIMIT: "on",
    SVC_SEARCH: "off",
    SVC_OUTBOUND_ALLOW: "127.0.0.1",
    SVC_AI_BASE_URL: "http://models.test/v1",
    SVC_AI_MODEL: "small context=64000 input=1 output=4",
    SVC_AI_EMBEDDING_MODEL: "v",
    SVC_METRICS_TOKEN: crypto.randomUUID(),
    SVC_LIVEKIT_URL: "wss://media.example",
    SVC_LIVEKIT_API_KEY: "key",
    SVC_LIVEKIT_API_SECRET: crypto.randomUUID(),
    SVC_TURN_URLS: "turn:turn.example",
    SVC_TURN_SECRET: crypto.randomUUID(),
    SVC_LIMIT_BODY_BYTES: "2048",
    SVC_LIMIT_ROOM_MEMBERS: "5",
    SVC_LIMIT_SUBSCRIPTIONS: "5",
    SVC_LIMIT_FILE_BYTES: "50000",
    SVC_LIMIT_TENANT_FILE_BYTES: "100000",
    SVC_LIMIT_AI_TOKENS_PER_DAY: "100",
  };
  await using plain = await openGateway();
  await using other = await openGateway(settings);
  const [expected, actual] = await Promise.all(
    [plain, other].map(async (gateway) => (await gateway.withToken(undefined).get("/openapi.json")).body),
  );
  assert.deepEqual(actual, expected);
});
