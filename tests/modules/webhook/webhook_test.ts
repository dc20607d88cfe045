// Webhooks: who may have one, what is delivered, in which order, and what the endpoint's responses mean.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { until } from "../../wait.ts";
import { slowTest } from "../../tier.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import {
  createWebhook,
  Endpoint,
  failFirst,
  openWithEndpoints,
  untilPaused,
  untilRunsEnded,
  untilWebhook,
  verify,
  WEBHOOKS,
} from "./webhook_fixture.ts";

testOnEngines("webhook.create delivers what happens from then on, signed, in order", async (settings) => {
  await using gateway = await openWithEndpoints(settings);
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  await sendMessage(alice, roomId, "before");
  const { secret, ...webhook } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.*"] });
  assert.match(secret, /^whsec_/);
  assert.deepEqual(ok(await alice.get(`${WEBHOOKS}/${webhook.id}`)), webhook);
  for (const text of ["one", "two", "three"]) await sendMessage(alice, roomId, text);
  ok(await alice.patch(`/v1/rooms/${roomId}`, { topic: "not a message" }));
  await sendMessage(alice, roomId, "four");
  await until(() => endpoint.accepted.length === 4);
  assert.deepEqual(endpoint.texts, ["one", "two", "three", "four"]);
  for (const received of endpoint.accepted) {
    verify(secret, received, gateway.clock.now());
    assert.equal(received.body.roomId, roomId);
    assert.equal(received.body.stream, `room:${roomId}`);
    assert.equal(received.body.tenantId, "default");
    assert.equal(received.body.actor.id, "alice");
  }
  assert.equal(new Set(endpoint.accepted.map(({ id }) => id)).size, 4);
  // The last one is recorded after the endpoint has answered.
  const recorded = async () => ok(await alice.get(`${WEBHOOKS}/${webhook.id}/deliveries`)).items;
  await until(async () => (await recorded()).length === 4);
  assert.deepEqual(
    (await recorded()).map(({ outcome, httpStatus }: { outcome: string; httpStatus: number }) => [outcome, httpStatus]),
    [
      ["delivered", 204],
      ["delivered", 204],
      ["delivered", 204],
      ["delivered", 204],
    ],
  );
});

testOnEngines(
  "an endpoint that is ill gets everything later, in order; waits grow, and end with a delivery",
  async (settings) => {
    await using gateway = await openWithEndpoints(settings);
    await using endpoint = new Endpoint();
    const { alice, roomId, id, first } = await failFirst(gateway, endpoint);
    assert.equal(first.lastError, "http_503");
    const firstWait = Date.parse(first.nextAttemptAt) - gateway.clock.now();
    assert.ok(firstWait >= 4000 && firstWait <= 6000, `${firstWait}`);
    const nextOf = async () =>
      ok(await alice.get(`${WEBHOOKS}/${id}/deliveries`)).items.map((item: { nextAttemptAt: string }) =>
        item.nextAttemptAt
      );
    assert.deepEqual(await nextOf(), [first.nextAttemptAt]);
    await sendMessage(alice, roomId, "two");
    gateway.clock.advance(firstWait);
    const second = await untilWebhook(alice, id, ({ nextAttemptAt }) => nextAttemptAt !== first.nextAttemptAt);
    assert.equal(second.failingSince, first.failingSince);
    assert.deepEqual(await nextOf(), [second.nextAttemptAt, first.nextAttemptAt]);
    assert.ok(Date.parse(second.nextAttemptAt) - gateway.clock.now() >= 24_000);
    assert.deepEqual(endpoint.requests.map(({ body }) => body.data.message.text), ["one", "one"]);
    assert.equal(new Set(endpoint.requests.map((request) => request.id)).size, 1);
    endpoint.answer = () => new Response(null, { status: 200 });
    gateway.clock.advance(MINUTE_MS);
    await until(() => endpoint.texts.length === 2);
    assert.deepEqual(endpoint.texts, ["one", "two"]);
    await untilWebhook(alice, id, ({ state, failingSince }) => state === "active" && failingSince === null);
  },
);

testOnEngines("a clock set back holds up no webhook whose endpoint is ill, nor shortens its wait", async (settings) => {
  await using gateway = await openWithEndpoints(settings);
  await using early = new Endpoint();
  await using late = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const [asked, roomId] = [await createRoom(alice, []), await createRoom(alice, [])];
  const events = ["message.created"];
  const { id: earlyId } = await createWebhook(alice, early.url, { roomIds: [asked], events });
  const { id: lateId } = await createWebhook(alice, late.url, { roomIds: [roomId], events });
  early.answer = () => new Response(null, { status: 503, headers: { "retry-after": "7200" } });
  late.answer = () => new Response(null, { status: 503 });
  await sendMessage(alice, asked, "one");
  await sendMessage(alice, roomId, "one");
  await untilWebhook(alice, earlyId, ({ state }) => state === "retrying");
  const first = await untilWebhook(alice, lateId, ({ state }) => state === "retrying");
  gateway.clock.advance(MINUTE_MS);
  const before = await untilWebhook(alice, lateId, ({ nextAttemptAt }) => nextAttemptAt !== first.nextAttemptAt);
  // Behind the attempt of one, not behind that of the other, which waits for as long as its endpoint has asked for.
  gateway.clock.advance(-MINUTE_MS / 2);
  await until(() => late.requests.length === 3);
  const isReleased = ({ nextAttemptAt }: { nextAttemptAt: string }) => Date.parse(nextAttemptAt) > gateway.clock.now();
  assert.notEqual((await untilWebhook(alice, lateId, isReleased)).nextAttemptAt, before.nextAttemptAt);
  assert.deepEqual([early.requests.length, late.requests.length], [1, 3]);
  gateway.clock.advance(-DAY_MS);
  for (const endpoint of [early, late]) endpoint.answer = () => new Response();
  const yesterday = await gateway.as("alice");
  await sendMessage(yesterday, asked, "two");
  await sendMessage(yesterday, roomId, "two");
  await until(() => early.texts.length === 2 && late.texts.length === 2);
  assert.deepEqual([early.texts, late.texts], [["one", "two"], ["one", "two"]]);
});

testOnEngines(
  "a clock that was ahead for less than a second holds up no webhook whose endpoint is ill",
  async (settings) => {
    await using gateway = await openWithEndpoints(settings);
    await using endpoint = new Endpoint();
    const { alice, roomId, id, first } = await failFirst(gateway, endpoint);
    gateway.clock.advance(MINUTE_MS);
    // Tried again because of it, before the look that happens once a second.
    await sendMessage(alice, roomId, "two");
    await untilWebhook(alice, id, ({ nextAttemptAt }) => nextAttemptAt !== first.nextAttemptAt);
    gateway.clock.advance(-MINUTE_MS / 2);
    await until(() => endpoint.requests.length === 3);
  },
);

Deno.test("a clock that was ahead while an earlier step back was dealt with holds up no webhook", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice, roomId } = await failFirst(gateway, endpoint);
  await gateway.runJobs();
  const { store } = gateway.app;
  const write = store.write;
  const [written, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  store.write = async (work) => {
    store.write = write;
    const result = await write.call(store, work);
    written.resolve();
    await held.promise;
    return result as never;
  };
  try {
    gateway.clock.advance(-2000);
    await written.promise;
    gateway.clock.advance(MINUTE_MS);
    await sendMessage(alice, roomId, "two");
    await until(() => endpoint.requests.length === 2);
    await untilRunsEnded(gateway);
    gateway.clock.advance(-MINUTE_MS / 2);
  } finally {
    held.resolve();
  }
  await until(() => endpoint.requests.length === 3);
});

testOnEngines(
  "a clock set back holds up no webhook that was left alone, or was leased, before a start",
  async (engine) => {
    await using folder = await createTemporaryFolder();
    const settings = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`, ...engine };
    await using endpoint = new Endpoint();
    {
      await using gateway = await openWithEndpoints(settings);
      const { alice } = await createCallers(gateway, "alice");
      const roomId = await createRoom(alice, []);
      await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
      const ahead = new Date(gateway.clock.now() + DAY_MS).toISOString();
      await gateway.app.store.write(async (tx) => {
        await sql`update webhook set lease_owner = 'gone', lease_until = ${ahead}`.execute(tx.db);
        await sql`update webhook_cursor set paused_until = ${ahead}`.execute(tx.db);
      });
      await sendMessage(alice, roomId, "one");
    }
    await using gateway = await openWithEndpoints(settings);
    // Until the first look has seen them.
    await until(async () => {
      const { rows } = await sql`select stream from webhook_cursor where paused_until > ${
        new Date(gateway.clock.now() + MINUTE_MS).toISOString()
      }`.execute(gateway.app.store.db);
      return rows.length === 0;
    });
    gateway.clock.advance(MINUTE_MS);
    await until(() => endpoint.texts.length === 1);
  },
);

Deno.test("an endpoint that asks for time gets it", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId] });
  endpoint.answer = () => new Response(null, { status: 429, headers: { "retry-after": "600" } });
  await sendMessage(alice, roomId, "one");
  const waiting = await untilWebhook(alice, id, ({ state }) => state === "retrying");
  assert.equal(Date.parse(waiting.nextAttemptAt) - gateway.clock.now(), 600_000);
});

testOnEngines(
  "a refused event is tried three times and parked, the next is delivered; it can be replayed",
  async (settings) => {
    await using gateway = await openWithEndpoints(settings);
    await using endpoint = new Endpoint();
    const { alice } = await createCallers(gateway, "alice");
    const roomId = await createRoom(alice, []);
    const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
    const isBad = (text: string): boolean => text === "bad";
    endpoint.answer = ({ body }) => new Response(null, { status: isBad(body.data.message.text) ? 422 : 200 });
    for (const text of ["good", "bad", "better"]) await sendMessage(alice, roomId, text);
    await until(() => endpoint.texts.length === 2);
    assert.deepEqual(endpoint.texts, ["good", "better"]);
    assert.deepEqual(endpoint.requests.map(({ body }) => body.data.message.text), [
      "good",
      "bad",
      "bad",
      "bad",
      "better",
    ]);
    const webhook = await untilWebhook(alice, id, ({ parkedCount }) => parkedCount === 1);
    assert.equal(webhook.state, "active");
    const { items: [parked] } = ok(await alice.get(`${WEBHOOKS}/${id}/parked`));
    assert.deepEqual([parked.state, parked.httpStatus, parked.type], ["parked", 422, "message.created"]);
    const { items: attempts } = ok(await alice.get(`${WEBHOOKS}/${id}/deliveries?outcome=parked`));
    assert.deepEqual(attempts.map(({ attempt }: { attempt: number }) => attempt), [3]);
    // Still refused: parked again.
    assert.equal(ok(await alice.post(`${WEBHOOKS}/${id}/parked/replay`, { ids: [parked.id] })).waitingCount, 1);
    await until(() => endpoint.requests.length === 6);
    await until(async () => ok(await alice.get(`${WEBHOOKS}/${id}/parked`)).items[0].state === "parked");
    endpoint.answer = () => new Response(null, { status: 200 });
    assert.equal(ok(await alice.post(`${WEBHOOKS}/${id}/parked/replay`)).waitingCount, 1);
    await untilWebhook(alice, id, ({ parkedCount }) => parkedCount === 0);
    assert.deepEqual(endpoint.texts, ["good", "better", "bad"]);
    const ids = endpoint.requests.filter(({ body }) => isBad(body.data.message.text)).map((request) => request.id);
    assert.equal(new Set(ids).size, 1);
  },
);

Deno.test("the event of any attempt can be delivered again", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
  await sendMessage(alice, roomId, "one");
  await until(async () => ok(await alice.get(`${WEBHOOKS}/${id}/deliveries`)).items.length === 1);
  const { items: [delivery] } = ok(await alice.get(`${WEBHOOKS}/${id}/deliveries`));
  ok(await alice.post(`${WEBHOOKS}/${id}/deliveries/${delivery.id}/replay`));
  await until(() => endpoint.accepted.length === 2);
  assert.deepEqual(new Set(endpoint.accepted.map((request) => request.id)), new Set([delivery.eventId]));
  assertProblem(await alice.post(`${WEBHOOKS}/${id}/deliveries/other/replay`), 404, "not_found");
});

Deno.test("what is deleted while an endpoint takes its time is not delivered with its text", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], enabled: false });
  for (const text of ["one", "two", "three"]) await sendMessage(alice, roomId, text);
  const secret = await sendMessage(alice, roomId, "secret");
  endpoint.answer = async ({ body }) => {
    if (body.data.message?.text === "one") {
      assert.equal((await alice.delete(`/v1/messages/${secret.id}`)).status, 204);
      gateway.clock.advance(2000);
    }
    return new Response(null, { status: 204 });
  };
  ok(await alice.patch(`${WEBHOOKS}/${id}`, { enabled: true }));
  await until(() => endpoint.types.includes("message.deleted"));
  assert.deepEqual(endpoint.texts, ["one", "two", "three", null]);
});

Deno.test("webhook_cursor.put repeats what a run has delivered and not yet stored", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
  const answers = [Promise.withResolvers<Response>(), Promise.withResolvers<Response>()];
  endpoint.answer = () => answers[endpoint.requests.length - 1]?.promise ?? new Response(null, { status: 204 });
  const { seq } = await sendMessage(alice, roomId, "one");
  await until(() => endpoint.requests.length === 1);
  // Where the position is stored, since the run has not ended.
  ok(await alice.put(`${WEBHOOKS}/${id}/cursor`, { stream: `room:${roomId}`, seq: seq - 1 }));
  for (const { resolve } of answers) resolve(new Response(null, { status: 204 }));
  await until(() => endpoint.accepted.length === 2);
  assert.deepEqual(endpoint.texts, ["one", "one"]);
});

testOnEngines(
  "what is sent to an address that a webhook no longer has is delivered to the new one",
  async (settings) => {
    await using gateway = await openWithEndpoints(settings);
    await using former = new Endpoint();
    await using current = new Endpoint();
    const { alice } = await createCallers(gateway, "alice");
    const roomId = await createRoom(alice, []);
    const { id } = await createWebhook(alice, former.url, { roomIds: [roomId] });
    const { promise: isChanged, resolve } = Promise.withResolvers<void>();
    former.answer = async () => (await isChanged, new Response(null, { status: 204 }));
    await sendMessage(alice, roomId, "one");
    await until(() => former.requests.length === 1, "it takes its time");
    ok(await alice.patch(`${WEBHOOKS}/${id}`, { url: current.url }));
    resolve();
    await sendMessage(alice, roomId, "two");
    await until(() => current.texts.includes("two"), "the next is for the new address");
    assert.deepEqual([former.texts, current.texts], [["one"], ["one", "two"]]);
  },
);

Deno.test("webhook_cursor.put repeats events with the same ids, or leaves some out", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
  const messages = [];
  for (const text of ["one", "two"]) messages.push(await sendMessage(alice, roomId, text));
  await until(() => endpoint.accepted.length === 2);
  const put = (seq: number, stream = `room:${roomId}`) => alice.put(`${WEBHOOKS}/${id}/cursor`, { stream, seq });
  assert.equal(ok(await put(messages[0].seq - 1)).seq, messages[0].seq - 1);
  await until(() => endpoint.accepted.length === 4);
  assert.deepEqual(endpoint.texts, ["one", "two", "one", "two"]);
  assert.equal(new Set(endpoint.accepted.map((request) => request.id)).size, 2);
  // One that is not over yet may deliver what comes next.
  await untilRunsEnded(gateway);
  ok(await alice.patch(`${WEBHOOKS}/${id}`, { enabled: false }));
  const skipped = await sendMessage(alice, roomId, "skipped");
  await sendMessage(alice, roomId, "three");
  ok(await put(skipped.seq));
  ok(await alice.patch(`${WEBHOOKS}/${id}`, { enabled: true }));
  await until(() => endpoint.accepted.length === 5);
  assert.equal(endpoint.texts.at(-1), "three");
  assertProblem(await put(10_000), 422, "validation_failed");
  const missing = await put(0, "room:other");
  assertProblem(missing, 404, "not_found");
  // A creator who has left the room learns no position of it.
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "owner" }));
  ok(await bob.delete(`/v1/rooms/${roomId}/members/alice`));
  assert.equal((await put(10_000)).body.detail, missing.body.detail);
});

testOnEngines("a trimmed log is announced, never skipped in silence", async (settings) => {
  await using gateway = await openWithEndpoints(settings);
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, {
    roomIds: [roomId],
    enabled: false,
    events: ["message.created"],
  });
  const before = (await gateway.app.store.log.position("default", `room:${roomId}`)).head;
  const sent = [];
  for (const text of ["one", "two", "three"]) sent.push(await sendMessage(alice, roomId, text));
  await gateway.app.store.log.trimStream("default", `room:${roomId}`, Infinity, sent[1].seq);
  ok(await alice.patch(`${WEBHOOKS}/${id}`, { enabled: true }));
  await until(() => endpoint.accepted.length === 2);
  const [gap, event] = endpoint.accepted;
  assert.equal(gap?.body.type, "webhook.gap");
  assert.deepEqual(gap?.body.data, { after: before, floor: sent[1].seq });
  assert.equal(event?.body.data.message.text, "three");
});

Deno.test("410 disables a webhook, and its creator is notified", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], description: "To the archive" });
  endpoint.answer = () => new Response(null, { status: 410 });
  await sendMessage(alice, roomId, "one");
  const webhook = await untilWebhook(alice, id, ({ state }) => state === "disabled");
  assert.deepEqual([webhook.enabled, webhook.disabledReason], [false, "gone"]);
  const { items: [notification] } = ok(await alice.get("/v1/collaboration/notifications"));
  assert.deepEqual([notification.kind, notification.data], ["webhook_disabled", { reason: "gone" }]);
  // Enabled again, it continues where it was.
  endpoint.answer = () => new Response(null, { status: 200 });
  ok(await alice.patch(`${WEBHOOKS}/${id}`, { enabled: true }));
  await until(() => endpoint.texts.length === 1);
});

slowTest("a webhook whose endpoint fails for five days is disabled", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId] });
  endpoint.answer = () => new Response(null, { status: 500 });
  await sendMessage(alice, roomId, "one");
  let before = await untilWebhook(alice, id, ({ state }) => state === "retrying");
  for (const step of [DAY_MS, 2 * DAY_MS]) {
    gateway.clock.advance(step);
    const alice = await gateway.as("alice");
    const { nextAttemptAt } = before;
    before = await untilWebhook(alice, id, (now) => now.nextAttemptAt !== nextAttemptAt);
    assert.equal(before.state, "retrying");
  }
  gateway.clock.advance(2 * DAY_MS);
  const disabled = await untilWebhook(await gateway.as("alice"), id, ({ state }) => state === "disabled");
  assert.equal(disabled.disabledReason, "failing");
});

testOnEngines("a creator who leaves the room ends its delivery; hidden history is not delivered", async (settings) => {
  await using gateway = await openWithEndpoints(settings);
  await using endpoint = new Endpoint();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"], { historyVisibility: "joined" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "moderator" }));
  const { id } = await createWebhook(bob, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
  await sendMessage(alice, roomId, "one");
  await until(() => endpoint.texts.length === 1);
  // Waiting events are not delivered either.
  endpoint.answer = () => new Response(null, { status: 503 });
  await sendMessage(alice, roomId, "two");
  await untilWebhook(bob, id, ({ state }) => state === "retrying");
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  endpoint.answer = () => new Response(null, { status: 200 });
  gateway.clock.advance(HOUR_MS / 2);
  await sendMessage(alice, roomId, "three");
  await untilPaused(gateway);
  // With a right again, only what happens from then on.
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "member" }));
  await sendMessage(alice, roomId, "four");
  gateway.clock.advance(2 * MINUTE_MS);
  await until(() => endpoint.texts.length === 2);
  assert.deepEqual(endpoint.texts, ["one", "four"]);
  ok(await alice.patch("/v1/collaboration/me", { displayName: "Alice" }));
});

Deno.test("a disabled creator, or a token without the scope, receives nothing", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const admin = await gateway.as("admin", { role: "admin" });
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const scope = "webhook.manage webhook.read room.read message.read";
  const limited = await gateway.as("alice", { scope });
  await createWebhook(limited, endpoint.url, { roomIds: [roomId] });
  ok(await alice.post("/v1/collaboration/tasks", { roomId, title: "Secret task" }));
  await sendMessage(alice, roomId, "one");
  await until(() => endpoint.texts.length === 1);
  assert.deepEqual(endpoint.types.filter((type) => type.startsWith("task.")), []);
  const { bob } = await createCallers(gateway, "bob");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "member" }));
  await until(() => endpoint.types.includes("member.joined"));
  ok(await admin.patch("/v1/collaboration/principals/alice", { disabled: true }));
  await sendMessage(bob, roomId, "two");
  await untilPaused(gateway);
  await until(async () => {
    const text = await (await gateway.app.fetch(new Request("http://gateway.test/metrics"), "127.0.0.1")).text();
    return text.includes("svc_webhook_lag_seconds 0");
  });
  assert.deepEqual(endpoint.texts, ["one"]);
});

Deno.test("a webhook of all rooms is for admins, and follows rooms that its creator joins", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const admin = await gateway.as("admin", { role: "admin" });
  assertProblem(await alice.post(WEBHOOKS, { url: endpoint.url }), 403, "forbidden");
  const roomId = await createRoom(admin, []);
  await createWebhook(admin, endpoint.url, { events: ["message.created"] });
  const later = await createRoom(alice, ["admin"]);
  const foreign = await createRoom(alice, []);
  for (const [who, room] of [[admin, roomId], [alice, later], [alice, foreign]] as const) {
    await sendMessage(who, room, room);
  }
  await until(() => endpoint.texts.length === 2);
  assert.deepEqual(endpoint.texts.toSorted(), [roomId, later].toSorted());
  const joined = await createRoom(alice, []);
  await sendMessage(alice, joined, "before");
  ok(await alice.put(`/v1/rooms/${joined}/members/admin`, {}));
  await sendMessage(alice, joined, "after");
  await until(() => endpoint.texts.length === 3);
  assert.equal(endpoint.texts.at(-1), "after");
});

Deno.test("rooms are named by moderators, limits hold, addresses are checked", async () => {
  await using gateway = await openWithEndpoints();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const url = "https://hooks.example.com/";
  assertProblem(await bob.post(WEBHOOKS, { url, roomIds: [roomId] }), 403, "forbidden");
  const foreign = await createRoom(alice, []);
  assertProblem(await bob.post(WEBHOOKS, { url, roomIds: [foreign] }), 404, "not_found");
  for (
    const bad of ["http://example.com/", "https://10.0.0.1/", "https://[::1]/", "https://167772161/", "ftp://x.test/"]
  ) {
    assertProblem(await alice.post(WEBHOOKS, { url: bad, roomIds: [roomId] }), 422, "address_not_allowed");
  }
  assertProblem(
    await alice.post(WEBHOOKS, { url, roomIds: [roomId], events: ["nothing.known"] }),
    422,
    "validation_failed",
  );
  for (const [pattern, hint] of [["mesage.*", "message.*"], ["task.complete", "task.completed"]]) {
    const { body } = await alice.post(WEBHOOKS, { url, roomIds: [roomId], events: [pattern] });
    assert.equal(body.detail, `/events/0: no event of rooms has this type; did you mean ${hint}?`);
  }
  for (let n = 0; n < 5; n++) await createWebhook(alice, url, { roomIds: [roomId] });
  assertProblem(await alice.post(WEBHOOKS, { url, roomIds: [roomId] }), 409, "limit_reached");
  // Those of one moderator leave some for the others.
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "moderator" }));
  await createWebhook(bob, url, { roomIds: [roomId] });
  for (let n = 5; n < 20; n++) {
    await createWebhook(alice, url, { roomIds: [await createRoom(alice, [])] });
  }
  assertProblem(await alice.post(WEBHOOKS, { url, roomIds: [await createRoom(alice, [])] }), 409, "limit_reached");
});

Deno.test("an admin lists and disables the webhooks of others, but reads and redirects nothing", async () => {
  await using gateway = await openWithEndpoints();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const admin = await gateway.as("admin", { role: "admin" });
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, "https://hooks.example.com/", { roomIds: [roomId] });
  assert.deepEqual(ok(await admin.get(WEBHOOKS)).items.map((item: { roomIds: unknown }) => item.roomIds), [[]]);
  assert.deepEqual(ok(await bob.get(WEBHOOKS)).items, []);
  assertProblem(await bob.get(`${WEBHOOKS}/${id}`), 404, "not_found");
  for (
    const refused of [
      admin.patch(`${WEBHOOKS}/${id}`, { url: "https://elsewhere.example.com/" }),
      admin.post(`${WEBHOOKS}/${id}/rotate`),
      admin.post(`${WEBHOOKS}/${id}/test`),
      admin.get(`${WEBHOOKS}/${id}/deliveries`),
      admin.get(`${WEBHOOKS}/${id}/parked`),
      admin.patch(`${WEBHOOKS}/${id}`, { enabled: true }),
    ]
  ) assertProblem(await refused, 403, "forbidden");
  assert.equal(ok(await admin.patch(`${WEBHOOKS}/${id}`, { enabled: false })).disabledReason, "requested");
  assert.equal((await admin.delete(`${WEBHOOKS}/${id}`)).status, 204);
  assertProblem(await alice.get(`${WEBHOOKS}/${id}`), 404, "not_found");
});

Deno.test("webhook.rotate signs with both secrets for a day; webhook.test says what the endpoint answered", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id, secret } = await createWebhook(alice, endpoint.url, { roomIds: [roomId] });
  // Its response is lost, so it is requested again.
  const lost = ok(await alice.post(`${WEBHOOKS}/${id}/rotate`));
  const rotated = ok(await alice.post(`${WEBHOOKS}/${id}/rotate`));
  assert.equal(new Set([secret, lost.secret, rotated.secret]).size, 3);
  const test = ok(await alice.post(`${WEBHOOKS}/${id}/test`));
  assert.deepEqual([test.outcome, test.httpStatus, test.error], ["delivered", 204, null]);
  const [first] = endpoint.requests;
  assert.ok(first !== undefined);
  assert.equal(first.body.type, "webhook.test");
  verify(secret, first, gateway.clock.now());
  verify(lost.secret, first, gateway.clock.now());
  verify(rotated.secret, first, gateway.clock.now());
  gateway.clock.advance(25 * HOUR_MS);
  ok(await (await gateway.as("alice")).post(`${WEBHOOKS}/${id}/test`));
  const second = endpoint.requests[1];
  assert.ok(second !== undefined);
  verify(rotated.secret, second, gateway.clock.now());
  assert.equal(second.headers.get("webhook-signature")?.split(" ").length, 1);
  endpoint.answer = () => new Response(null, { status: 302, headers: { location: "http://127.0.0.1/" } });
  const redirected = ok(await (await gateway.as("alice")).post(`${WEBHOOKS}/${id}/test`));
  assert.deepEqual([redirected.outcome, redirected.httpStatus], ["unavailable", 302]);
});

Deno.test("a long event is delivered with its ids only", async () => {
  await using gateway = await openWithEndpoints();
  await using endpoint = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
  const message = await sendMessage(alice, roomId, "\u{1F600}".repeat(15_900), {
    metadata: { note: "n".repeat(7000) },
  });
  await until(() => endpoint.accepted.length === 1);
  const body = endpoint.accepted[0]?.body;
  assert.equal(body.isThin, true);
  assert.equal(body.data.message.id, message.id);
  assert.equal(body.data.message.text, undefined);
});
