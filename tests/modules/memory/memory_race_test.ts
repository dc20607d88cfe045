// Changes of one fact that meet: one of them wins, and nothing stays that should be erased.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { MemoryStore } from "@/modules/memory/store.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type ApiResponse, openGateway } from "../../harness.ts";
import { until } from "../../wait.ts";
import { createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { inRoom, ITEMS, listedTexts, remember } from "./memory_fixture.ts";

testOnEngines("of several facts that supersede one at the same time, one does", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const old = await remember(alice, inRoom(roomId), "zero");
  const answers = await Promise.all(
    ["one", "two", "three", "four"].map((text, at) =>
      (at % 2 === 0 ? alice : bob).post(ITEMS, { scope: { type: "room", id: roomId }, text, supersedes: old.id })
    ),
  );
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409, 409, 409]);
  assert.equal((await listedTexts(alice)).length, 1);
});

testOnEngines("the same text recorded at the same time is one fact", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const answers = await Promise.all(
    Array.from(
      { length: 6 },
      (_, at) => (at % 2 === 0 ? alice : bob).post(ITEMS, { scope: { type: "room", id: roomId }, text: "The same" }),
    ),
  );
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 200, 200, 200, 201]);
  assert.equal(new Set(answers.map(({ body }) => body.id)).size, 1);
});

testOnEngines("a fact whose source is deleted while it is recorded does not stay", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  for (let round = 0; round < 5; round++) {
    const message = await sendMessage(alice, roomId, `source ${round}`);
    const scopes = [{ type: "room", id: roomId }, { type: "principal" }];
    const [deleted, ...recorded] = await Promise.all([
      alice.delete(`/v1/messages/${message.id}`),
      ...scopes.map((scope) => bob.post(ITEMS, { scope, text: `Fact ${round}`, sourceMessageIds: [message.id] })),
    ]);
    assert.equal(deleted.status, 204);
    for (const { status } of recorded) assert.ok(status === 201 || status === 404, `${status}`);
  }
  assert.deepEqual(await listedTexts(bob), []);
  await gateway.runJobs();
  const { db } = gateway.app.store;
  const rows = await db.selectFrom("memory").select(["text", "status"]).execute();
  assert.ok(rows.every(({ text, status }) => text === null && status === "forgotten"), JSON.stringify(rows));
});

testOnEngines("a correction concurrent with the erasure of the fact does not restore it", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  for (let round = 0; round < 5; round++) {
    const message = await sendMessage(alice, roomId, `source ${round}`);
    const { id } = await remember(bob, { type: "principal" }, `Fact ${round}`, { sourceMessageIds: [message.id] });
    await Promise.all([
      alice.delete(`/v1/messages/${message.id}`).then(ok),
      bob.patch(`${ITEMS}/${id}`, { text: `Corrected ${round}` }),
      gateway.runJobs(),
      bob.patch(`${ITEMS}/${id}`, { pinned: true }),
    ]);
  }
  await gateway.runJobs();
  for (const table of ["memory", "memory_version"] as const) {
    const rows = await gateway.app.store.db.selectFrom(table).select("text").execute();
    assert.ok(rows.every(({ text }) => text === null), JSON.stringify(rows));
  }
});

testOnPostgres("who may not read a fact does not read it while it is erased", async (environment) => {
  await using gateway = await openGateway(environment);
  const root = await gateway.as("root", { role: "admin" });
  const { bob } = await createCallers(gateway, "bob");
  const roomId = await createRoom(bob, []);
  const reads = [
    (id: string) => bob.get(`${ITEMS}/${id}`),
    () => bob.get(ITEMS),
    () => bob.get("/v1/collaboration/me/memories"),
    () => bob.post("/v1/collaboration/memory/search", { query: "quokka" }),
    () => bob.get("/v1/search?types=memory&q=quokka"),
    () => bob.post("/v1/collaboration/context", { roomId, query: "quokka", budgetTokens: 8000 }),
  ];
  // Everybody may read facts of the tenant, but of this one's source only root may.
  const { id: messageId } = await sendMessage(root, await createRoom(root, []), "A source");
  for (const read of reads) {
    const readErased = async (): Promise<ApiResponse> => {
      const fact = { sourceMessageIds: [messageId], subjectIds: ["bob"] };
      const { id } = await remember(root, { type: "tenant" }, "A quokka", fact);
      const locked = Promise.withResolvers<void>();
      const reading = locked.promise.then(() => read(id));
      await gateway.app.store.enclose(async ({ db }) => {
        await sql`lock table memory_source`.execute(db);
        locked.resolve();
        const waiting = sql`select from pg_locks where relation = 'memory_source'::regclass and not granted`;
        await until(async () => (await waiting.execute(db)).rows.length > 0, "the reading waits");
        // Not through the API, whose calls begin outside of this transaction.
        await new MemoryStore(db).erase("default", [id]);
        await db.updateTable("memory").set({ status: "forgotten", text: null }).where("id", "=", id).execute();
      });
      return await reading;
    };
    let answer = await readErased();
    // On a slow machine it may have waited for too long.
    while (answer.status === 503) answer = await readErased();
    assert.ok([200, 404].includes(answer.status), `${answer.status}`);
    assert.ok(!JSON.stringify(answer.body).includes("A quokka"), `${read}: ${JSON.stringify(answer.body)}`);
  }
});
