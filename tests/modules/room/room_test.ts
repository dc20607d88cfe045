// Rooms through the API.
import assert from "node:assert/strict";
import { type Kysely, sql } from "kysely";
import { MessageStore, type MessageTables } from "@/modules/message/store.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type ApiResponse, openGateway } from "../../harness.ts";
import { until } from "../../wait.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";
import { writesOn } from "../query_log.ts";

Deno.test("room.create creates a room that its creator owns and can read", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const created = await alice.post("/v1/rooms", { name: "Operations" });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  assert.equal(created.body.myRole, "owner");
  const read = await alice.get(`/v1/rooms/${created.body.id}`);
  assert.equal(read.status, 200);
  assert.deepEqual(read.body, created.body);
});

Deno.test("message.send stores a message at the next position of the room's stream", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "Operations" });
  const first = await alice.post("/v1/messages", { roomId: room.id, text: "one", clientMessageId: "1" });
  assert.equal(first.status, 201, JSON.stringify(first.body));
  const again = await alice.post("/v1/messages", { roomId: room.id, text: "one", clientMessageId: "1" });
  assert.equal(again.status, 200);
  assert.equal(again.body.id, first.body.id);
  const clash = await alice.post("/v1/messages", { roomId: room.id, text: "two", clientMessageId: "1" });
  assert.equal(clash.status, 409);
  const list = await alice.get(`/v1/messages?roomId=${room.id}`);
  assert.deepEqual(list.body.items.map((item: { text: string }) => item.text), ["one"]);
  assert.equal(list.body.lastSeq, first.body.seq);
});

Deno.test("room.events refuses a position that the stream has not reached, rather than say that nothing is missing", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { seq } = await sendMessage(alice, roomId, "newest");
  const { events, complete, lastSeq } = ok(await alice.get(`/v1/rooms/${roomId}/events?after=${seq}`));
  assert.deepEqual([events, complete, lastSeq], [[], true, seq]);
  const beyond = await alice.get(`/v1/rooms/${roomId}/events?after=${seq + 1}`);
  assertProblem(beyond, 409, "stream_reset");
  assert.match(beyond.body.detail, new RegExp(`last position of the room is ${seq};`));
});

Deno.test("room.update changes only the given fields of the agent policy, and me.update those of the preferences", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  await alice.get("/v1/collaboration/me");
  await (await gateway.as("robo", { kind: "agent", owner: "alice" })).get("/v1/collaboration/me");
  const { body: room } = await alice.post("/v1/rooms", { name: "a", agentPolicy: { mode: "all", maxAgentTurns: 9 } });
  const { body: after } = await alice.patch(`/v1/rooms/${room.id}`, { agentPolicy: { allowedAgentIds: ["robo"] } });
  assert.deepEqual(after.agentPolicy, { mode: "all", maxAgentTurns: 9, allowedAgentIds: ["robo"] });
  await alice.patch("/v1/collaboration/me", { notificationPrefs: { mentions: false } });
  await alice.patch("/v1/collaboration/me", { notificationPrefs: { replies: false } });
  const { body: me } = await alice.get("/v1/collaboration/me");
  assert.deepEqual([me.notificationPrefs.mentions, me.notificationPrefs.replies], [false, false]);
  const unknown = await alice.patch("/v1/collaboration/me", { notificationPrefs: { mention: false } });
  assert.deepEqual([unknown.status, unknown.body.code], [422, "unknown_field"]);
});

Deno.test("an update without fields changes nothing", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "a" });
  const { body: message } = await alice.post("/v1/messages", { roomId: room.id, text: "one" });
  const edit = await alice.patch(`/v1/messages/${message.id}`, {}, { "if-match": '"1"' });
  assert.deepEqual([edit.status, edit.body.editCount, edit.body.version], [200, 0, 1]);
  const update = await alice.patch(`/v1/rooms/${room.id}`, {});
  assert.deepEqual([update.status, update.body.version, update.body.lastSeq], [200, 1, message.seq]);
  assert.equal((await alice.patch(`/v1/messages/${message.id}`, {}, { "if-match": '"2"' })).status, 412);
});

Deno.test("room.list filters by updatedSince at any precision of the time", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  gateway.clock.advance(500);
  await alice.post("/v1/rooms", { name: "a" });
  const found = async (time: string) => (await alice.get(`/v1/rooms?updatedSince=${time}`)).body.items.length;
  const times = ["12:00:00Z", "12:00:00.5Z", "12:00:00.500000Z", "12:00:00.501Z", "12:00:01Z"];
  const counts = await Promise.all(times.map((time) => found(`2026-03-01T${time}`)));
  assert.deepEqual(counts, [1, 1, 1, 0, 0]);
});

testOnEngines(
  "rooms are listed by their last message, page by page, within a minute and across minutes",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const alice = await gateway.as("alice");
    const ids: string[] = [];
    for (const name of ["a", "b", "c", "d", "e"]) ids.push((await alice.post("/v1/rooms", { name })).body.id);
    // In seconds after noon; two of them in the same millisecond, where the id decides.
    const seconds = [1, 50, 59, 61, 61, 119.5, 120];
    const rooms = [4, 0, 2, 0, 3, 1, 4];
    for (const [at, room] of rooms.entries()) {
      gateway.clock.advance(((seconds[at] ?? 0) - (seconds[at - 1] ?? 0)) * 1000);
      await alice.post("/v1/messages", { roomId: ids[room], text: "hello" });
    }
    const listed: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const { body } = await alice.get(`/v1/rooms?limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`);
      listed.push(...body.items.map((room: { name: string }) => room.name));
      cursor = body.nextCursor;
    }
    assert.deepEqual(listed, ["e", "b", "d", "a", "c"]);
  },
);

testOnPostgres("a message does not change the indexes of its room until the next minute", async (environment) => {
  await using gateway = await openGateway(environment);
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "a" });
  const [minute] = room.createdAt.split(/:\d\d\./);
  // How many updates of rooms this session has made so far, and how many of them touched no index.
  const counts = async (db: Kysely<MessageTables>): Promise<number[]> => {
    const { rows: [row] } = await sql<{ all: string; light: string }>`
      select pg_stat_get_xact_tuples_updated('room'::regclass) as all,
        pg_stat_get_xact_tuples_hot_updated('room'::regclass) as light`.execute(db);
    return [Number(row?.all), Number(row?.light)];
  };
  const updates = (at: string): Promise<number[]> =>
    gateway.app.store.write(async ({ db }) => {
      const before = await counts(db);
      await new MessageStore(db).touchRooms("default", [room.id], at);
      return (await counts(db)).map((count, which) => count - (before[which] ?? 0));
    });
  assert.deepEqual(await updates(`${minute}:59.000Z`), [1, 1]);
  assert.deepEqual(await updates("2026-03-01T13:00:00.000Z"), [1, 0]);
});

testOnPostgres(
  "a call does not join a transaction in whose async context the runtime begins it",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const alice = await gateway.as("alice");
    let created: ApiResponse | undefined;
    const undone = gateway.app.store.write(async () => {
      created = await alice.post("/v1/rooms", { name: "a" });
      throw new Error("undone");
    });
    await assert.rejects(undone, { message: "undone" });
    assert.equal(created?.status, 201, JSON.stringify(created?.body));
    assert.equal((await alice.get(`/v1/rooms/${created?.body.id}`)).status, 200);
  },
);

Deno.test("a former member of a direct room can create another one with the same members", async () => {
  await using gateway = await openGateway();
  const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
  await bob.get("/v1/collaboration/me");
  const { body: first } = await alice.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["bob"] });
  assert.equal((await bob.delete(`/v1/rooms/${first.id}/members/me`)).status, 204);
  const second = await bob.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["alice"] });
  assert.equal(second.status, 201, JSON.stringify(second.body));
  const again = await alice.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["bob"] });
  assert.deepEqual([again.status, again.body.id], [200, second.body.id]);
});

Deno.test("a direct room that was left before leaving cleared its key is not reused either", async () => {
  await using gateway = await openGateway();
  const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
  await bob.get("/v1/collaboration/me");
  const { body: first } = await alice.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["bob"] });
  const rooms = gateway.app.store.db;
  const { direct_key } = await rooms.selectFrom("room").select("direct_key").where("id", "=", first.id)
    .executeTakeFirstOrThrow();
  assert.equal((await bob.delete(`/v1/rooms/${first.id}/members/me`)).status, 204);
  await gateway.app.store.write((tx) =>
    tx.db.updateTable("room").set({ direct_key }).where("id", "=", first.id).execute()
  );
  const second = await bob.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["alice"] });
  assert.equal(second.status, 201, JSON.stringify(second.body));
  const again = await alice.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["bob"] });
  assert.deepEqual([again.status, again.body.id], [200, second.body.id]);
});

Deno.test("message.list around a message has it in the middle, even with a small limit", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "a" });
  const ids: string[] = [];
  for (const text of "01234") ids.push((await alice.post("/v1/messages", { roomId: room.id, text })).body.id);
  const around = async (limit: number, place = 2) => {
    const { body } = await alice.get(`/v1/messages?roomId=${room.id}&around=${ids[place]}&limit=${limit}`);
    return body.items.map((item: { text: string }) => item.text).join("");
  };
  assert.deepEqual(await Promise.all([1, 2, 3, 5].map((limit) => around(limit))), ["2", "12", "123", "01234"]);
  // At an end there is more on the other side.
  assert.deepEqual(await Promise.all([4, 3, 0, 1].map((place) => around(4, place))), ["1234", "1234", "0123", "0123"]);
});

async function assertAcceptsExtremes(environment: Record<string, string>): Promise<void> {
  await using gateway = await openGateway(environment);
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "a" });
  await alice.post("/v1/messages", { roomId: room.id, text: "one" });
  const far = "9".repeat(64);
  const counts = [];
  for (const query of [`before=${far}`, `after=${far}`, `around=${far}`]) {
    counts.push((await alice.get(`/v1/messages?roomId=${room.id}&${query}`)).body.items?.length);
  }
  assert.deepEqual(counts, [1, 0, 1]);
  assert.equal((await alice.get(`/v1/messages?roomId=${room.id}&types=`)).status, 422);
}

testOnEngines("message.list accepts a position beyond the last one, and no empty type", assertAcceptsExtremes);

testOnPostgres(
  "of concurrent creations of one direct room one succeeds, and the others return it",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
    for (const one of [alice, bob]) await one.get("/v1/collaboration/me");
    const room = { name: "d", kind: "direct", memberIds: ["alice", "bob"] };
    const answers = await Promise.all([alice, bob, alice, bob].map((one) => one.post("/v1/rooms", room)));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 200, 201]);
    assert.equal(new Set(answers.map(({ body }) => body.id)).size, 1);
  },
);

Deno.test("room.restore restores the slug, unless another room has it, and the archived state", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "Operations", slug: "ops", visibility: "public" });
  const path = `/v1/rooms/${room.id}`;
  await alice.patch(path, { state: "archived" });
  assert.equal((await alice.delete(path)).status, 204);
  const restored = await alice.post(`${path}/restore`);
  assert.deepEqual([restored.body.slug, restored.body.state], ["ops", "archived"]);
  assert.equal((await alice.delete(path)).status, 204);
  assert.equal((await alice.post("/v1/rooms", { name: "Others", slug: "ops", visibility: "public" })).status, 201);
  const without = await alice.post(`${path}/restore`);
  assert.deepEqual([without.status, without.body.slug, without.body.state], [200, null, "archived"]);
  const twice = await alice.post(`${path}/restore`);
  assert.deepEqual([twice.status, twice.body.code], [409, "conflict"]);
  assert.equal((await alice.patch(path, { state: "active" })).body.state, "active");
});

Deno.test("metadata stores every field or rejects it by name", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const metadata = { constructor: 1, prototype: { toString: [2] }, hasOwnProperty: null };
  const { body: room } = await alice.post("/v1/rooms", { name: "a", metadata });
  assert.deepEqual(room.metadata, metadata);
  const body = (metadata: string): string => `{"roomId":"${room.id}","text":"x","metadata":${metadata}}`;
  const sent = await alice.post("/v1/messages", body(JSON.stringify(metadata)));
  assert.deepEqual(sent.body.metadata, metadata);
  for (
    const [metadata, pointer] of [
      [`{"__proto__":{"a":1}}`, "/metadata/__proto__"],
      [`{"a":[{"\\u005f_proto__":1}]}`, "/metadata/a/0/__proto__"],
    ] as const
  ) {
    const refused = await alice.post("/v1/messages", body(metadata));
    assert.deepEqual([refused.status, refused.body.errors[0].pointer], [422, pointer]);
  }
  assert.equal((await alice.post("/v1/rooms", `{"name":"a","__proto__":{"x":1}}`)).status, 422);
});

Deno.test("a direct room is named after its members by default, every other room requires a name", async () => {
  await using gateway = await openGateway();
  const bob = await gateway.as("bob", { name: "Bob B." });
  const alice = await gateway.as("alice", { name: "Alice" });
  for (const who of [alice, bob]) assert.equal((await who.get("/v1/collaboration/me")).status, 200);
  const direct = await alice.post("/v1/rooms", { kind: "direct", memberIds: ["bob"] });
  assert.deepEqual([direct.status, direct.body.name], [201, "Alice, Bob B."]);
  assert.equal((await bob.post("/v1/rooms", { kind: "direct", memberIds: ["alice"] })).body.id, direct.body.id);
  for (const body of [{}, { kind: "task" }]) {
    const refused = await alice.post("/v1/rooms", body);
    assert.deepEqual([refused.status, refused.body.errors[0].pointer], [422, "/name"]);
  }
});

Deno.test("an agent can be added only to rooms of its owner", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const bob = await gateway.as("bob");
  const robo = await gateway.as("robo", { kind: "agent", owner: "bob" });
  for (const who of [alice, bob, robo]) assert.equal((await who.get("/v1/collaboration/me")).status, 200);
  const blind = await alice.post("/v1/rooms", { name: "a", memberIds: ["robo"] });
  assert.deepEqual([blind.status, blind.body.errors[0].pointer], [422, "/memberIds/0"]);
  const { body: room } = await alice.post("/v1/rooms", { name: "a" });
  const put = (id: string) => alice.put(`/v1/rooms/${room.id}/members/${id}`);
  const alone = await put("robo");
  assert.deepEqual([alone.status, alone.body.code], [409, "conflict"]);
  assert.match(alone.body.detail, /bob/);
  assert.deepEqual([(await put("bob")).status, (await put("robo")).status], [201, 201]);
  assert.equal((await robo.get(`/v1/rooms/${room.id}`)).status, 200);
  assert.equal((await alice.post("/v1/rooms", { name: "b", memberIds: ["robo", "bob"] })).status, 201);
});

Deno.test("a call over an operation's own rate limit names that limit in its headers", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "on" });
  const alice = await gateway.as("alice");
  const general = (await alice.post("/v1/rooms", { name: "a" })).headers.get("RateLimit-Limit");
  for (let count = 1; count < 30; count++) await alice.post("/v1/rooms", { name: "a" });
  const { status, headers } = await alice.post("/v1/rooms", { name: "a" });
  assert.deepEqual([status, headers.get("RateLimit-Limit"), headers.get("RateLimit-Remaining")], [429, "30", "0"]);
  assert.notEqual(general, "30");
  assert.equal(headers.get("RateLimit-Reset"), headers.get("Retry-After"));
});

async function assertCaseInsensitiveSearch(environment: Record<string, string>): Promise<void> {
  await using gateway = await openGateway(environment);
  const alice = await gateway.as("alice", { name: "ÄNNE Öz" });
  for (const name of ["Ärzte", "СОВЕТ", "a%b_c"]) assert.equal((await alice.post("/v1/rooms", { name })).status, 201);
  const found = async (path: string): Promise<string[]> => {
    const { status, body } = await alice.get(encodeURI(path));
    assert.equal(status, 200);
    return body.items.map((item: Record<string, string>) => item.name ?? item.displayName);
  };
  assert.deepEqual(await found("/v1/rooms?q=ärz"), ["Ärzte"]);
  assert.deepEqual(await found("/v1/rooms?q=совет"), ["СОВЕТ"]);
  assert.deepEqual(await found("/v1/rooms?q=%b_"), ["a%b_c"]);
  assert.deepEqual(await found("/v1/collaboration/principals?q=änne"), ["ÄNNE Öz"]);
}

testOnEngines("q is case-insensitive, also beyond ASCII", assertCaseInsensitiveSearch);

testOnEngines("room.list lists deleted rooms for those who own them, and for no other member", async (environment) => {
  await using gateway = await openGateway(environment);
  const alice = await gateway.as("alice");
  const bob = await gateway.as("bob");
  assert.equal((await bob.get("/v1/collaboration/me")).status, 200);
  const { body: room } = await alice.post("/v1/rooms", { name: "a", visibility: "public", memberIds: ["bob"] });
  assert.equal((await alice.delete(`/v1/rooms/${room.id}`)).status, 204);
  const deleted = async (who: typeof alice) => (await who.get("/v1/rooms?state=deleted")).body.items;
  assert.deepEqual((await deleted(alice)).map(({ id, state }: typeof room) => [id, state]), [[room.id, "deleted"]]);
  assert.deepEqual(await deleted(bob), []);
  assert.deepEqual((await alice.get("/v1/rooms")).body.items, []);
  assert.equal((await alice.post(`/v1/rooms/${room.id}/restore`)).status, 200);
  assert.deepEqual(await deleted(alice), []);
});

testOnEngines("a room that is being purged cannot be restored", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await gateway.as("boss", { role: "owner" });
  const { body: room } = await boss.post("/v1/rooms", { name: "a" });
  await gateway.app.jobs.stop();
  assert.equal((await boss.delete(`/v1/rooms/${room.id}?purge=true`)).status, 204);
  const refused = await boss.post(`/v1/rooms/${room.id}/restore`);
  assert.deepEqual([refused.status, refused.body.code], [410, "gone"]);
});

testOnEngines("what a room may have any number of is purged in parts", async (environment) => {
  await using gateway = await openGateway(environment);
  const { store } = gateway.app;
  const boss = await gateway.as("boss", { role: "owner" });
  const [roomId, otherId] = [await createRoom(boss, []), await createRoom(boss, [])];
  const [message, other] = [await sendMessage(boss, roomId, "one"), await sendMessage(boss, otherId, "two")];
  const meeting = ok(await boss.post("/v1/collaboration/meetings", { roomId }));
  const task = ok(await boss.post("/v1/collaboration/tasks", { roomId, title: "Task" }));
  ok(await boss.delete(`/v1/rooms/${roomId}`));
  await gateway.app.jobs.stop();
  const [tenant_id, at, id] = ["default", "2026-03-01T12:00:00.000Z", "boss"];
  const rowsOf: Record<string, (n: number) => object> = {
    reaction: (n) => ({ tenant_id, message_id: message.id, key: "x", principal_id: `p${n}`, created_at: at }),
    message_edit: (n) => ({ tenant_id, message_id: message.id, version: n, text: "zero", editor_id: id, at }),
    thread_participant: (n) => ({ tenant_id, message_id: message.id, principal_id: `p${n}`, active_at: at }),
    ban: (n) => ({ tenant_id, room_id: roomId, principal_id: `p${n}`, reason: null, created_by: id, created_at: at }),
    transfer_import_history: (n) => ({ tenant_id, container: roomId, name: `part ${n}` }),
    meeting_segment: (n) => ({
      ...{ tenant_id, id: `segment ${n}`, meeting_id: meeting.id, start_ms: n, end_ms: n, speaker_id: id },
      ...{ text: "words", posted_by: id, created_at: at },
    }),
    task_activity: (n) => ({
      ...{ tenant_id, task_id: task.id, version: 100 + n, id: `activity ${n}`, type: "updated", actor_id: id },
      ...{ changes_json: "{}", at },
    }),
  };
  const tables = Object.keys(rowsOf);
  await store.write(async (tx) => {
    for (const [table, row] of Object.entries(rowsOf)) {
      // deno-lint-ignore no-explicit-any -- the harness knows no tables
      await (tx as any).insertMany(table, Array.from({ length: 2500 }, (_, n) => row(n)));
    }
    // deno-lint-ignore no-explicit-any -- as above
    const { rows: [row] } = await sql<any>`select * from message where id = ${message.id}`.execute(tx.db);
    const later = (n: number) => ({ ...row, id: `msg_z${n}`, seq: 100 + n });
    await tx.insertMany("message", Array.from({ length: 600 }, (_, n) => later(n)));
  });
  ok(await boss.put(`/v1/messages/${other.id}/reactions/👍`));
  ok(await boss.delete(`/v1/rooms/${roomId}?purge=true`));
  const statements = await writesOn(environment)(() => gateway.runJobs());
  const partsOf = (table: string): number =>
    statements.filter((statement) => statement.sql.startsWith(`delete from "${table}"`)).length;
  // Of which any may be long: the commit of more takes longer than others should wait.
  assert.ok(partsOf("message") >= 4, `messages in ${partsOf("message")} parts`);
  for (const table of tables) {
    const parts = partsOf(table);
    assert.ok(parts >= 3, `${table} in ${parts} parts`);
    // deno-lint-ignore no-explicit-any -- as above
    const { rows } = await sql<any>`select * from ${sql.table(table)}`.execute(store.db);
    const left = table === "reaction" ? [other.id] : [];
    assert.deepEqual(rows.map(({ message_id }) => message_id), left, table);
  }
  assert.deepEqual((await sql`select id from room where id = ${roomId}`.execute(store.db)).rows, []);
});

testOnEngines(
  "a task, a document and what is left of an import are deleted in transactions that are small",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { store } = gateway.app;
    const boss = await gateway.as("boss", { role: "owner" });
    const roomId = await createRoom(boss, []);
    const api = "/v1/collaboration";
    const task = ok(await boss.post(`${api}/tasks`, { roomId, title: "Task" }));
    const document = ok(await boss.post(`${api}/documents`, { roomId, title: "Document" }));
    const leftover = ok(await boss.post(`${api}/imports`, { kind: "mattermost" }));
    assert.equal((await boss.delete(`${api}/tasks/${task.id}`)).status, 204);
    assert.equal((await boss.delete(`${api}/documents/${document.id}`)).status, 204);
    await gateway.app.jobs.stop();
    const [tenant_id, at, id] = ["default", "2026-03-01T12:00:00.000Z", "boss"];
    const rowsOf: Record<string, (n: number) => object> = {
      task_activity: (n) => ({
        ...{ tenant_id, task_id: task.id, version: 100 + n, id: `activity ${n}`, type: "updated", actor_id: id },
        ...{ changes_json: "{}", at },
      }),
      document_access: (n) => ({ tenant_id, document_id: document.id, principal_id: `p${n}`, role: "viewer" }),
      transfer_line: (n) => ({ tenant_id, import_id: leftover.id, room_key: "room", at, line: n, json: "{}" }),
    };
    await store.write(async (tx) => {
      for (const [table, row] of Object.entries(rowsOf)) {
        // deno-lint-ignore no-explicit-any -- the harness knows no tables
        await (tx as any).insertMany(table, Array.from({ length: 2500 }, (_, n) => row(n)));
      }
    });
    ok(await boss.post(`${api}/imports/${leftover.id}/cancel`));
    gateway.clock.advance(31 * 86_400_000);
    const largest = new Map<string, number>();
    const { write } = store;
    // One transaction after the other: what the jobs delete at the same time on PostgreSQL would be counted as this one's.
    let turn: Promise<unknown> = Promise.resolve();
    store.write = (work) => {
      const done = turn.then(() =>
        write.call(store, async (tx) => {
          const before = await countAll(tx.db);
          const result = await work(tx);
          const after = await countAll(tx.db);
          for (const table of Object.keys(rowsOf)) {
            largest.set(table, Math.max(largest.get(table) ?? 0, (before[table] ?? 0) - (after[table] ?? 0)));
          }
          return result;
        })
      );
      turn = done.catch(() => {});
      return done as never;
    };
    await gateway.runJobs();
    store.write = write;
    for (const table of Object.keys(rowsOf)) assert.equal(largest.get(table), 1000, table);
    assert.deepEqual(Object.values(await countAll(store.db)), [0, 0, 0]);

    async function countAll(db: typeof store.db): Promise<Record<string, number>> {
      const counts = await Promise.all(
        Object.keys(rowsOf).map(async (table) => {
          const { rows } = await sql<{ n: number }>`select count(*) as n from ${sql.table(table)}`.execute(db);
          return [table, Number(rows[0]?.n)] as const;
        }),
      );
      return Object.fromEntries(counts);
    }
  },
);

testOnEngines(
  "a deleted room can be purged at once by those who may purge rooms, and by no other caller",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const boss = await gateway.as("boss", { role: "owner" });
    const bob = await gateway.as("bob", { role: "admin" });
    const eve = await gateway.as("eve", { role: "admin" });
    for (const who of [bob, eve]) assert.equal((await who.get("/v1/collaboration/me")).status, 200);
    const { body: room } = await boss.post("/v1/rooms", { name: "a", visibility: "public", memberIds: ["bob"] });
    const path = `/v1/rooms/${room.id}`;
    assert.equal((await boss.delete(path)).status, 204);
    const answers = [
      await boss.delete(path),
      await eve.delete(`${path}?purge=true`),
      await bob.delete(`${path}?purge=true`),
    ];
    assert.deepEqual(answers.map(({ status }) => status), [404, 404, 403]);
    const log = await gateway.app.store.log.read("default", `room:${room.id}`, 0, 100);
    await gateway.app.jobs.stop();
    assert.equal((await boss.delete(`${path}?purge=true`)).status, 204);
    assert.deepEqual(await gateway.app.store.log.read("default", `room:${room.id}`, 0, 100), log);
    assert.equal((await boss.post(`${path}/restore`)).body.code, "gone");
    assert.equal((await boss.delete(`${path}?purge=true`)).status, 404);
  },
);

Deno.test("room.create enforces the maximum number of members, including the creator", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_ROOM_MEMBERS: "2" });
  const alice = await gateway.as("alice");
  for (const name of ["bob", "carol"]) await (await gateway.as(name)).get("/v1/collaboration/me");
  const refused = await alice.post("/v1/rooms", { name: "a", memberIds: ["bob", "carol"] });
  assert.deepEqual([refused.status, refused.body.code], [409, "limit_reached"]);
  assert.equal((await alice.post("/v1/rooms", { name: "a", memberIds: ["alice", "bob", "bob"] })).status, 201);
});

Deno.test("slow purges of rooms do not delay notifications", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const bob = await gateway.as("bob");
  await bob.get("/v1/collaboration/me");
  const rooms = await Promise.all(
    Array.from({ length: 5 }, async () => (await boss.post("/v1/rooms", { name: "r", memberIds: ["bob"] })).body.id),
  );
  const { log } = gateway.app.store;
  const purged = Promise.withResolvers<number>();
  log.trimStream = () => purged.promise;
  for (const id of rooms.splice(1)) assert.equal((await boss.delete(`/v1/rooms/${id}?purge=true`)).status, 204);
  await boss.post("/v1/messages", { roomId: rooms[0], text: "bob?", mentions: { principalIds: ["bob"] } });
  const hasMention = async () => (await bob.get("/v1/collaboration/notifications?kind=mention")).body.items.length > 0;
  await until(hasMention, "the mention").finally(() => purged.resolve(0));
});

Deno.test("member.joined has name and kind, so that a list of members needs no further request", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  ok(await bob.patch("/v1/collaboration/me", { displayName: "Bob B" }));
  ok(await (await gateway.as("helper", { kind: "agent", name: "Helper" })).get("/v1/collaboration/me"));
  const roomId = await createRoom(alice, ["bob"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/helper`, {}));
  const joined = (await readRoomEvents(alice, roomId)).filter(({ type }) => type === "member.joined");
  assert.deepEqual(joined.map(({ data: { principalId, kind, displayName } }) => [principalId, kind, displayName]), [
    ["alice", "human", "alice"],
    ["bob", "human", "Bob B"],
    ["helper", "agent", "Helper"],
  ]);
});
