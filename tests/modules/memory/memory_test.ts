// Facts: recorded, proposed, corrected, replaced and erased.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
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
import { foundTexts, inRoom, ITEMS, listedTexts, myTexts, remember } from "./memory_fixture.ts";

testOnEngines("memory.create records a fact with its sources, once for each text", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const message = await sendMessage(bob, roomId, "We deploy on Thursdays from now on");
  const answer = await alice.post(ITEMS, {
    scope: { type: "room", id: roomId },
    text: "  Deployments are on Thursdays. ",
    kind: "decision",
    subjectIds: ["bob", "bob"],
    sourceMessageIds: [message.id],
    confidence: 0.9,
    validFrom: "2026-02-01T01:00:00+01:00",
  });
  assert.equal(answer.status, 201);
  assert.equal(answer.headers.get("location"), `${ITEMS}/${answer.body.id}`);
  assert.deepEqual(answer.body, {
    id: answer.body.id,
    scope: { type: "room", id: roomId },
    kind: "decision",
    text: "Deployments are on Thursdays.",
    subjectIds: ["bob"],
    sources: [{ roomId, seq: message.seq, messageId: message.id }],
    confidence: 0.9,
    validFrom: "2026-02-01T00:00:00.000Z",
    validTo: null,
    expiresAt: null,
    pinned: false,
    status: "active",
    supersedes: null,
    supersededBy: null,
    version: 1,
    createdBy: "alice",
    createdAt: "2026-03-01T12:00:00.000Z",
    updatedAt: "2026-03-01T12:00:00.000Z",
  });
  assert.deepEqual(ok(await bob.get(`${ITEMS}/${answer.body.id}`)), answer.body);

  const again = await bob.post(ITEMS, { scope: { type: "room", id: roomId }, text: "deployments are on  THURSDAYS" });
  assert.deepEqual([again.status, again.body.id], [200, answer.body.id]);
  const own = await bob.post(ITEMS, { scope: { type: "principal" }, text: "Deployments are on Thursdays." });
  assert.equal(own.status, 201, "another scope has facts of its own");
  assert.deepEqual(await foundTexts(bob, "on which day are deployments"), [
    "Deployments are on Thursdays.",
  ], "what is said twice is recalled once");
});

testOnEngines("memory.update keeps the earlier text, and needs the version that it was based on", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { id } = await remember(alice, inRoom(roomId), "The office closes at six");
  const path = `${ITEMS}/${id}`;
  const etag = (await bob.get(path)).headers.get("etag") ?? "";
  const change = { text: "The office closes at seven", pinned: true };
  const updated = ok(await bob.patch(path, change, { "if-match": etag }));
  assert.deepEqual([updated.text, updated.pinned, updated.version], ["The office closes at seven", true, 2]);
  assertProblem(await alice.patch(path, { pinned: false }, { "if-match": etag }), 412, "version_mismatch");
  assert.equal(ok(await alice.patch(path, change)).version, 2, "nothing changes");
  const { items } = ok(await alice.get(`${path}/history?limit=1`));
  assert.deepEqual(items.map(({ text, changedBy }: { text: string; changedBy: string }) => [text, changedBy]), [
    ["The office closes at seven", "bob"],
  ]);
  const { nextCursor } = ok(await alice.get(`${path}/history?limit=1`));
  const rest = ok(await alice.get(`${path}/history?limit=1&cursor=${nextCursor}`)).items;
  assert.deepEqual(rest.map(({ text, version }: { text: string; version: number }) => [text, version]), [
    ["The office closes at six", 1],
  ]);
  assert.deepEqual(await foundTexts(bob, "closes at seven"), ["The office closes at seven"]);
  assert.deepEqual(await foundTexts(bob, "six"), []);
});

testOnEngines("memory.create with supersedes retires the older fact, which is never recalled", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const old = await remember(alice, inRoom(roomId), "Nina lives in Berlin", { pinned: true });
  const replaced = await remember(bob, inRoom(roomId), "Nina lives in Vienna", { supersedes: old.id });
  assert.equal(replaced.supersedes, old.id);
  assert.deepEqual(await foundTexts(alice, "where does Nina live, Berlin?"), ["Nina lives in Vienna"]);
  assert.deepEqual(await listedTexts(alice), ["Nina lives in Vienna"]);
  assert.deepEqual(await listedTexts(alice, "status=superseded"), ["Nina lives in Berlin"]);
  const retired = ok(await alice.get(`${ITEMS}/${old.id}`));
  assert.deepEqual([retired.status, retired.supersededBy, retired.pinned], ["superseded", replaced.id, false]);
  assert.equal(retired.validTo, "2026-03-01T12:00:00.000Z");

  const late = { scope: { type: "room", id: roomId }, text: "Nina lives in Graz", supersedes: old.id };
  assertProblem(await alice.post(ITEMS, late), 409, "already_superseded");
  assertProblem(await alice.patch(`${ITEMS}/${old.id}`, { pinned: true }), 409, "already_superseded");
  const elsewhere = { scope: { type: "principal" }, text: "Nina moved", supersedes: replaced.id };
  assertProblem(await alice.post(ITEMS, elsewhere), 404, "not_found");
  // Forgetting the newer one restores nothing.
  assert.equal((await bob.delete(`${ITEMS}/${replaced.id}`)).status, 204);
  assert.deepEqual(await foundTexts(alice, "where does Nina live"), []);

  const types = (await readRoomEvents(bob, roomId)).filter(({ type }) => type.startsWith("memory."));
  assert.deepEqual(types.map(({ type, data }) => [type, data.memoryId === old.id ? "old" : "new", data.status]), [
    ["memory.created", "old", "active"],
    ["memory.created", "new", "active"],
    ["memory.superseded", "old", "superseded"],
    ["memory.forgotten", "new", "forgotten"],
  ]);
  assert.ok(!JSON.stringify(types).includes("Nina"), "events have no text");
});

testOnEngines("an agent proposes, and people decide", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "bob" });
  const roomId = await createRoom(alice, ["bob", "robo"]);
  const fact = await remember(alice, inRoom(roomId), "The logo is green");
  const message = await sendMessage(bob, roomId, "The logo shall be blue");
  const scope = { type: "room", id: roomId };
  const text = "The logo is blue";

  const sourceless = await robo.post(ITEMS, { scope, text });
  assert.equal(sourceless.status, 422);
  assert.equal(sourceless.body.errors[0].pointer, "/sourceMessageIds");
  const proposal = await remember(robo, inRoom(roomId), text, { sourceMessageIds: [message.id], supersedes: fact.id });
  assert.equal(proposal.status, "proposed");
  assert.deepEqual(await foundTexts(alice, "what colour is the logo"), ["The logo is green"], "it retires nothing");
  assert.deepEqual(await listedTexts(alice, "status=proposed"), [text]);
  const path = `${ITEMS}/${proposal.id}`;
  for (
    const answer of [
      await robo.patch(path, { status: "active" }),
      await robo.patch(`${ITEMS}/${fact.id}`, { text: "The logo is red" }),
      await robo.delete(`${ITEMS}/${fact.id}`),
    ]
  ) assertProblem(answer, 403, "forbidden");
  assert.equal(ok(await robo.patch(path, { confidence: 0.5 })).confidence, 0.5, "its own proposal it may correct");
  const second = await remember(robo, inRoom(roomId), "The font is old", { sourceMessageIds: [message.id] });
  assert.equal((await robo.delete(`${ITEMS}/${second.id}`)).status, 204, "and withdraw");

  assert.equal(ok(await alice.patch(path, { status: "active" })).status, "active");
  assert.deepEqual(await foundTexts(alice, "what colour is the logo"), [text]);
  assert.equal(ok(await alice.get(`${ITEMS}/${fact.id}`)).status, "superseded");
  assertProblem(await robo.delete(path), 403, "forbidden");
  const service = await gateway.as("importer", { kind: "service" });
  const own = await remember(service, { type: "principal" }, "Imports run at night");
  assert.equal(own.status, "proposed");
});

testOnEngines("a proposal whose fact was replaced meanwhile is not activated", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice } = await createCallers(gateway, "alice");
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "alice" });
  const roomId = await createRoom(alice, ["robo"]);
  const old = await remember(alice, inRoom(roomId), "Lunch is at noon");
  const { id: source } = await sendMessage(alice, roomId, "Lunch at one");
  const more = { sourceMessageIds: [source], supersedes: old.id };
  const proposal = await remember(robo, inRoom(roomId), "Lunch is at one", more);
  await remember(alice, inRoom(roomId), "Lunch is at two", { supersedes: old.id });
  assertProblem(await alice.patch(`${ITEMS}/${proposal.id}`, { status: "active" }), 409, "already_superseded");
  assert.deepEqual(await foundTexts(alice, "when is lunch"), ["Lunch is at two"]);
});

testOnEngines("memory.forget erases text, sources and history, and leaves the id until it expires", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["bob", "carol"]);
  const { id: source } = await sendMessage(bob, roomId, "I am allergic to nuts");
  const more = { subjectIds: ["bob"], sourceMessageIds: [source] };
  const fact = await remember(carol, inRoom(roomId), "Bob is allergic to nuts", more);
  const other = await remember(carol, inRoom(roomId), "Carol likes tea");
  assert.deepEqual(await myTexts(bob), ["Bob is allergic to nuts"]);
  assertProblem(await bob.delete(`${ITEMS}/${other.id}`), 403, "forbidden");
  assert.equal((await bob.delete(`${ITEMS}/${fact.id}`)).status, 204, "a person erases what is known about them");
  assert.equal((await alice.delete(`${ITEMS}/${other.id}`)).status, 204, "and an owner of the room all of it");
  assertProblem(await bob.delete(`${ITEMS}/${fact.id}`), 404, "not_found");

  assert.deepEqual([await listedTexts(alice), await myTexts(bob), await foundTexts(alice, "allergic nuts")], [
    [],
    [],
    [],
  ]);
  const left = ok(await alice.get(`${ITEMS}/${fact.id}`));
  assert.deepEqual([left.text, left.status, left.subjectIds, left.sources], [null, "forgotten", [], []]);
  assert.deepEqual(ok(await alice.get(`${ITEMS}/${fact.id}/history`)).items, []);
  for (const table of ["memory", "memory_version", "event", "search_document"] as const) {
    const rows = await gateway.app.store.db.selectFrom(table).selectAll().execute();
    assert.ok(!JSON.stringify(rows).includes("Bob is allergic"), table);
  }
  gateway.clock.advance(31 * DAY_MS);
  await gateway.app.runMaintenance();
  const later = await gateway.as("alice");
  assertProblem(await later.get(`${ITEMS}/${fact.id}`), 404, "not_found");
});

testOnEngines("facts are recalled only while they are valid, and erased when they expire", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice } = await createCallers(gateway, "alice");
  const own = { type: "principal" } as const;
  await remember(alice, own, "The rate was ten percent", { validTo: "2026-02-01T00:00:00Z" });
  await remember(alice, own, "The rate is twelve percent", { validFrom: "2026-02-01T00:00:00Z" });
  await remember(alice, own, "The rate will be fifteen percent", { validFrom: "2027-01-01T00:00:00Z" });
  const code = await remember(alice, own, "The rate code is nine", { expiresAt: "2026-03-01T12:30:00Z" });
  assert.deepEqual(await foundTexts(alice, "the rate percent"), [
    "The rate code is nine",
    "The rate is twelve percent",
  ]);
  const atTimes: [at: string, texts: string[]][] = [
    ["2026-01-01T00:00:00Z", ["The rate code is nine", "The rate was ten percent"]],
    ["2026-03-01T12:00:00Z", ["The rate code is nine", "The rate is twelve percent"]],
    ["2027-02-01T00:00:00Z", [
      "The rate code is nine",
      "The rate is twelve percent",
      "The rate will be fifteen percent",
    ]],
  ];
  for (const [at, texts] of atTimes) {
    const { items } = await completeSearch(() =>
      alice.post("/v1/collaboration/memory/search", { query: "rate percent", at })
    );
    assert.deepEqual(items.map(({ memory }: { memory: { text: string } }) => memory.text).sort(), texts, at);
  }
  assert.equal((await listedTexts(alice)).length, 4);
  assert.equal((await alice.post(ITEMS, { scope: own, text: "x", expiresAt: "2026-01-01T00:00:00Z" })).status, 422);

  gateway.clock.advance(31 * 60_000);
  assertProblem(await alice.get(`${ITEMS}/${code.id}`), 404, "not_found");
  assert.deepEqual(await foundTexts(alice, "rate code"), ["The rate is twelve percent"]);
  gateway.clock.advance(3_600_000);
  await gateway.app.runMaintenance();
  const later = await gateway.as("alice");
  assert.equal(ok(await later.get(`${ITEMS}/${code.id}`)).status, "forgotten");
});

testOnEngines("memory.list filters and pages", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  for (let n = 0; n < 5; n++) await remember(alice, inRoom(roomId), `Fact ${n}`, { pinned: n === 3 });
  await remember(alice, { type: "principal" }, "My own", { kind: "preference", subjectIds: ["bob"] });
  const first = ok(await alice.get(`${ITEMS}?scopeType=room&scopeId=${roomId}&limit=3`));
  const query = `scopeType=room&scopeId=${roomId}&limit=3&cursor=${encodeURIComponent(first.nextCursor)}`;
  const second = ok(await alice.get(`${ITEMS}?${query}`));
  const texts = [...first.items, ...second.items].map(({ text }: { text: string }) => text);
  assert.deepEqual(texts, ["Fact 4", "Fact 3", "Fact 2", "Fact 1", "Fact 0"]);
  assert.equal(second.hasMore, false);
  assertProblem(await bob.get(`${ITEMS}?${query}`), 400, "invalid_cursor");
  assert.deepEqual(await listedTexts(alice, "pinned=true"), ["Fact 3"]);
  assert.deepEqual(await listedTexts(alice, "kind=preference"), ["My own"]);
  assert.deepEqual(await listedTexts(alice, "q=own"), ["My own"]);
  assert.deepEqual(await listedTexts(alice, "subjectId=bob"), ["My own"]);
  assert.deepEqual(await listedTexts(alice, "scopeType=principal&scopeId=me"), ["My own"]);
  assert.equal((await alice.get(`${ITEMS}?scopeId=${roomId}`)).status, 422);
});

Deno.test("an Idempotency-Key creates one fact", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const old = await remember(alice, { type: "principal" }, "One");
  const body = { scope: { type: "principal" }, text: "Two", supersedes: old.id };
  const first = await alice.post(ITEMS, body, { "idempotency-key": "k1" });
  const second = await alice.post(ITEMS, body, { "idempotency-key": "k1" });
  assert.deepEqual([second.status, second.body], [first.status, first.body]);
  assert.deepEqual(await listedTexts(alice), ["Two"]);
});

Deno.test("without search, facts are listed and not searched", async () => {
  await using gateway = await openGateway({ SVC_SEARCH: "off" });
  const { alice } = await createCallers(gateway, "alice");
  await remember(alice, { type: "principal" }, "One");
  assert.deepEqual(await listedTexts(alice), ["One"]);
  assertProblem(await alice.post("/v1/collaboration/memory/search", { query: "one" }), 404, "search_not_configured");
});
