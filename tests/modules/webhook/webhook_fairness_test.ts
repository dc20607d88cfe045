// What one owner of webhooks leaves to the others of its tenant: calls at once, and how many webhooks there may be.
import assert from "node:assert/strict";
import { iso } from "@/core/time/clock.ts";
import { DeliveryStore } from "@/modules/webhook/delivery/store.ts";
import { WebhookStore } from "@/modules/webhook/store.ts";
import { newWebhookRow, type WebhookRow, type WebhookTables } from "@/modules/webhook/tables.ts";
import type { Store } from "@/ports/store.ts";
import { pause, until } from "../../wait.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { createWebhook, Endpoint, openWithEndpoints, WEBHOOKS } from "./webhook_fixture.ts";

const ROW: Parameters<typeof newWebhookRow>[0] = {
  tenant_id: "elsewhere",
  id: "",
  creator_id: "nobody",
  creator_role: "member",
  scopes: null,
  charged_id: "nobody",
  url: "https://hooks.example.com/",
  description: null,
  events_json: "[]",
  room_ids_json: null,
  is_enabled: 1,
  disabled_reason: null,
  secret_encrypted: "",
};

Deno.test("slow webhooks of one member leave calls for those of the others", async () => {
  await using gateway = await openWithEndpoints();
  await using slow = new Endpoint();
  await using quick = new Endpoint();
  const answered = Promise.withResolvers<void>();
  slow.answer = async () => {
    await answered.promise;
    return new Response();
  };
  let calledBefore = 0;
  quick.answer = () => {
    calledBefore = slow.requests.length;
    answered.resolve();
    return new Response();
  };
  try {
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
    const events = ["message.created"];
    const roomId = await createRoom(bob, []);
    await createWebhook(bob, quick.url, { roomIds: [roomId], events });
    // An agent's are its owner's. Each of them calls for eight rooms at once, as soon as it is enabled.
    for (const who of [alice, robo]) {
      const roomIds = await Promise.all(Array.from({ length: 8 }, () => createRoom(who, [])));
      const { id } = await createWebhook(who, slow.url, { roomIds, events, enabled: false });
      for (const room of roomIds) await sendMessage(who, room, "slow");
      ok(await who.patch(`${WEBHOOKS}/${id}`, { enabled: true }));
    }
    await until(() => slow.requests.length >= 8);
    await sendMessage(bob, roomId, "quick");
    await until(() => quick.accepted.length === 1);
    assert.equal(calledBefore, 8, "half of the calls of the tenant");
    await until(() => slow.accepted.length === 16);
  } finally {
    answered.resolve();
  }
});

Deno.test("what waited for its turn is not delivered to who lost the room meanwhile, nor with a text that was deleted", async () => {
  await using gateway = await openWithEndpoints();
  await using slow = new Endpoint();
  await using endpoint = new Endpoint();
  const answered = Promise.withResolvers<void>();
  slow.answer = async () => {
    await answered.promise;
    return new Response();
  };
  try {
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const events = ["message.created"];
    const roomIds = await Promise.all(Array.from({ length: 8 }, () => createRoom(alice, [])));
    const { id } = await createWebhook(alice, slow.url, { roomIds, events, enabled: false });
    for (const roomId of roomIds) await sendMessage(alice, roomId, "slow");
    ok(await alice.patch(`${WEBHOOKS}/${id}`, { enabled: true }));
    await until(() => slow.requests.length === 8);
    const [lost, left] = [await createRoom(bob, ["alice"]), await createRoom(bob, ["alice"])];
    for (const roomId of [lost, left]) {
      ok(await bob.put(`/v1/rooms/${roomId}/members/alice`, { role: "moderator" }));
      await createWebhook(alice, endpoint.url, { roomIds: [roomId], events });
    }
    await sendMessage(bob, lost, "of the past");
    const secret = await sendMessage(bob, left, "secret");
    const rows = (gateway.app.store as unknown as Store<WebhookTables>).db.selectFrom("webhook").selectAll();
    await until(async () => (await rows.execute()).every(({ lease_owner }) => lease_owner !== null));
    await pause(50);
    assert.equal((await bob.delete(`/v1/rooms/${lost}/members/alice`)).status, 204);
    assert.equal((await bob.delete(`/v1/messages/${secret.id}`)).status, 204);
    gateway.clock.advance(2000);
    answered.resolve();
    await sendMessage(bob, left, "last");
    await until(() => endpoint.texts.includes("last"));
    assert.deepEqual(endpoint.texts, [null, "last"]);
  } finally {
    answered.resolve();
  }
});

Deno.test("webhooks that are being tried leave their places to those whose wait is over", async () => {
  await using gateway = await openWithEndpoints();
  const store = gateway.app.store as unknown as Store<WebhookTables>;
  const at = (seconds: number) => iso(gateway.clock.now() + seconds * 1000);
  const tried = { next_attempt_at: at(-90), lease_owner: "node", lease_until: at(45) };
  // In one transaction: the gateway tries those that are due as soon as it sees them.
  const due = await store.write(async ({ db }) => {
    const add = (id: string, more: Partial<WebhookRow>) =>
      new WebhookStore(db).add({ ...newWebhookRow({ ...ROW, id }, at(0)), ...more });
    for (const id of ["a", "b", "c"]) await add(id, tried);
    await add("d", { next_attempt_at: at(-10) });
    await add("e", { next_attempt_at: at(-20) });
    await add("f", { next_attempt_at: at(-5) });
    await add("g", { ...tried, lease_until: at(-1) });
    await add("h", { next_attempt_at: at(1) });
    return await new DeliveryStore(db).due(at(0), 2);
  });
  assert.deepEqual(due.map(({ id }) => id), ["e", "d", "g"]);
});

Deno.test("the webhooks of one member and its agents leave some for the others", async () => {
  await using gateway = await openWithEndpoints();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
  const url = "https://hooks.example.com/";
  for (let n = 0; n < 20; n++) {
    const who = n % 2 === 0 ? alice : robo;
    await createWebhook(who, url, { roomIds: [await createRoom(who, [])] });
  }
  for (const who of [alice, robo]) {
    const refused = await who.post(WEBHOOKS, { url, roomIds: [await createRoom(who, [])] });
    assertProblem(refused, 409, "limit_reached");
    assert.match(refused.body.detail, /person with their agents .* 20 webhooks/);
  }
  await createWebhook(bob, url, { roomIds: [await createRoom(bob, [])] });
});
