// Written bytes are counted per owner, limited per minute and per day, and reported.
import assert from "node:assert/strict";
import { type ApiResponse, openGateway } from "../../harness.ts";
import { testOnEngines } from "../../engines.ts";
import { until } from "../../wait.ts";
import { listFiles, upload } from "../file/file_harness.ts";
import { createCaller, createCallers, createRoom, ok } from "../fixtures.ts";
import { EXPORTS, putArchive } from "../transfer/transfer_fixture.ts";

const TASKS = "/v1/collaboration/tasks";
const USAGE = "/v1/collaboration/usage";
const LIMITED = {
  SVC_RATE_LIMIT: "on",
  SVC_LIMIT_WRITES_BURST: "1000",
  SVC_LIMIT_REQUESTS_BURST: "1000",
};
const text = "x".repeat(40_000);

function assertRefused({ status, body }: ApiResponse, code: string, pattern: RegExp): void {
  assert.deepEqual([status, body.code], [429, code]);
  assert.match(body.detail, pattern);
}

Deno.test("written bytes count per minute for the owner, including writes of agents, and for no other principal", async () => {
  await using gateway = await openGateway({ ...LIMITED, SVC_LIMIT_WRITTEN_BYTES_PER_MINUTE: "500000" });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const robot = await createCaller(gateway, "robot", { kind: "agent", owner: "alice" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/robot`));
  let made = 0;
  let refusal: ApiResponse | undefined;
  for (let n = 0; n < 40 && refusal === undefined; n++) {
    const answer = await (n % 2 === 0 ? alice : robot).post(TASKS, { roomId, title: `${n}`, description: text });
    if (answer.status === 201) made++;
    else refusal = answer;
  }
  assert.ok(refusal);
  assertRefused(refusal, "rate_limited", /may write at most 500000 bytes a minute/);
  assert.ok(made >= 4 && made <= 12, `the description, its index and no copies: ${made}`);
  assertRefused(await robot.post(TASKS, { roomId, title: "robot" }), "rate_limited", /a minute/);
  ok(await alice.get(`${TASKS}?roomId=${roomId}`));
  ok(await bob.post(TASKS, { roomId, title: "bob" }));
  // What was written is indexed afterwards, which is charged as well.
  await gateway.app.jobs.whenIdle();
  const last = await alice.post("/v1/messages", { roomId, text: "hello" });
  assertRefused(last, "rate_limited", /a minute/);
  const seconds = Number(last.headers.get("retry-after"));
  assert.ok(seconds >= 1 && seconds < 60, `${seconds}`);
  gateway.clock.advance(seconds * 1000 + 1);
  ok(await alice.post(TASKS, { roomId, title: "again" }));
});

Deno.test("written bytes count for calls with an Idempotency-Key, too", async () => {
  await using gateway = await openGateway({ ...LIMITED, SVC_LIMIT_WRITTEN_BYTES_PER_MINUTE: "500000" });
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const statuses: number[] = [];
  while (statuses.length < 20) {
    const headers = { "idempotency-key": `key ${statuses.length}` };
    const { status } = await alice.post(TASKS, { roomId, title: "many", description: text }, headers);
    statuses.push(status);
  }
  assert.deepEqual([statuses[0], statuses.at(-1)], [201, 429]);
});

Deno.test("a day's bytes are bounded for a principal and for a tenant, and shown", async () => {
  await using gateway = await openGateway({
    ...LIMITED,
    SVC_LIMIT_WRITTEN_BYTES_PER_DAY: "300000",
    SVC_LIMIT_TENANT_WRITTEN_BYTES_PER_DAY: "400000",
  });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const fill = async (who: typeof alice): Promise<ApiResponse> => {
    for (let n = 0; n < 40; n++) {
      const answer = await who.post(TASKS, { roomId, title: `${n}`, description: text });
      if (answer.status !== 201) return answer;
    }
    throw new Error("forty tasks are within the day");
  };
  assertRefused(await fill(alice), "quota_exceeded", /principal and its agents may write at most 300000 bytes a day/);
  const before = ok(await alice.get(USAGE));
  assert.equal(before.member.writtenToday.limit, 300_000);
  assert.ok(before.member.writtenToday.bytes >= 300_000);
  assert.ok(ok(await bob.get(USAGE)).member.writtenToday.bytes < 10_000);
  assertRefused(await fill(bob), "quota_exceeded", /tenant may write at most 400000 bytes a day/);
  // Before and after a message, the bytes of the tenant would say how long it is, wherever it was sent.
  assert.equal(ok(await bob.get(USAGE)).tenant, null);
  const boss = await gateway.as("boss", { role: "admin" });
  assert.ok(ok(await boss.get(USAGE)).tenant.writtenToday.bytes >= 400_000);
  gateway.clock.advance(86_400_000);
  const later = await gateway.as("alice");
  assert.equal(ok(await later.get(USAGE)).member.writtenToday.bytes, 0);
  ok(await later.post(TASKS, { roomId, title: "tomorrow" }));
});

testOnEngines("usage is shared between nodes, and survives a restart", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  ok(await alice.post(TASKS, { roomId, title: "large", description: text }));
  await gateway.app.runMaintenance();
  const { bytes } = ok(await alice.get(USAGE)).member.writtenToday;
  assert.ok(bytes > text.length);
  const rows = await gateway.app.store.db.selectFrom("written").selectAll().orderBy("owner_id").execute();
  assert.deepEqual(rows.map(({ tenant_id, owner_id, day }) => [tenant_id, owner_id, day]), [
    ["default", "", "2026-03-01"],
    ["default", "alice", "2026-03-01"],
  ]);
  // Another node has written as much, or this one before a restart: it is shown before anything more is written.
  await gateway.app.store.write(({ db }) => db.updateTable("written").set({ bytes: 1_000_000 }).execute());
  const { member } = ok(await alice.get(USAGE));
  const { tenant } = ok(await (await gateway.as("alice", { role: "admin" })).get(USAGE));
  for (const { writtenToday } of [member, tenant]) assert.ok(writtenToday.bytes >= 1_000_000, `${writtenToday.bytes}`);
  ok(await alice.post(TASKS, { roomId, title: "small" }));
  await gateway.app.runMaintenance();
  assert.ok(ok(await alice.get(USAGE)).member.writtenToday.bytes > 1_000_000);
  // Erased before the flush, she is named in no row.
  ok(await alice.post(TASKS, { roomId, title: "last" }));
  await gateway.app.store.write(async ({ db }) => {
    await db.updateTable("principal").set({ id: "erased-1" }).where("id", "=", "alice").execute();
    await db.deleteFrom("written").where("owner_id", "=", "alice").execute();
  });
  await gateway.app.runMaintenance();
  const left = await gateway.app.store.db.selectFrom("written").select("owner_id").execute();
  assert.deepEqual([...new Set(left.map(({ owner_id }) => owner_id))], [""]);
});

Deno.test("messages that share a commit are charged to those who sent them", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const used = async (who: typeof alice): Promise<number> => ok(await who.get(USAGE)).member.writtenToday.bytes;
  const [alices, bobs] = [await used(alice), await used(bob)];
  await Promise.all([
    ...Array.from({ length: 20 }, () => alice.post("/v1/messages", { roomId, text: "x".repeat(10_000) })),
    ...Array.from({ length: 20 }, () => bob.post("/v1/messages", { roomId, text: "short" })),
  ]);
  const [alicesMore, bobsMore] = [await used(alice) - alices, await used(bob) - bobs];
  assert.ok(alicesMore > 400_000 && alicesMore < 600_000, `${alicesMore}`);
  assert.ok(bobsMore > 20 * 500 && bobsMore < 20 * 3000, `${bobsMore}`);
});

/** A body of which `bytes` come, and then nothing more until it is ended. */
function stalledBody(bytes: number): { body: ReadableStream<Uint8Array>; end: () => void } {
  const ended = Promise.withResolvers<void>();
  let sent = false;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!sent) {
        sent = true;
        return controller.enqueue(new Uint8Array(bytes).fill(65));
      }
      await ended.promise;
      controller.error(new Error("the client went away"));
    },
  }, { highWaterMark: 0 });
  return { body, end: ended.resolve };
}

Deno.test("uploads take space as they arrive: declared sizes reserve none", async () => {
  const MIB = 1024 * 1024;
  await using gateway = await openGateway({ SVC_LIMIT_TENANT_FILE_BYTES: `${20 * MIB}` });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const boss = await gateway.as("boss", { role: "admin" });
  const stored = async (): Promise<number> => ok(await boss.get(USAGE)).tenant.stored.bytes;
  const promises = Array.from({ length: 10 }, () => stalledBody(3000));
  const length = { "content-length": `${25 * MIB}` };
  const answers = promises.map(({ body }, n) => upload(gateway, alice, { name: `${n}` }, body, length));
  await until(async () => await stored() >= 10 * 3000, "all have begun");
  assert.ok(await stored() <= 10 * 64 * 1024, `${await stored()} bytes held for 30,000 that came`);
  ok(await upload(gateway, bob, { name: "large" }, new Uint8Array(15 * MIB)));
  for (const { end } of promises) end();
  for (const answer of await Promise.all(answers)) assert.equal(answer.status, 400);
  assert.equal(await stored(), 15 * MIB);
  // It ends where the space does, and nothing of it stays.
  const over = await upload(gateway, bob, { name: "over" }, new Uint8Array(8 * MIB));
  assertRefused(over, "quota_exceeded", /of this tenant may use at most 20971520 bytes/);
  assert.equal(await stored(), 15 * MIB);
});

Deno.test("the share of a member includes uploads of its agents, and does not affect others", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_MEMBER_FILE_BYTES: "100000" });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const robot = await gateway.as("robot", { kind: "agent", owner: "alice" });
  ok(await upload(gateway, alice, { name: "a" }, new Uint8Array(60_000)));
  assertRefused(await upload(gateway, robot, { name: "b" }, new Uint8Array(60_000)), "quota_exceeded", /100000 bytes/);
  const { id } = ok(await upload(gateway, robot, { name: "c" }, new Uint8Array(40_000)));
  assert.deepEqual(ok(await alice.get(USAGE)).member.stored, { bytes: 100_000, limit: 100_000 });
  ok(await upload(gateway, bob, { name: "d" }, new Uint8Array(60_000)));
  const metrics = (await bob.get("/metrics")).body;
  assert.match(metrics, /^svc_written_bytes [1-9]\d*(\.\d+)?$/m);
  assert.equal((await robot.delete(`/v1/collaboration/files/${id}`)).status, 204);
  assert.equal(ok(await alice.get(USAGE)).member.stored.bytes, 60_000);
});

Deno.test("stored exports count for their owner, and stop at its quota", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_MEMBER_FILE_BYTES: "300000" });
  const boss = await gateway.as("boss", { role: "owner" });
  const robot = await gateway.as("robot", { kind: "agent", owner: "boss", role: "owner" });
  const roomId = await createRoom(boss, []);
  for (let n = 0; n < 4; n++) ok(await boss.post(TASKS, { roomId, title: `${n}`, description: text }));
  const stored = async (): Promise<number> => ok(await boss.get(USAGE)).member.stored.bytes;
  const run = async (): Promise<ApiResponse["body"]> => {
    const asked = await boss.post(EXPORTS, { kind: "tenant" });
    if (asked.status !== 202) return asked;
    const twin = await robot.post(EXPORTS, { kind: "tenant" });
    assert.deepEqual([twin.status, twin.body.code], [409, "already_running"]);
    await gateway.runJobs();
    return ok(await boss.get(`${EXPORTS}/${asked.body.id}`));
  };
  const first = await run();
  assert.equal(first.state, "done");
  assert.ok(first.size > 160_000 && first.size < 300_000, `${first.size}`);
  assert.equal(await stored(), first.size);
  const second = await run();
  assert.deepEqual([second.state, second.failure.code], ["failed", "quota_exceeded"]);
  await gateway.runJobs();
  assert.equal(await stored(), first.size);
  assert.equal((await listFiles(gateway.folder)).length, 1);
  gateway.clock.advance(73 * 3_600_000);
  await gateway.runJobs();
  const later = await gateway.as("boss", { role: "owner" });
  assert.equal(ok(await later.get(USAGE)).member.stored.bytes, 0);
  assert.deepEqual(await listFiles(gateway.folder), []);
});

Deno.test("an archive counts while it is stored, for the principal that imports it", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_MEMBER_FILE_BYTES: "100000" });
  const boss = await gateway.as("boss", { role: "owner" });
  const stored = async (): Promise<number> => ok(await boss.get(USAGE)).member.stored.bytes;
  const { id } = ok(await boss.post("/v1/collaboration/imports", { kind: "gateway" }));
  assertRefused(await putArchive(boss, id, "x".repeat(200_000)), "quota_exceeded", /100000 bytes/);
  assert.equal(await stored(), 0);
  assert.equal((await putArchive(boss, id, `${"x".repeat(50_000)}\n`)).status, 202);
  assert.equal(await stored(), 50_001);
  await gateway.runJobs();
  assert.equal(await stored(), 0);
  assert.deepEqual(await listFiles(gateway.folder), []);
});
