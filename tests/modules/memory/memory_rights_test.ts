// Who may read a fact: the right on its scope and on one of its sources, as rights are at the time of the call.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { testOnEngines } from "../../engines.ts";
import { type Caller, openGateway } from "../../harness.ts";
import {
  assertProblem,
  completeSearch,
  createCaller,
  createCallers,
  createRoom,
  ok,
  readRoomEvents,
  sendMessage,
} from "../fixtures.ts";
import { recordQueries } from "../query_log.ts";
import { foundTexts, inRoom, ITEMS, listedTexts, myTexts, remember } from "./memory_fixture.ts";

const TEXT = "The vault code is kept by Nina";
const QUERY = "who keeps the vault code";

/** Whether the caller meets the fact, which must be the same on every path. */
async function sees(who: Caller, id: string, text = TEXT): Promise<boolean> {
  const answer = await who.get(`${ITEMS}/${id}`);
  const isRead = answer.status === 200 && answer.body.text === text;
  if (!isRead) assert.ok(answer.status === 404 || answer.body.text === null, `${answer.status}`);
  const isListed = (await listedTexts(who)).includes(text);
  const isFound = (await foundTexts(who, QUERY)).includes(text);
  assert.deepEqual([isListed, isFound], [isRead, isRead], "lists and searches show what can be read");
  if (!isRead) {
    const more = { scope: { type: "principal" }, text: "other", supersedes: id };
    assertProblem(await who.post(ITEMS, more), 404, "not_found");
    assertProblem(await who.patch(`${ITEMS}/${id}`, { pinned: true }), 404, "not_found");
    assertProblem(await who.delete(`${ITEMS}/${id}`), 404, "not_found");
    const history = await who.get(`${ITEMS}/${id}/history`);
    if (history.status === 200) assert.deepEqual(history.body.items, [], "of what was erased");
    else assertProblem(history, 404, "not_found");
  }
  return isRead;
}

testOnEngines("a room's fact is for its members, as long as they are", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const stranger = await gateway.as("stranger", { tenant: "elsewhere", role: "owner" });
  const roomId = await createRoom(alice, ["bob"]);
  const { id } = await remember(alice, inRoom(roomId), TEXT, { subjectIds: ["eve"] });
  assert.deepEqual([await sees(alice, id), await sees(bob, id)], [true, true]);
  assert.deepEqual([await sees(eve, id), await sees(stranger, id)], [false, false]);
  assert.deepEqual(await myTexts(eve), [], "a fact about somebody reveals no room");
  assertProblem(await eve.post(ITEMS, { scope: { type: "room", id: roomId }, text: "x" }), 404, "not_found");
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  assert.equal(await sees(bob, id), false);
  ok(await alice.delete(`/v1/rooms/${roomId}`));
  assert.equal(await sees(alice, id), false);
});

testOnEngines("roles in a room decide who records, changes and erases its facts", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["bob", "carol"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`, { role: "observer" }));
  const { id } = await remember(alice, inRoom(roomId), TEXT, { subjectIds: [] });
  assert.equal(await sees(carol, id), true);
  assertProblem(await carol.post(ITEMS, { scope: { type: "room", id: roomId }, text: "x" }), 403, "forbidden");
  assertProblem(await carol.patch(`${ITEMS}/${id}`, { pinned: true }), 403, "forbidden");
  assertProblem(await carol.delete(`${ITEMS}/${id}`), 403, "forbidden");
  assert.equal(ok(await bob.patch(`${ITEMS}/${id}`, { subjectIds: ["carol"] })).version, 2);
  assertProblem(await bob.delete(`${ITEMS}/${id}`), 403, "forbidden");
  // Nor in two steps.
  assertProblem(await bob.patch(`${ITEMS}/${id}`, { subjectIds: ["bob", "carol"] }), 403, "forbidden");
  const expiresAt = new Date(gateway.clock.now() + 1000).toISOString();
  assertProblem(await bob.patch(`${ITEMS}/${id}`, { expiresAt }), 403, "forbidden");
  ok(await alice.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  assertProblem(await bob.patch(`${ITEMS}/${id}`, { pinned: true }), 409, "room_archived");
  assert.equal(
    (await carol.delete(`${ITEMS}/${id}`)).status,
    204,
    "who it is about may, as an observer and in an archive",
  );
});

testOnEngines("facts of a principal, an agent and the tenant are for these", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const gus = await gateway.as("gus", { role: "guest" });
  const boss = await gateway.as("boss", { role: "admin" });
  const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
  for (const who of [gus, boss, robo]) ok(await who.get("/v1/collaboration/me"));

  const own = await remember(alice, { type: "principal" }, TEXT, { subjectIds: ["bob"] });
  assert.deepEqual([await sees(alice, own.id), await sees(bob, own.id), await sees(boss, own.id)], [
    true,
    false,
    false,
  ]);
  assert.equal(await sees(robo, own.id), false, "an agent does not read what its owner noted");
  assert.deepEqual(await myTexts(alice), [TEXT]);
  assert.equal((await alice.delete(`${ITEMS}/${own.id}`)).status, 204);
  assertProblem(await bob.post(ITEMS, { scope: { type: "principal", id: "alice" }, text: "x" }), 404, "not_found");

  const agents = await remember(alice, { type: "agent", id: "robo" }, TEXT);
  assert.deepEqual([await sees(alice, agents.id), await sees(robo, agents.id)], [true, true]);
  assert.deepEqual([await sees(bob, agents.id), await sees(boss, agents.id)], [false, false]);
  ok(await alice.patch(`${ITEMS}/${agents.id}`, { subjectIds: ["bob"] }));
  assert.equal(await sees(bob, agents.id), true, "what an agent knows about a person, that person sees");
  assert.deepEqual(await myTexts(bob), [TEXT]);
  assertProblem(await bob.patch(`${ITEMS}/${agents.id}`, { pinned: true }), 404, "not_found");
  assert.equal((await bob.delete(`${ITEMS}/${agents.id}`)).status, 204, "and erases");
  assertProblem(await bob.post(ITEMS, { scope: { type: "agent", id: "robo" }, text: "x" }), 404, "not_found");

  const common = await remember(boss, { type: "tenant" }, TEXT);
  assert.deepEqual(common.scope, { type: "tenant", id: "default" });
  assert.deepEqual([await sees(alice, common.id), await sees(bob, common.id)], [true, true]);
  assert.deepEqual([await sees(robo, common.id), await sees(gus, common.id)], [true, false]);
  assertProblem(await alice.post(ITEMS, { scope: { type: "tenant" }, text: "x" }), 403, "forbidden");
  assertProblem(await alice.patch(`${ITEMS}/${common.id}`, { pinned: true }), 403, "forbidden");
  assertProblem(await alice.delete(`${ITEMS}/${common.id}`), 403, "forbidden");
  ok(await boss.patch(`${ITEMS}/${common.id}`, { subjectIds: ["gus"] }));
  assert.equal(await sees(gus, common.id), true);
});

testOnEngines("a fact with sources is for readers of one of them, who see no other", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const boss = await createCaller(gateway, "boss", { role: "admin" });
  const [first, second] = [await createRoom(alice, ["boss", "bob"]), await createRoom(alice, ["boss", "carol"])];
  const [one, two] = [await sendMessage(alice, first, "It is Nina"), await sendMessage(alice, second, "Nina has it")];
  const scope = { type: "tenant" } as const;
  const hidden = await sendMessage(bob, await createRoom(bob, []), "elsewhere");
  const post = (sourceMessageIds: string[]) => boss.post(ITEMS, { scope, text: TEXT, sourceMessageIds });
  assertProblem(await post([one.id, hidden.id]), 404, "not_found");
  const { id } = ok(await post([one.id, two.id]));
  assert.deepEqual([await sees(bob, id), await sees(carol, id)], [true, true]);
  const dora = await gateway.as("dora");
  assert.equal(await sees(dora, id), false, "the right on the scope is not enough");
  const sourcesSeenBy = async (who: Caller) =>
    ok(await who.get(`${ITEMS}/${id}`)).sources.map(({ messageId }: { messageId: string }) => messageId);
  assert.deepEqual([await sourcesSeenBy(bob), await sourcesSeenBy(carol)], [[one.id], [two.id]]);
  ok(await alice.delete(`/v1/rooms/${first}/members/bob`));
  assert.equal(await sees(bob, id), false);
  // The same text from who cannot see it is a fact of its own.
  const room = await createRoom(bob, ["boss"]);
  const own = await sendMessage(bob, room, "my own");
  ok(await alice.delete(`/v1/rooms/${second}/members/boss`));
  ok(await alice.delete(`/v1/rooms/${first}/members/boss`));
  assert.notEqual(ok(await post([own.id])).id, id);
  const other = await boss.post(ITEMS, { scope: { type: "room", id: room }, text: "x", sourceMessageIds: [own.id] });
  assert.equal(other.status, 201);
});

testOnEngines("with the last source a fact is erased: deleted, expired, purged", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const other = await createRoom(alice, ["bob"]);
  const [one, two] = [await sendMessage(alice, roomId, "one"), await sendMessage(alice, roomId, "two")];
  const fact = await remember(bob, inRoom(roomId), TEXT, { sourceMessageIds: [one.id, two.id] });
  assert.equal((await alice.delete(`/v1/messages/${one.id}`)).status, 204);
  assert.equal(await sees(bob, fact.id), true);
  await gateway.runJobs();
  assert.equal(await sees(bob, fact.id), true);
  assert.equal(ok(await bob.get(`${ITEMS}/${fact.id}`)).sources.length, 1);
  assert.equal((await alice.delete(`/v1/messages/${two.id}`)).status, 204);
  assert.equal(await sees(bob, fact.id), false, "at once, before any job has run");
  await gateway.runJobs();
  assert.equal(await sees(bob, fact.id), false);
  assert.equal(ok(await bob.get(`${ITEMS}/${fact.id}`)).status, "forgotten");
  const events = (await readRoomEvents(bob, roomId)).filter(({ type }) => type === "memory.forgotten");
  assert.deepEqual(events.map(({ data }) => data.memoryId), [fact.id]);
  await assertNothingStored();

  // Retention.
  const old = await sendMessage(alice, roomId, "old");
  const expiring = await remember(alice, { type: "principal" }, TEXT, { sourceMessageIds: [old.id] });
  gateway.clock.advance(8 * 86_400_000);
  const later = await gateway.as("alice");
  assert.equal(await sees(later, expiring.id), true);
  ok(await later.patch(`/v1/rooms/${roomId}`, { retentionDays: 7 }));
  await gateway.app.runMaintenance();
  await gateway.runJobs();
  assert.equal(await sees(later, expiring.id), false);
  await assertNothingStored();

  // A room that is purged, with facts of its own and elsewhere.
  const last = await sendMessage(later, other, "last");
  const away = await remember(later, { type: "principal" }, TEXT, { sourceMessageIds: [last.id] });
  const inside = await remember(later, inRoom(other), `${TEXT} now`);
  ok(await later.delete(`/v1/rooms/${other}`));
  assert.equal(await sees(later, away.id), false);
  gateway.clock.advance(31 * 86_400_000);
  await gateway.runJobs();
  const last2 = await gateway.as("alice");
  assertProblem(await last2.get(`${ITEMS}/${inside.id}`), 404, "not_found");
  await assertNothingStored();

  async function assertNothingStored(): Promise<void> {
    const { db } = gateway.app.store;
    for (const table of ["memory", "memory_version", "memory_source"] as const) {
      const rows = await db.selectFrom(table).selectAll().execute();
      assert.ok(!JSON.stringify(rows).includes("vault"), `${table}: ${JSON.stringify(rows)}`);
    }
    const left = await db.selectFrom("search_document").select("id").where("kind", "=", "memory").execute();
    assert.deepEqual(left, []);
  }
});

testOnEngines("hidden history hides facts about it, in lists, searches and events", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["carol"], { historyVisibility: "joined" });
  const before = await sendMessage(alice, roomId, "before");
  const noted = await remember(alice, inRoom(roomId), `${TEXT}, noted before`);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  const after = await sendMessage(alice, roomId, "after");
  const about = await remember(alice, inRoom(roomId), TEXT, { sourceMessageIds: [before.id] });
  const both = await remember(carol, inRoom(roomId), `${TEXT}, twice`, { sourceMessageIds: [before.id, after.id] });
  const open = await remember(alice, inRoom(roomId), `${TEXT}, noted after`);
  const seenBy = async (who: Caller) => [
    await sees(who, noted.id, `${TEXT}, noted before`),
    await sees(who, about.id),
    await sees(who, both.id, `${TEXT}, twice`),
    await sees(who, open.id, `${TEXT}, noted after`),
  ];
  assert.deepEqual(await seenBy(carol), [true, true, true, true]);
  assert.deepEqual(await seenBy(bob), [false, false, true, true]);
  assert.equal(ok(await bob.get(`${ITEMS}/${both.id}`)).sources.length, 1);
  ok(await alice.patch(`${ITEMS}/${about.id}`, { pinned: true }));
  ok(await alice.patch(`${ITEMS}/${noted.id}`, { pinned: true }));
  const types = (await readRoomEvents(bob, roomId)).map(({ type }) => type).filter((type) =>
    /memory|hidden/.test(type)
  );
  assert.deepEqual(types, ["message.hidden", "memory.created", "memory.created", "message.hidden", "message.hidden"]);

  // When the newer source is deleted, what is left is about hidden history.
  ok(await alice.delete(`/v1/messages/${after.id}`));
  assert.equal(await sees(bob, both.id, `${TEXT}, twice`), false);
  await gateway.runJobs();
  assert.equal(await sees(bob, both.id, `${TEXT}, twice`), false);
  assert.equal(await sees(carol, both.id, `${TEXT}, twice`), true);
});

testOnEngines("a public room's facts are for who may browse it", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const gus = await createCaller(gateway, "gus", { role: "guest" });
  const roomId = await createRoom(alice, [], { visibility: "public" });
  const { id } = await remember(alice, inRoom(roomId), TEXT);
  assert.deepEqual([await sees(bob, id), await sees(gus, id)], [true, false]);
  assertProblem(await bob.patch(`${ITEMS}/${id}`, { pinned: true }), 403, "forbidden");
});

testOnEngines("an agent reads no more facts than its owner", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "bob" });
  const roomId = await createRoom(alice, ["bob", "robo"]);
  const message = await sendMessage(alice, roomId, "source");
  const { id } = await remember(alice, inRoom(roomId), TEXT, { sourceMessageIds: [message.id] });
  const own = await remember(bob, { type: "agent", id: "robo" }, `${TEXT}, too`, { sourceMessageIds: [message.id] });
  assert.deepEqual([await sees(robo, id), await sees(robo, own.id, `${TEXT}, too`)], [true, true]);
  ok(await bob.delete(`/v1/rooms/${roomId}/members/me`));
  assert.deepEqual([await sees(robo, id), await sees(robo, own.id, `${TEXT}, too`)], [false, false]);
});

Deno.test("scopes and owners have a limited number of facts, and a message is the source of a limited number", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const message = await sendMessage(alice, roomId, "source");
  const { id } = await remember(alice, inRoom(roomId), "one", { sourceMessageIds: [message.id] });
  const { store } = gateway.app;
  const copies = async (count: number, change: Record<string, unknown>) => {
    const [row] = await store.db.selectFrom("memory").selectAll().where("id", "=", id).execute();
    const rows = Array.from(
      { length: count },
      () => ({ ...row, id: `mem_${crypto.randomUUID().replaceAll("-", "")}`, ...change }),
    );
    await store.write((tx) => tx.insertMany("memory", rows));
    return rows;
  };
  const post = (more: Record<string, unknown> = {}, who = alice, scope: unknown = { type: "room", id: roomId }) =>
    who.post(ITEMS, { scope, text: crypto.randomUUID(), ...more });
  const sourced = await copies(99, {});
  await store.write((tx) =>
    tx.insertMany(
      "memory_source",
      sourced.map((row) => ({
        tenant_id: "default",
        memory_id: row.id,
        message_id: message.id,
        room_id: roomId,
        seq: message.seq,
      })),
    )
  );
  assertProblem(await post({ sourceMessageIds: [message.id] }), 409, "limit_reached");
  await copies(9900, { owner_id: "carol" });
  assertProblem(await post(), 409, "limit_reached");
  const principal = { type: "principal" };
  assert.equal((await post({}, alice, principal)).status, 201);
  await copies(20_000, { owner_id: "bob", scope_id: "elsewhere" });
  assertProblem(await post({}, bob, principal), 409, "limit_reached");
  const statements = await recordQueries(async () => {
    assert.deepEqual(ok(await bob.get(`${ITEMS}?q=nothing`)).items, []);
  });
  const pieces = statements.filter(({ sql }) => sql.includes("source_list"));
  assert.ok(pieces.length > 10, "others are served while all facts are read");
  for (const { sql, parameters } of pieces) {
    const query = CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]);
    const { rows } = await store.db.executeQuery<{ detail: string }>(query);
    assert.ok(rows.every(({ detail }) => !detail.includes("ORDER BY")), "none sorts more than it returns");
  }
  // All that the message was the source of is erased, in parts.
  ok(await alice.delete(`/v1/messages/${message.id}`));
  await gateway.runJobs();
  assert.deepEqual(await store.db.selectFrom("memory_source").selectAll().execute(), []);
});

testOnEngines("neither scores nor counts of a search disclose facts that the caller may not read", async (engine) => {
  await using gateway = await openGateway(engine);
  const { bob } = await createCallers(gateway, "bob");
  const boss = await createCaller(gateway, "boss", { role: "admin" });
  const secret = await createRoom(boss, []);
  const { id: source } = await sendMessage(boss, secret, "source");
  const own = { type: "principal" } as const;
  for (let n = 0; n < 60; n++) await remember(bob, own, `Pelican number ${n} eats fish`);
  const ask = async (): Promise<unknown[]> => {
    const paths = ["sort=recent&limit=5", "sort=relevance&limit=5", "mode=keyword&limit=5"];
    const answers = await Promise.all(
      paths.map((more) => completeSearch(() => bob.get(`/v1/search?types=memory&q=pelican+merger&${more}`))),
    );
    const plain = await completeSearch(() => bob.get("/v1/search?types=memory&q=pelican&sort=recent&limit=5"));
    return [...answers, plain].map(({ items, totalEstimate, hasMore }) => [
      items.map(({ score }: { score: number }) => score),
      totalEstimate,
      hasMore,
    ]);
  };
  const before = await ask();
  await remember(boss, { type: "tenant" }, "The pelican merger is secret", { sourceMessageIds: [source] });
  for (let n = 0; n < 60; n++) {
    await remember(boss, { type: "tenant" }, `Pelican merger ${n}`, { sourceMessageIds: [source] });
  }
  assert.deepEqual(await ask(), before);
});
