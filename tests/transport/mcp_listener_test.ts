// Listening to resources: what ends it, and how much of it one person may have.
import assert from "node:assert/strict";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { createCallers, createRoom, ok, sendMessage } from "../modules/fixtures.ts";
import { until } from "../wait.ts";
import { ACCEPT } from "./mcp_fixture.ts";

const REVISION = "2026-07-28";
const PREFIX = "io.modelcontextprotocol";

/** An open request that listens: all it has received, and whether it has ended. */
type Listening = { status: number; text: () => string; hasEnded: () => boolean; cancel: () => Promise<void> };

async function listen(gateway: Harness, caller: Caller, uris: unknown): Promise<Listening> {
  const message = {
    jsonrpc: "2.0",
    id: 1,
    method: "subscriptions/listen",
    params: {
      notifications: { resourceSubscriptions: uris, toolsListChanged: true },
      _meta: {
        [`${PREFIX}/protocolVersion`]: REVISION,
        [`${PREFIX}/clientInfo`]: { name: "test", version: "1" },
        [`${PREFIX}/clientCapabilities`]: {},
      },
    },
  };
  const response = await gateway.app.fetch(
    new Request("http://gateway.test/mcp", {
      method: "POST",
      headers: {
        ...ACCEPT,
        "content-type": "application/json",
        authorization: `Bearer ${caller.token}`,
        "mcp-protocol-version": REVISION,
        "mcp-method": "subscriptions/listen",
      },
      body: JSON.stringify(message),
    }),
    "127.0.0.1",
  );
  const reader = response.body?.getReader() ?? assert.fail("No body");
  let [text, hasEnded] = ["", false];
  const reading = (async () => {
    const decoder = new TextDecoder();
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += decoder.decode(part.value);
    hasEnded = true;
  })();
  return {
    status: response.status,
    text: () => text,
    hasEnded: () => hasEnded,
    async cancel() {
      await reader.cancel();
      await reading;
    },
  };
}

const updatesOf = (listening: Listening): number =>
  listening.text().split("notifications/resources/updated").length - 1;

Deno.test("only what the caller may read is acknowledged, whatever is asked for", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const [shared, hidden] = [await createRoom(alice, ["bob"]), await createRoom(alice, [])];
  const { id: document } = ok(await alice.post("/v1/collaboration/documents", { title: "Own", text: "x" }));
  const asked = [shared, hidden].map((id) => `gateway://room/${id}`);
  const listening = await listen(gateway, bob, [...asked, `gateway://document/${document}`, 7, null, "x", { a: 1 }]);
  await until(() => listening.text().includes("acknowledged"));
  assert.ok(listening.text().includes(shared));
  assert.ok(!listening.text().includes(hidden) && !listening.text().includes(document));
  await sendMessage(alice, hidden, "not for bob");
  ok(await alice.put(`/v1/collaboration/documents/${document}/content`, { text: "y", revision: 1 }));
  await sendMessage(alice, shared, "for bob");
  await until(() => updatesOf(listening) > 0);
  assert.equal(updatesOf(listening), 1);
  await listening.cancel();
  const none = await listen(gateway, bob, [`gateway://room/${hidden}`]);
  await until(none.hasEnded);
  assert.ok(!none.text().includes(hidden));
});

Deno.test("a document is listened to in its room, and as a private one", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const DOCUMENTS = "/v1/collaboration/documents";
  for (const place of [{ roomId }, {}]) {
    const { id } = ok(await alice.post(DOCUMENTS, { title: "Plan", text: "x", ...place }));
    if (!("roomId" in place)) ok(await alice.put(`${DOCUMENTS}/${id}/access/bob`, { role: "reader" }));
    const listening = await listen(gateway, bob, [`gateway://document/${id}`]);
    await until(() => listening.text().includes("acknowledged"));
    await sendMessage(alice, roomId, "not of the document");
    ok(await alice.patch(`${DOCUMENTS}/${id}`, { title: "Plan 2" }));
    await until(() => updatesOf(listening) > 0);
    assert.equal(updatesOf(listening), 1);
    if (!("roomId" in place)) {
      ok(await alice.delete(`${DOCUMENTS}/${id}/access/bob`));
      await until(listening.hasEnded);
      assert.equal(updatesOf(listening), 1);
    } else {
      ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
      await until(listening.hasEnded);
      assert.equal(updatesOf(listening), 1);
      ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, {}));
    }
  }
});

Deno.test("listening ends with the membership, the token, the principal, and its time", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const boss = await gateway.as("boss", { role: "owner" });
  const roomId = await createRoom(alice, ["bob"]);
  const uris = [`gateway://room/${roomId}`];
  const scopes = ["room.read", "message.read"];
  const created = ok(await bob.post("/v1/collaboration/tokens", { name: "desk", scopes }));
  const withToken = await listen(gateway, gateway.withToken(created.token), uris);
  const withJwt = await listen(gateway, bob, uris);
  ok(await bob.delete(`/v1/collaboration/tokens/${created.id}`));
  await until(withToken.hasEnded);
  assert.ok(!withJwt.hasEnded());

  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  await until(withJwt.hasEnded);
  assert.equal(updatesOf(withJwt), 0);

  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, {}));
  const again = await listen(gateway, bob, uris);
  ok(await boss.patch("/v1/collaboration/principals/bob", { disabled: true }));
  await until(again.hasEnded);

  const owner = await listen(gateway, alice, uris);
  gateway.clock.advance(3600_000);
  await sendMessage(await gateway.as("alice"), roomId, "after the token expired");
  await until(owner.hasEnded);
  assert.equal(updatesOf(owner), 0);
});

Deno.test("many changes are few notifications", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const listening = await listen(gateway, alice, [`gateway://room/${roomId}`]);
  await until(() => listening.text().includes("acknowledged"));
  await Promise.all(Array.from({ length: 40 }, (_, n) => sendMessage(alice, roomId, `${n}`)));
  await until(() => updatesOf(listening) > 0);
  assert.ok(updatesOf(listening) < 40);
  await listening.cancel();
});

Deno.test("a person and its agents share a number of listeners, which is free again when one ends", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const agent = await gateway.as("helper", { kind: "agent", owner: "alice" });
  const roomId = await createRoom(alice, ["bob"]);
  ok(await agent.get("/v1/collaboration/me"));
  ok(await alice.put(`/v1/rooms/${roomId}/members/helper`, {}));
  const uris = [`gateway://room/${roomId}`];
  const open = await Promise.all(Array.from({ length: 10 }, (_, n) => listen(gateway, n % 2 ? agent : alice, uris)));
  assert.ok(open.every(({ status }) => status === 200));
  const over = await listen(gateway, agent, uris);
  assert.equal(over.status, 409);
  const other = await listen(gateway, bob, uris);
  assert.equal(other.status, 200);
  await open[0]?.cancel();
  const next = await listen(gateway, agent, uris);
  assert.equal(next.status, 200);
  for (const one of [...open.slice(1), next, other]) await one.cancel();
});

Deno.test("listening ends when the gateway drains", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const listening = await listen(gateway, alice, [`gateway://room/${roomId}`]);
  await until(() => listening.text().includes("acknowledged"));
  await gateway.app.drain();
  await until(listening.hasEnded);
});
