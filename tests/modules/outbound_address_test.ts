// Every address that a caller can have the gateway call: private ones are refused, however they are written, when they are given
// and again when they are called.
import assert from "node:assert/strict";
import { isReadOnly, type Operation } from "@/core/operation.ts";
import { z } from "@zod/zod";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { callOperation, exampleOf } from "../operation_request.ts";
import { createRoom, ok } from "./fixtures.ts";

/** Operations whose input has an address that is called, and how it is given. */
const CALLED: Readonly<Record<string, (url: string, context: { roomId: string; webhookId: string }) => object>> = {
  "provider.put": (baseUrl) => ({ baseUrl }),
  "mcp_server.put": (url) => ({ url }),
  "plugin.install": (endpoint) => ({ manifest: manifest(endpoint) }),
  "plugin.update": (endpoint) => ({ manifest: manifest(endpoint) }),
  "slash_command.create": (url, { roomId }) => ({ url, roomId }),
  "webhook.create": (url, { roomId }) => ({ url, roomIds: [roomId] }),
  "webhook.update": (url, { webhookId }) => ({ id: webhookId, url }),
};
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
];

Deno.test("every operation that takes an address to call is known here", async () => {
  await using gateway = await openGateway();
  const withAddress = [...gateway.app.operations.values()].filter((operation) => !isReadOnly(operation))
    .filter((operation) => JSON.stringify(inputOf(operation)).includes('"format":"uri"')).map(({ name }) => name);
  const missing = withAddress.filter((name) => CALLED[name] === undefined && !STORED_ONLY.has(name));
  assert.deepEqual(missing, []);
});

/** Operations whose addresses are shown to people, and never called. */
const STORED_ONLY: ReadonlySet<string> = new Set([
  // Links of message elements.
  "message.send",
  "message.update",
  "interaction.respond",
  "plugin.respond",
]);

Deno.test("private addresses are refused where they are given, however they are written", async (t) => {
  await using gateway = await openGateway();
  const { admin, context } = await openCaller(gateway);
  for (const [name, inputWith] of Object.entries(CALLED)) {
    const operation = gateway.app.operations.get(name);
    if (operation === undefined) continue;
    await t.step(name, async () => {
      for (const url of PRIVATE) {
        const input = { ...exampleOf(operation), ...inputWith(url, context) };
        const answer = await callOperation(admin, operation, input);
        assert.ok([404, 422].includes(answer.status), `${url} ${answer.status} ${JSON.stringify(answer.body)}`);
        assert.ok(
          ["address_not_allowed", "validation_failed", "not_found"].includes(answer.body.code),
          `${url} ${answer.body.code}`,
        );
      }
    });
  }
});

Deno.test("a name with a private address is refused when it is called", async () => {
  await using gateway = await openGateway();
  let hits = 0;
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response(`${++hits}`));
  // It is the name of no address until it is resolved.
  const url = `https://localhost:${server.addr.port}/`;
  const { admin, context } = await openCaller(gateway);
  const { id } = ok(await admin.post("/v1/collaboration/webhooks", { url, roomIds: [context.roomId] }));
  const test = ok(await admin.post(`/v1/collaboration/webhooks/${id}/test`));
  assert.deepEqual([test.outcome, test.error], ["unavailable", "address_not_allowed"]);
  const [put, check] = ["mcp_server.put", "mcp_server.test"].map((name) => gateway.app.operations.get(name));
  assert.ok(put !== undefined && check !== undefined);
  ok(await callOperation(admin, put, { ...exampleOf(put), id: "local", url }));
  await callOperation(admin, check, { id: "local" });
  assert.equal(hits, 0);
});

async function openCaller(
  gateway: Harness,
): Promise<{ admin: Caller; context: { roomId: string; webhookId: string } }> {
  const admin = await gateway.as("admin", { role: "owner" });
  const roomId = await createRoom(admin, []);
  const body = { url: "https://hooks.example.com/", roomIds: [roomId], enabled: false };
  const { id: webhookId } = ok(await admin.post("/v1/collaboration/webhooks", body));
  return { admin, context: { roomId, webhookId } };
}

function inputOf({ input }: Operation): unknown {
  return z.toJSONSchema(input, { io: "input", unrepresentable: "any" });
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
