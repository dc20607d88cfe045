// Duties that every operation has, checked over the one list there is.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import { isAtLeast, ROOM_ROLES, type RoomRole, TENANT_ROLES } from "@/core/actor.ts";
import { DAY_MS } from "@/core/time/clock.ts";
import { isReadOnly, type Operation, requiredRoomRole } from "@/core/operation.ts";
import { BODY_MAX_BYTES } from "@/transport/http/endpoint.ts";
import { type Harness, openGateway } from "./harness.ts";
import { createResources, findIds, openResourceGateway, withOwnIds } from "./resource_fixture.ts";
import { ok } from "./modules/fixtures.ts";
import { acceptsValue, callOperation, exampleOf, fieldsOf, requestFor } from "./operation_request.ts";

Deno.test("every operation responds 401 without a token", async () => {
  await using gateway = await openGateway();
  for (const operation of gateway.app.operations.values()) {
    const answer = await callOperation(gateway.withToken(undefined), operation, exampleOf(operation));
    assert.equal(answer.status, 401, operation.name);
    assert.equal(answer.body.code, "unauthenticated", operation.name);
    assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer/, operation.name);
  }
});

Deno.test("every operation responds 403 scope_missing to a token without its scope", async () => {
  await using gateway = await openGateway();
  const scopeless = await gateway.as("alice", { scope: "nothing.read" });
  for (const operation of gateway.app.operations.values()) {
    if (operation.access.scope === null) continue;
    const answer = await callOperation(scopeless, operation, exampleOf(operation));
    assert.equal(answer.status, 403, operation.name);
    assert.equal(answer.body.code, "scope_missing", operation.name);
  }
});

Deno.test("every operation with a tenant role refuses the role below it", async () => {
  await using gateway = await openGateway();
  for (const operation of gateway.app.operations.values()) {
    const least = operation.access.tenant ?? "guest";
    for (const role of TENANT_ROLES.filter((role) => !isAtLeast(TENANT_ROLES, role, least))) {
      const caller = await gateway.as(`a-${role}`, { role });
      const answer = await callOperation(caller, operation, exampleOf(operation));
      assert.equal(answer.status, 403, `${operation.name} as ${role}`);
      assert.equal(answer.body.code, "forbidden", `${operation.name} as ${role}`);
    }
  }
});

Deno.test("every operation names an unknown field or parameter", async () => {
  await using gateway = await openGateway();
  const owner = await gateway.as("owner", { role: "owner" });
  for (const operation of gateway.app.operations.values()) {
    const answer = await callOperation(owner, operation, { ...exampleOf(operation), surprise: 1 });
    assert.ok(answer.status === 422 || answer.status === 400, `${operation.name}: ${answer.status}`);
    assert.ok(
      ["unknown_field", "unknown_parameter"].includes(answer.body.code),
      `${operation.name}: ${answer.body.code}`,
    );
    assert.match(JSON.stringify(answer.body), /surprise/, operation.name);
  }
  const { body: { paths } } = await owner.get("/openapi.json");
  for (const [path, methods] of Object.entries<Record<string, Described>>(paths)) {
    for (const [method, { operationId, security, responses }] of Object.entries(methods)) {
      const isOther = gateway.app.operations.has(operationId) || "101" in responses || path.startsWith("/scim/");
      if (isOther || security !== undefined) continue;
      const answer = await owner.call(method.toUpperCase(), `${path.replaceAll(/[{}]/g, "")}?surprise=1`);
      assert.equal(answer.body.code, "unknown_parameter", operationId);
    }
  }
});

type Described = { operationId: string; security?: unknown; responses: object };

Deno.test("every operation names each field whose value is of no use", async () => {
  await using gateway = await openGateway();
  const owner = await gateway.as("owner", { role: "owner" });
  for (const operation of gateway.app.operations.values()) {
    for (const field of fieldsOf(operation)) {
      const bad = { ...exampleOf(operation), [field]: { not: ["of", "use"] } };
      const { path, body } = requestFor(operation, bad);
      // A path or query value is text; an object there reads "[object Object]", which no schema takes either, save free text.
      if (body === undefined || !(field in body) || acceptsValue(operation, field, { not: ["of", "use"] })) continue;
      const answer = await owner.call(operation.http.method, path, body);
      assert.equal(answer.status, 422, `${operation.name} ${field}: ${answer.status}`);
      const pointers = answer.body.errors.map((error: { pointer: string }) => error.pointer.split("/")[1]);
      assert.ok(pointers.includes(field), `${operation.name} ${field}: ${pointers}`);
    }
  }
});

Deno.test("every operation of a room hides it from outsiders and refuses roles below its own", async (t) => {
  await using gateway = await openGateway();
  const world = await openFixture(gateway);
  for (const operation of gateway.app.operations.values()) {
    const least = leastRoleOf(operation);
    const example = exampleOf(operation);
    // A scope of memory that is not visible has no facts.
    const isOfRoom = findIds(example).some(({ kind, path }) => kind === "room" && path[0] !== "scopeId");
    if (least === undefined || !isOfRoom) continue;
    await t.step(operation.name, async () => {
      const input = withOwnIds(example, { room: world.roomId }) as Record<string, unknown>;
      for (const [who, caller] of [["outsider", world.outsider], ["stranger", world.stranger]] as const) {
        const answer = await callOperation(caller, operation, input);
        assert.equal(answer.status, 404, `${operation.name} as ${who}: ${JSON.stringify(answer.body)}`);
      }
      for (const role of ROOM_ROLES.filter((role) => !isAtLeast(ROOM_ROLES, role, least))) {
        const answer = await callOperation(world.members[role], operation, input);
        assert.equal(answer.status, 403, `${operation.name} as ${role}: ${JSON.stringify(answer.body)}`);
      }
    });
  }
});

Deno.test("every operation on what is in a room refuses roles below its own", async (t) => {
  await using gateway = await openResourceGateway();
  const owner = await gateway.as("owner");
  const resources = await createResources(owner, "mine");
  for (const operation of gateway.app.operations.values()) {
    const least = operation.access.room;
    const input = withOwnIds(exampleOf(operation), resources) as Record<string, unknown>;
    if (least === undefined || Object.values(input).includes(resources["room"])) continue;
    await t.step(operation.name, async () => {
      for (const role of ROOM_ROLES.filter((role) => !isAtLeast(ROOM_ROLES, role, least))) {
        const caller = await gateway.as(`r-${role}`);
        await caller.get("/v1/collaboration/me");
        ok(await owner.put(`/v1/rooms/${resources["room"]}/members/r-${role}`, { role }));
        const answer = await callOperation(caller, operation, input);
        // A call on several resources has a result for each.
        const refused = operation.name === "task.bulk" ? answer.body.results[0].error : answer.body;
        assert.equal(refused.code, "forbidden", `${operation.name} as ${role}: ${JSON.stringify(answer.body)}`);
      }
    });
  }
});

Deno.test("permission.check says what the operations do", async () => {
  await using gateway = await openGateway();
  const world = await openFixture(gateway);
  for (const operation of gateway.app.operations.values()) {
    const least = leastRoleOf(operation);
    if (least === undefined) continue;
    for (const role of ROOM_ROLES) {
      const { body } = await world.members[role].post("/v1/collaboration/permissions/check", {
        checks: [{ action: operation.name, resource: { type: "room", id: world.roomId } }],
      });
      assert.equal(body.results[0].allowed, isAtLeast(ROOM_ROLES, role, least), `${operation.name} as ${role}`);
    }
  }
});

Deno.test("permission.check says what an archived room refuses", async () => {
  await using gateway = await openGateway();
  const { members: { owner }, roomId } = await openFixture(gateway);
  ok(await owner.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  assert.equal((await owner.post("/v1/messages", { roomId, text: "late" })).body.code, "room_archived");
  for (const operation of gateway.app.operations.values()) {
    if (leastRoleOf(operation) === undefined) continue;
    const { body } = await owner.post("/v1/collaboration/permissions/check", {
      checks: [{ action: operation.name, resource: { type: "room", id: roomId } }],
    });
    const isAllowed = isReadOnly(operation) || operation.access.archived === true;
    assert.equal(body.results[0].reason, isAllowed ? "allowed" : "room_archived", operation.name);
  }
});

Deno.test("the examples of all operations are accepted as they are, also years later", async () => {
  await using gateway = await openGateway();
  gateway.clock.advance(5 * 365 * DAY_MS);
  const owner = await gateway.as("root", { role: "owner" });
  const refused: string[] = [];
  for (const operation of gateway.app.operations.values()) {
    if (operation.disabled !== undefined) continue;
    const { status, body } = await callOperation(owner, operation, exampleOf(operation));
    // What they name does not exist here.
    if (status === 400 || status === 422 || status >= 500) refused.push(`${operation.name}: ${body.detail}`);
  }
  assert.deepEqual(refused, []);
});

Deno.test("every operation is in /openapi.json with an id, a summary, security, examples and its problems", async () => {
  await using gateway = await openGateway();
  const { body: document } = await gateway.withToken(undefined).get("/openapi.json");
  assert.equal(document.openapi.slice(0, 3), "3.1");
  for (const operation of gateway.app.operations.values()) {
    const path = operation.http.path.replaceAll(/:(\w+)/g, "{$1}");
    const entry = document.paths[path]?.[operation.http.method.toLowerCase()];
    assert.equal(entry?.operationId, operation.name);
    assert.equal(entry.summary, operation.summary);
    assert.ok((entry.security ?? document.security)?.length > 0, operation.name);
    for (const status of [operation.http.status, ...operation.http.otherStatuses ?? [], 401, 403, 429, 500]) {
      assert.ok(entry.responses[String(status)] !== undefined, `${operation.name} ${status}`);
    }
    if (Object.keys(exampleOf(operation)).length > 0 && entry.requestBody !== undefined) {
      assert.match(JSON.stringify(entry.requestBody), /example/, operation.name);
    }
  }
});

Deno.test("names and routes of operations are unique and well formed", async () => {
  await using gateway = await openGateway();
  const routes = new Set<string>();
  for (const [name, { http, access }] of gateway.app.operations) {
    assert.match(name, /^[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*$/);
    if (access.scope !== null) assert.match(access.scope, /^[a-z]+\.(read|write|manage)$/, name);
    assert.ok(http.path.startsWith("/v1/"), name);
    const route = `${http.method} ${http.path.replaceAll(/:\w+/g, ":")}`;
    assert.ok(!routes.has(route), `${name}: ${route} is taken`);
    routes.add(route);
  }
});

Deno.test("every operation without a limit of its own takes a body of its longest fields, all of them escaped", async () => {
  await using gateway = await openGateway();
  for (const { name, input, http } of gateway.app.operations.values()) {
    if (http.method === "GET" || http.method === "DELETE" || http.bodyMaxBytes !== undefined) continue;
    const bytes = longestOf(z.toJSONSchema(input, { io: "input", unrepresentable: "any", reused: "inline" }));
    assert.ok(bytes <= BODY_MAX_BYTES, `${name}: ${bytes}`);
  }
});

type JsonSchema = z.core.JSONSchema.BaseSchema;

/** Bytes of the longest JSON that fits: six for each unit of a text, one where it is of certain characters. */
function longestOf(schema: JsonSchema | boolean = true): number {
  if (typeof schema === "boolean") return 0;
  if (typeof schema["x-max-bytes"] === "number") return 6 * schema["x-max-bytes"];
  const { anyOf, oneOf, allOf, type, properties = {}, items, maxItems = Infinity, maxLength = Infinity } = schema;
  const forms = anyOf ?? oneOf;
  if (forms !== undefined) return Math.max(...forms.map(longestOf));
  if (allOf !== undefined) return allOf.reduce((sum: number, part) => sum + longestOf(part), 0);
  if (schema.enum !== undefined || schema.const !== undefined || schema.format !== undefined) return 64;
  if (type === "string") return schema.pattern === undefined ? 6 * maxLength : Math.min(maxLength, 256);
  if (type === "array") return maxItems * (1 + longestOf(items as JsonSchema));
  if (type !== "object") return 20;
  if (schema.additionalProperties !== false) return 8192;
  return Object.entries(properties).reduce((sum, [key, value]) => sum + key.length + 4 + longestOf(value), 2);
}

/** The lowest role in a channel in which a member of the tenant may call the operation. */
function leastRoleOf({ access }: Operation): RoomRole | undefined {
  return requiredRoomRole("channel", access, { role: "member" });
}

async function openFixture(gateway: Harness) {
  const owner = await gateway.as("r-owner");
  for (const role of ["moderator", "member", "observer"]) {
    await (await gateway.as(`r-${role}`)).get("/v1/collaboration/me");
  }
  const { body: room } = await owner.post("/v1/rooms", { name: "Matrix" });
  for (const role of ["moderator", "member", "observer"]) {
    const put = await owner.put(`/v1/rooms/${room.id}/members/r-${role}`, { role });
    assert.equal(put.status, 201);
  }
  return {
    roomId: room.id as string,
    outsider: await gateway.as("outsider", { role: "admin" }),
    stranger: await gateway.as("stranger", { tenant: "elsewhere", role: "owner" }),
    members: {
      owner,
      moderator: await gateway.as("r-moderator"),
      member: await gateway.as("r-member"),
      observer: await gateway.as("r-observer"),
    },
  };
}
