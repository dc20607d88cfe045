// Every address that a caller can have the gateway call: private ones are refused, however they are written, when they are given
// and again when they are called.
import assert from "node:assert/strict";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { callOperation, exampleOf } from "../operation_request.ts";
import { assertProblem, createRoom, ok } from "./fixtures.ts";

type Context = { roomId: string; webhookId: string; commandId: string };

/** Where an address can be given that is called, and how: by operation and property. */
const CALLED: Readonly<Record<string, (url: string, context: Context) => object>> = {
  "mcp_server.put url": (url) => ({ url }),
  "plugin.install manifest.endpoint": (endpoint) => ({ manifest: manifest(endpoint) }),
  "plugin.update manifest.endpoint": (endpoint) => ({ manifest: manifest(endpoint) }),
  "provider.put baseUrl": (baseUrl) => ({ baseUrl }),
  "slash_command.create url": (url, { roomId }) => ({ url, roomId }),
  "slash_command.update url": (url, { commandId }) => ({ id: commandId, url }),
  "webhook.create url": (url, { roomId }) => ({ url, roomIds: [roomId] }),
  "webhook.update url": (url, { webhookId }) => ({ id: webhookId, url }),
};

/** Metadata documents of OAuth clients: `oauth_client_test.ts` and the last test here. */
const FETCHED = ["oauth.authorize client_id", "oauth.token client_id"];

/** Addresses of hosts that the operator names, and no others: push_test.ts. */
const NAMED = ["push_subscription.create endpoint"];

/** Addresses that are shown to people, or that browsers are sent to, and that the gateway never calls. */
const NEVER_CALLED = [
  // Links of message elements.
  "message.send elements[].url",
  "message.update elements[].url",
  "interaction.respond response.elements[].url",
  "plugin.respond response.elements[].url",
  "oauth.authorize redirect_uri",
  "oauth.register redirect_uris[]",
  "oauth.token redirect_uri",
];
const PRIVATE = [
  "https://127.0.0.1/",
  "https://127.1/",
  "https://2130706433/",
  "https://0x7f000001/",
  "https://0177.0.0.1/",
  "https://１２７.0.0.1/",
  "https://10.0.0.1/",
  "https://169.254.169.254/latest/meta-data",
  "https://192.168.0.1:8443/",
  "https://100.64.0.1/",
  "https://[::1]/",
  "https://[::ffff:127.0.0.1]/",
  "https://[fd00::1]/",
  "https://[64:ff9b::7f00:1]/",
  "https://0.0.0.0/",
  "https://127.0.0.1./",
  "https://user:password@example.com/",
  "http://example.com/",
  "http://localhost:3001/",
  "https://localhost/",
  "https://LOCALHOST.:8443/",
  "https://hooks.localhost/",
  "https://redis:6379/",
  "https://printer.local/",
  "https://metadata.google.internal/",
  "https://router.home.arpa/",
];

/** Names of properties that are addresses; `client_id` may be the address of a document. */
const ADDRESS_NAME = /(?:^|[a-z_])(?:ur[il]s?|endpoint|href|address|host|client_id)$/i;

Deno.test("every place of the API where an address can be given is known here", async () => {
  await using gateway = await openGateway();
  const response = await gateway.app.fetch(new Request("http://gateway.test/openapi.json"), "127.0.0.1");
  const found = placesOf(await response.json());
  assert.ok(found.length > 10);
  assert.deepEqual(found, [...Object.keys(CALLED), ...FETCHED, ...NAMED, ...NEVER_CALLED].sort());
});

// deno-lint-ignore no-explicit-any -- a document of any shape
function placesOf(openapi: any): string[] {
  const found = new Set<string>();
  // deno-lint-ignore no-explicit-any -- as above
  const walk = (schema: any, operation: string, path: string, seen: readonly string[] = []): void => {
    if (typeof schema !== "object" || schema === null) return;
    if (schema.$ref !== undefined) {
      const name = schema.$ref.split("/").at(-1);
      return seen.includes(name) ? undefined : walk(openapi.components.schemas[name], operation, path, [...seen, name]);
    }
    const isText = [schema.type].flat().includes("string") && schema.enum === undefined;
    const isNamed = isText && ADDRESS_NAME.test(path.replace(/\[\]$/, ""));
    if (isNamed || ["uri", "url", "uri-reference"].includes(schema.format)) found.add(`${operation} ${path}`);
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      walk(property, operation, path === "" ? name : `${path}.${name}`, seen);
    }
    walk(schema.items, operation, `${path}[]`, seen);
    walk(schema.additionalProperties, operation, `${path}.*`, seen);
    const parts = [schema.anyOf, schema.oneOf, schema.allOf].flatMap((list) => list ?? []);
    for (const part of parts) walk(part, operation, path, seen);
  };
  // deno-lint-ignore no-explicit-any -- as above
  const operations: any[] = Object.values<any>(openapi.paths).flatMap((path) => Object.values(path));
  for (const { operationId, parameters = [], requestBody } of operations) {
    if (operationId === undefined) continue;
    for (const { name, schema } of parameters) walk(schema, operationId, name);
    // deno-lint-ignore no-explicit-any -- as above
    for (const { schema } of Object.values<any>(requestBody?.content ?? {})) walk(schema, operationId, "");
  }
  return [...found].sort();
}

Deno.test("private addresses are refused where they are given, however they are written", async (t) => {
  await using gateway = await openGateway();
  const { admin, context } = await openCaller(gateway);
  for (const [place, inputWith] of Object.entries(CALLED)) {
    const operation = gateway.app.operations.get(place.split(" ")[0] ?? "");
    assert.ok(operation !== undefined, place);
    await t.step(place, async () => {
      for (const url of PRIVATE) {
        const input = { ...exampleOf(operation), ...inputWith(url, context) };
        const answer = await callOperation(admin, operation, input);
        assert.ok([404, 422].includes(answer.status), `${url} ${answer.status} ${JSON.stringify(answer.body)}`);
        assert.ok(
          ["address_not_allowed", "validation_failed", "not_found"].includes(answer.body.code),
          `${url} ${answer.body.code}`,
        );
        const isForOperator = answer.body.code === "address_not_allowed" && !url.includes("@");
        if (isForOperator) assert.match(answer.body.detail, /SVC_OUTBOUND_ALLOW/, url);
      }
    });
  }
});

Deno.test("a name with a private address is refused when it is called", async () => {
  await using gateway = await openGateway({ SVC_PUBLIC_URL: "http://gateway.test" }, {
    createOutbound: (deps) => createOutbound({ ...deps, resolve: () => Promise.resolve(["127.0.0.1"]) }),
  });
  let hits = 0;
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response(`${++hits}`));
  // It is the name of no address until it is resolved.
  const url = `https://hooks.example.com:${server.addr.port}/`;
  const { admin, context } = await openCaller(gateway);
  const { id } = ok(await admin.post("/v1/collaboration/webhooks", { url, roomIds: [context.roomId] }));
  const test = ok(await admin.post(`/v1/collaboration/webhooks/${id}/test`));
  assert.deepEqual([test.outcome, test.error], ["unavailable", "address_not_allowed"]);
  const [put, check] = ["mcp_server.put", "mcp_server.test"].map((name) => gateway.app.operations.get(name));
  assert.ok(put !== undefined && check !== undefined);
  ok(await callOperation(admin, put, { ...exampleOf(put), id: "local", url }));
  await callOperation(admin, check, { id: "local" });
  const commandId = ok(await admin.post(COMMANDS, { ...COMMAND, roomId: context.roomId, name: "local", url })).id;
  assertProblem(
    await admin.post("/v1/collaboration/commands/run", {
      roomId: context.roomId,
      text: "/local",
      source: `webhook:${commandId}`,
    }),
    502,
    "command_failed",
  );
  const query = new URLSearchParams({ response_type: "code", client_id: `${url}client.json`, redirect_uri: url });
  const authorize = new Request(`http://gateway.test/oauth/authorize?${query}`);
  assert.equal((await gateway.app.fetch(authorize, "127.0.0.1")).status, 401);
  assert.equal(hits, 0);
});

Deno.test("a name that is always private is accepted where the operator allows it, or addresses that it may have", () => {
  const isAllowed = (url: string, allow: string[], own: string[] = []): boolean => {
    try {
      createOutbound({ allow }).assertAllowed(url, { allow: own });
      return true;
    } catch {
      return false;
    }
  };
  assert.ok(isAllowed("https://hooks.internal/", ["hooks.internal"]));
  assert.ok(isAllowed("https://hooks.internal/", ["10.1.0.0/16"]), "its addresses are checked at each call");
  assert.ok(isAllowed("http://localhost:11434/", [], ["localhost"]));
  assert.ok(isAllowed("https://localhost/", ["127.0.0.1"]));
  assert.ok(!isAllowed("https://localhost/", ["10.1.0.0/16", "other.internal"]));
  assert.ok(!isAllowed("https://hooks.internal/", ["other.internal"]));
});

const COMMANDS = "/v1/collaboration/slash-commands";
const COMMAND = { description: "Status", displayName: "Status" };

async function openCaller(gateway: Harness): Promise<{ admin: Caller; context: Context }> {
  const admin = await gateway.as("admin", { role: "owner" });
  const roomId = await createRoom(admin, []);
  const url = "https://hooks.example.com/";
  const { id: webhookId } = ok(
    await admin.post("/v1/collaboration/webhooks", { url, roomIds: [roomId], enabled: false }),
  );
  const { id: commandId } = ok(await admin.post(COMMANDS, { ...COMMAND, roomId, name: "status", url }));
  return { admin, context: { roomId, webhookId, commandId } };
}

function manifest(endpoint: string): object {
  return {
    id: "org.example.polls",
    name: "Polls",
    version: "1.0.0",
    apiVersion: 1,
    transport: "http",
    endpoint,
    scopes: ["message.write"],
  };
}
