// Threads, mentions, types of messages, scheduled messages and retries, through the API.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { sql } from "kysely";
import { HOUR_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { eventually } from "../../wait.ts";
import { recordQueries } from "../query_log.ts";
import {
  assertProblem,
  createCaller,
  createCallers,
  createRoom,
  ok,
  readRoomEvents,
  sendMessage,
} from "../fixtures.ts";

Deno.test("message.read returns a thread with correct counts after replies are deleted", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const root = await sendMessage(alice, roomId, "who is on call?");
  const replies = [];
  for (const text of ["me", "me too", "nobody"]) {
    gateway.clock.advance(1000);
    replies.push(await sendMessage(bob, roomId, text, { threadId: root.id }));
  }
  const read = ok(await alice.get(`/v1/messages/${root.id}?include=thread,history`));
  assert.equal(read.replyCount, 3);
  assert.equal(read.lastReplyAt, replies[2].createdAt);
  assert.deepEqual(read.thread.items.map((item: { text: string }) => item.text), ["me", "me too", "nobody"]);
  assert.deepEqual(read.history.map((item: { text: string }) => item.text), ["who is on call?"]);
  ok(await bob.delete(`/v1/messages/${replies[2].id}`));
  const after = ok(await alice.get(`/v1/messages/${replies[0].id}?include=thread`));
  assert.deepEqual(after.thread.items.map((item: { text: string | null }) => item.text), ["me", "me too", null]);
  const again = ok(await alice.get(`/v1/messages/${root.id}`));
  assert.deepEqual([again.replyCount, again.lastReplyAt], [2, replies[1].createdAt]);
  const told = (await readRoomEvents(alice, roomId, replies[2].seq)).map((
    { type, data },
  ) => [type, data.replyCount ?? null]);
  assert.deepEqual(told, [["message.deleted", null], ["thread.updated", 2]]);
  assertProblem(
    await bob.post("/v1/messages", { roomId, text: "x", threadId: replies[0].id }),
    422,
    "validation_failed",
  );
});

Deno.test("message.history pages through all versions, and message.read returns the newest of them", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const { id } = await sendMessage(alice, await createRoom(alice, []), "v1");
  for (let version = 2; version <= 60; version++) ok(await alice.patch(`/v1/messages/${id}`, { text: `v${version}` }));
  const all = Array.from({ length: 60 }, (_, n) => `v${n + 1}`);
  const texts = (items: { text: string }[]): string[] => items.map(({ text }) => text);
  for (const limit of [1, 29, 30, 59, 60]) {
    const found: string[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const query: string = `limit=${limit}${cursor === "" ? "" : `&cursor=${cursor}`}`;
      const { items, hasMore, nextCursor } = ok(await alice.get(`/v1/messages/${id}/history?${query}`));
      assert.equal(hasMore, nextCursor !== null);
      assert.ok(items.length <= limit && items.length > 0);
      found.push(...texts(items));
      cursor = nextCursor;
    }
    assert.deepEqual(found, all);
  }
  assert.deepEqual(texts(ok(await alice.get(`/v1/messages/${id}?include=history`)).history), all.slice(-50));
});

Deno.test("message.list names the second anchor in its fault, and filters the caller's messages by `me`", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await sendMessage(alice, roomId, "one");
  await sendMessage(bob, roomId, "two");
  const answer = await bob.get(`/v1/messages?roomId=${roomId}&before=3&around=2`);
  assert.deepEqual([answer.status, answer.body.errors[0].pointer], [422, "/around"]);
  const { items } = ok(await bob.get(`/v1/messages?roomId=${roomId}&senderId=me`));
  assert.deepEqual(items.map(({ text }: { text: string }) => text), ["two"]);
});

testOnEngines(
  "message.list reads a room for the messages of one type in steps, and those of one sender at once",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"]);
    for (const head of [100, 4990, 23_000]) {
      await gateway.app.store.write(({ db }) =>
        db.updateTable("stream").set({ head }).where("name", "=", `room:${roomId}`).execute()
      );
      await sendMessage(bob, roomId, `of bob at ${head}`);
      await sendMessage(alice, roomId, `of alice at ${head}`);
    }
    const all = [100, 4990, 23_000].map((head) => `of bob at ${head}`);
    for (
      const [query, expected, statementsMin] of [
        ["types=text&senderId=bob", all, 5],
        ["types=text&senderId=bob&limit=2", all.slice(1), 4],
        ["types=text&senderId=bob&after=1", all, 5],
        ["types=text&senderId=bob&after=1&limit=2", all.slice(0, 2), 1],
        ["types=text&senderId=bob&before=4000", all.slice(0, 1), 1],
        ["types=text&senderId=bob&around=5000", all, 5],
        ["types=system", [], 5],
        [`types=text&senderId=bob&before=${Number.MAX_SAFE_INTEGER}`, all, 5],
        ["senderId=bob", all, 0],
      ] as const
    ) {
      const path = `/v1/messages?roomId=${roomId}&${query}`;
      const statements = await recordQueries(async () => {
        assert.deepEqual(ok(await alice.get(path)).items.map(({ text }: { text: string }) => text), expected, query);
      });
      const pages = statements.filter(({ sql }) =>
        sql.startsWith(`select * from "message"`) && sql.includes(`"seq" > `)
      );
      const isSqlite = gateway.app.store.dialect === "sqlite";
      const isInSteps = isSqlite && statementsMin > 0;
      assert.ok(isInSteps ? pages.length >= statementsMin : pages.length <= 2, `${query}: ${pages.length}`);
      if (statementsMin === 0) {
        const explain = CompiledQuery.raw(`explain query plan ${pages[0]?.sql}`, [...pages[0]?.parameters ?? []]);
        const plan = isSqlite ? (await gateway.app.store.db.executeQuery(explain)).rows : [];
        assert.doesNotMatch(JSON.stringify(plan), /message_room_seq/, "no other messages are read");
        continue;
      }
      for (const { parameters } of pages) {
        const [from, to] = parameters.filter((value) => typeof value === "number").map(Number);
        assert.ok((to ?? NaN) - (from ?? NaN) <= (isSqlite ? 5001 : 50_001), `${query}: ${from} to ${to}`);
      }
    }
  },
);

Deno.test("message.send refuses mentions of unknown principals and of those that cannot see the room, by pointer", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob", "eve");
  await (await gateway.as("guest", { role: "guest" })).get("/v1/collaboration/me");
  const roomId = await createRoom(alice, ["bob"]);
  const mentions = { principalIds: ["bob", "eve", "nobody"] };
  const answer = await alice.post("/v1/messages", { roomId, text: "hi", mentions });
  assertProblem(answer, 422, "validation_failed");
  assert.deepEqual(answer.body.errors.map((error: { pointer: string }) => error.pointer), [
    "/mentions/principalIds/1",
    "/mentions/principalIds/2",
  ]);
  assert.deepEqual(ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items, []);
  const open = await createRoom(alice, [], { visibility: "public" });
  await sendMessage(alice, open, "anybody who may look in", { mentions: { principalIds: ["eve"] } });
  assertProblem(
    await alice.post("/v1/messages", { roomId: open, text: "hi", mentions: { principalIds: ["guest"] } }),
    422,
    "validation_failed",
  );
  const { id } = await sendMessage(alice, roomId, "edited later");
  assertProblem(
    await alice.patch(`/v1/messages/${id}`, { mentions: { principalIds: ["eve"] } }),
    422,
    "validation_failed",
  );
});

Deno.test("message.send accepts custom messages with metadata and counts them by type", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const poll = await sendMessage(alice, roomId, "Lunch?", {
    type: "custom",
    metadata: { poll: { options: ["yes", "no"] } },
  });
  assert.deepEqual([poll.type, poll.metadata], ["custom", { poll: { options: ["yes", "no"] } }]);
  await sendMessage(alice, roomId, "deployed", { type: "notice" });
  assertProblem(await alice.post("/v1/messages", { roomId, text: "x", type: "system" }), 422, "validation_failed");
  const { body: metrics } = await gateway.withToken(undefined).get("/metrics");
  assert.match(metrics, /svc_messages_by_type\{type="custom"\} 1/);
  assert.match(metrics, /svc_messages_by_type\{type="notice"\} 1/);
});

Deno.test("a message of white space alone is neither sent nor what another one becomes", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const roomId = await createRoom(alice, []);
  for (const text of ["", " ", "\n\t\u3000"]) {
    assertProblem(await alice.post("/v1/messages", { roomId, text }), 422, "validation_failed");
    const { id } = await sendMessage(alice, roomId, "x");
    assertProblem(await alice.patch(`/v1/messages/${id}`, { text }), 422, "validation_failed");
  }
});

Deno.test("50 concurrent retries of one clientMessageId create one message and one event", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { seq } = await sendMessage(bob, roomId, "before");
  const body = { roomId, text: "once", clientMessageId: "retry-1" };
  const answers = await Promise.all(Array.from({ length: 50 }, () => alice.post("/v1/messages", body)));
  assert.equal(answers.filter((answer) => answer.status === 201).length, 1);
  assert.equal(answers.filter((answer) => answer.status === 200).length, 49);
  assert.equal(new Set(answers.map((answer) => answer.body.id)).size, 1);
  const events = await readRoomEvents(bob, roomId, seq);
  assert.deepEqual(events.map((event) => [event.type, event.data.message.text]), [["message.created", "once"]]);
  assert.equal(ok(await bob.get(`/v1/messages?roomId=${roomId}&after=${seq}`)).items.length, 1);
});

Deno.test("a scheduled message is sent once, at its time, by its sender", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const sendAt = new Date(gateway.clock.now() + 3_600_000).toISOString();
  const body = { roomId, text: "good morning", sendAt, clientMessageId: "later-1" };
  const answer = await alice.post("/v1/messages", body);
  assert.equal(answer.status, 202, JSON.stringify(answer.body));
  assert.equal(answer.headers.get("location"), `/v1/messages/scheduled/${answer.body.id}`);
  const again = await alice.post("/v1/messages", body);
  assert.deepEqual([again.status, again.body.id], [202, answer.body.id]);
  assertProblem(await alice.post("/v1/messages", { ...body, text: "other" }), 409, "client_message_id_conflict");
  await gateway.runJobs();
  assert.deepEqual(ok(await bob.get(`/v1/messages?roomId=${roomId}`)).items, []);
  assert.equal(ok(await alice.get("/v1/messages/scheduled")).items.length, 1);
  assert.equal(ok(await bob.get("/v1/messages/scheduled")).items.length, 0);
  const location = answer.headers.get("location") ?? "";
  assert.deepEqual(ok(await alice.get(location)), answer.body);
  assertProblem(await bob.get(location), 404, "not_found");
  gateway.clock.advance(3_600_000);
  const later = await gateway.as("alice");
  await gateway.runJobs();
  const { items } = ok(await later.get(`/v1/messages?roomId=${roomId}`));
  assert.deepEqual(items.map((item: { text: string; senderId: string }) => [item.text, item.senderId]), [
    ["good morning", "alice"],
  ]);
  assert.deepEqual(ok(await later.get("/v1/messages/scheduled")).items, []);
  assertProblem(await later.get(location), 404, "not_found");
  const repeated = await later.post("/v1/messages", { roomId, text: "good morning", clientMessageId: "later-1" });
  assert.deepEqual([repeated.status, repeated.body.id], [200, items[0].id]);
});

Deno.test("a scheduled message can be cancelled by its sender only", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  const { id } = ok(await alice.post("/v1/messages", { roomId, text: "never", sendAt }));
  assertProblem(await bob.delete(`/v1/messages/scheduled/${id}`), 404, "not_found");
  assert.equal((await alice.delete(`/v1/messages/scheduled/${id}`)).status, 204);
  assertProblem(await alice.delete(`/v1/messages/scheduled/${id}`), 404, "not_found");
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.deepEqual(ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items, []);
});

Deno.test("a scheduled message of a removed member is not sent, and the sender is notified of the reason", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  const { id } = ok(await bob.post("/v1/messages", { roomId, text: "late", sendAt }));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.deepEqual(ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items, []);
  const [failed] = ok(await bob.get("/v1/messages/scheduled")).items;
  assert.deepEqual([failed.id, failed.state, failed.failure.code], [id, "failed", "not_found"]);
  const { items } = ok(await bob.get("/v1/collaboration/notifications?kind=scheduled_message_failed"));
  assert.deepEqual(items.map((item: { resource: unknown }) => item.resource), [{ type: "scheduled_message", id }]);
});

for (const isInterrupted of [false, true]) {
  const how = isInterrupted ? "whose process ends each time" : "that fails each time";
  Deno.test(`a scheduled message with a job ${how} has failed, and the sender is notified`, async () => {
    await using gateway = await openGateway();
    const { alice } = await createCallers(gateway, "alice");
    const roomId = await createRoom(alice, []);
    const sendAt = new Date(gateway.clock.now() + 1000).toISOString();
    const { id } = ok(await alice.post("/v1/messages", { roomId, text: "late", sendAt }));
    const { modules, store } = gateway.app;
    const job = modules.flatMap((module) => module.jobs ?? []).find(({ kind }) => kind === "message.send_scheduled");
    assert.ok(job);
    const { run } = job;
    job.run = () => Promise.reject(new Error("failed"));
    if (isInterrupted) await store.write((tx) => sql`update job set deaths = 5`.execute(tx.db));
    const read = async () => ok(await (await gateway.as("alice")).get(`/v1/messages/scheduled/${id}`));
    for (let attempt = 1; attempt <= 10; attempt++) {
      assert.equal((await read()).state, "scheduled");
      gateway.clock.advance(HOUR_MS);
      await gateway.runJobs();
      if (isInterrupted) break;
    }
    const { state, failure } = await read();
    assert.deepEqual([state, failure.code], ["failed", "internal"]);
    assert.match(failure.detail, isInterrupted ? /stopped several times/ : /failed too often/);
    const boss = await gateway.as("boss", { role: "owner" });
    const late = await gateway.as("alice");
    const { items } = ok(await late.get("/v1/collaboration/notifications?kind=scheduled_message_failed"));
    assert.deepEqual(items.map((item: { resource: unknown }) => item.resource), [{ type: "scheduled_message", id }]);
    // What was said to have failed is not sent by surprise.
    job.run = run;
    const { items: [dead] } = ok(await boss.get("/v1/collaboration/jobs?state=dead"));
    ok(await boss.post(`/v1/collaboration/jobs/${dead.id}/retry`));
    await gateway.runJobs();
    assert.deepEqual(ok(await late.get(`/v1/messages?roomId=${roomId}`)).items, []);
    assert.equal((await read()).state, "failed");
  });
}

Deno.test("purging a room deletes its scheduled messages and notifies their senders", async () => {
  await using gateway = await openGateway();
  const { bob } = await createCallers(gateway, "bob");
  const boss = await gateway.as("boss", { role: "owner" });
  const roomId = await createRoom(boss, ["bob"]);
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  const ids: string[] = [];
  for (const text of ["one", "two"]) ids.push(ok(await bob.post("/v1/messages", { roomId, text, sendAt })).id);
  const kept = ok(await bob.post("/v1/messages", { roomId: await createRoom(bob, []), text: "elsewhere", sendAt })).id;
  const { cursor } = ok(await bob.get("/v1/collaboration/sync"));
  ok(await boss.delete(`/v1/rooms/${roomId}?purge=true`));
  await gateway.runJobs();
  const { items } = ok(await bob.get("/v1/messages/scheduled"));
  assert.deepEqual(items.map(({ id }: { id: string }) => id), [kept]);
  const { events } = ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(cursor)}`));
  const removed = events.filter(({ type }: { type: string }) => type === "scheduled_message.removed");
  assert.deepEqual(
    removed.map(({ data }: { data: unknown }) => data),
    ids.map((scheduledMessageId) => ({ scheduledMessageId, messageId: null })),
  );
});

Deno.test("repeating a scheduled send after its time returns the sent message", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  const body = { roomId, text: "late", sendAt, clientMessageId: "once" };
  ok(await alice.post("/v1/messages", body));
  // The response was lost, and the message has been sent meanwhile.
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  const answer = await alice.post("/v1/messages", body);
  assert.deepEqual([answer.status, answer.body.text, answer.body.clientMessageId], [200, "late", "once"]);
  assert.equal(ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items.length, 1);
});

Deno.test("message.send refuses a sendAt in the past or too far ahead, and messages that could not be sent now", async () => {
  await using gateway = await openGateway();
  const { alice, eve } = await createCallers(gateway, "alice", "eve");
  const roomId = await createRoom(alice, []);
  const at = (ms: number) => new Date(gateway.clock.now() + ms).toISOString();
  for (const sendAt of [at(0), at(-1000), at(367 * 86_400_000)]) {
    assertProblem(await alice.post("/v1/messages", { roomId, text: "x", sendAt }), 422, "validation_failed");
  }
  assertProblem(await eve.post("/v1/messages", { roomId, text: "x", sendAt: at(60_000) }), 404, "not_found");
  const mentions = { principalIds: ["eve"] };
  assertProblem(
    await alice.post("/v1/messages", { roomId, text: "x", mentions, sendAt: at(60_000) }),
    422,
    "validation_failed",
  );
});

Deno.test("message.send accepts a repeat with reordered metadata, also if scheduled", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  for (const [clientMessageId, sendAt] of [["1", undefined], ["2", "2026-03-02T00:00:00.000Z"]]) {
    const body = { roomId, text: "x", clientMessageId, sendAt };
    const first = ok(await alice.post("/v1/messages", { ...body, metadata: { a: 1, b: { c: [1, 2], d: 2 } } }));
    const again = ok(await alice.post("/v1/messages", { ...body, metadata: { b: { d: 2, c: [1, 2] }, a: 1 } }));
    assert.equal(again.id, first.id);
    const other = await alice.post("/v1/messages", { ...body, metadata: { b: { d: 2, c: [2, 1] }, a: 1 } });
    assertProblem(other, 409, "client_message_id_conflict");
  }
});

Deno.test("message.send sends the first valid one of concurrent messages with one clientMessageId", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const send = (more: Record<string, unknown>) =>
    alice.post("/v1/messages", { roomId, text: "x", clientMessageId: "1", ...more });
  const bad = { replyToId: "msg_nowhere" };
  const answers = await Promise.all([send(bad), send({}), send(bad), send({}), send({ text: "y" })]);
  assert.deepEqual(answers.map(({ status }) => status), [422, 201, 409, 200, 409]);
  assert.equal(answers[3]?.body.id, answers[1]?.body.id);
});

testOnEngines("concurrent retries of a scheduled message create one scheduled message", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  const body = { roomId, text: "once", sendAt, clientMessageId: "1" };
  const answers = await Promise.all(Array.from({ length: 20 }, () => alice.post("/v1/messages", body)));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [202]);
  assert.equal(new Set(answers.map((answer) => answer.body.id)).size, 1);
});

Deno.test("message.delete withdraws notifications of versions before an edit", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { id } = await sendMessage(alice, roomId, "bob?", { mentions: { principalIds: ["bob"] } });
  await gateway.runJobs();
  ok(await alice.patch(`/v1/messages/${id}`, { mentions: {} }));
  ok(await alice.delete(`/v1/messages/${id}`));
  await gateway.runJobs();
  assert.deepEqual(ok(await bob.get("/v1/collaboration/notifications?kind=mention")).items, []);
});

testOnEngines("a message deleted during its notification leaves no notifications", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { store } = gateway.app;
  await store.write(async (tx) => {
    const ids = Array.from({ length: 1200 }, (_, n) => `member-${n}`);
    const principal = await tx.db.selectFrom("principal").selectAll().where("id", "=", "bob").executeTakeFirst();
    const member = await tx.db.selectFrom("member").selectAll().where("principal_id", "=", "bob").executeTakeFirst();
    await tx.insertMany("principal", ids.map((id) => ({ ...principal, id })));
    await tx.insertMany("member", ids.map((id) => ({ ...member, principal_id: id })));
  });
  const { id } = await sendMessage(alice, roomId, "all hands", { mentions: { room: true } });
  const { onCommit } = store;
  const deleted = Promise.withResolvers<void>();
  store.onCommit = (committed) => {
    onCommit(committed);
    if (!committed.events.some(({ json }) => json.includes(id) && json.includes("notification.created"))) return;
    store.onCommit = onCommit;
    void alice.delete(`/v1/messages/${id}`).then(ok).then(() => deleted.resolve());
  };
  await gateway.runJobs();
  await deleted.promise;
  await gateway.runJobs();
  const rows = await store.db.selectFrom("notification").select("principal_id").where("message_id", "=", id).execute();
  assert.deepEqual(rows, []);
});

Deno.test("message.update of an agent that streams its response has the rate of message.send", async () => {
  await using gateway = await openGateway({
    SVC_RATE_LIMIT: "on",
    SVC_LIMIT_WRITES_PER_MINUTE: "5",
    SVC_LIMIT_WRITES_BURST: "5",
    // So that 50 calls take less time than that in which so many more are allowed.
    SVC_LIMIT_AGENT_MESSAGES_PER_SECOND: "2",
  });
  const alice = await gateway.as("alice");
  const agent = await createCaller(gateway, "agent", { kind: "agent" });
  const roomId = await createRoom(alice, ["agent"]);
  const { id } = await sendMessage(agent, roomId, "…");
  // At once: the limit is refilled as time passes.
  const update = (count: number) =>
    Promise.all(Array.from({ length: count }, (_, at) => agent.patch(`/v1/messages/${id}`, { text: `so far ${at}` })));
  (await update(50)).forEach(ok);
  const late = await eventually(async () => {
    const refused = (await update(4)).find(({ status }) => status === 429);
    assert.ok(refused);
    return refused;
  });
  assertProblem(late, 429, "rate_limited");
  assert.ok(Number(late.headers.get("retry-after")) <= 25);
  for (let at = 0; at < 5; at++) ok(await agent.put(`/v1/rooms/${roomId}/read`, { seq: at }));
  assertProblem(await agent.put(`/v1/rooms/${roomId}/read`, { seq: 5 }), 429, "rate_limited");
});

Deno.test("metadata of more than 8 KiB is refused before its fields are checked, by every operation with metadata", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { id: roomId } = (await alice.post("/v1/rooms", { name: "Lair" })).body;
  const metadata = { ["k".repeat(200)]: 1, text: "x".repeat(8192) };
  for (
    const [path, body] of [
      ["/v1/rooms", { name: "x" }],
      ["/v1/messages", { roomId, text: "x" }],
      ["/v1/collaboration/tasks", { roomId, title: "x" }],
      ["/v1/collaboration/documents", { roomId, title: "x" }],
    ] as const
  ) {
    const answer = await alice.post(path, { ...body, metadata });
    assert.equal(answer.status, 422, path);
    assert.deepEqual(
      answer.body.errors.map(({ pointer, detail }: { pointer: string; detail: string }) => [pointer, detail]),
      [
        ["/metadata", "at most 8 KiB of JSON"],
      ],
    );
    assert.equal((await alice.post(path, { ...body, metadata: { a: 1 } })).status, 201, path);
    assert.equal((await alice.post(path, { ...body, metadata: null })).status, 422, path);
  }
});

Deno.test("a message of 16,000 escaped characters fits into a request body", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { id: roomId } = (await alice.post("/v1/rooms", { name: "Lair" })).body;
  const text = "\\ud83d\\ude00".repeat(16_000);
  assert.equal((await alice.post("/v1/messages", `{"roomId":"${roomId}","text":"${text}"}`)).status, 201);
});
