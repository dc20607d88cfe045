// Facts in archives: exported with their rooms and messages, imported where they are missing.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { foundTexts, inRoom, ITEMS, listedTexts, myTexts, remember } from "../memory/memory_fixture.ts";
import {
  exportRoom,
  exportTenant,
  importArchive,
  parseRecords,
  recordsOfType,
  skipCounts,
  toArchive,
} from "./transfer_fixture.ts";

testOnEngines("facts are exported and imported with their sources, scopes and replacements", async (engine) => {
  await using source = await openGateway(engine);
  const { alice, bob } = await createCallers(source, "alice", "bob");
  await createCaller(source, "robo", { kind: "agent", owner: "alice" });
  const boss = await source.as("boss", { role: "owner" });
  const roomId = await createRoom(alice, ["bob"]);
  const [one, two] = [await sendMessage(bob, roomId, "one"), await sendMessage(bob, roomId, "two")];
  const more = { subjectIds: ["bob"], sourceMessageIds: [one.id, two.id], confidence: 0.5 };
  await remember(alice, inRoom(roomId), "The kiln is hot", more);
  const old = await remember(alice, inRoom(roomId), "The kiln is cold");
  await remember(alice, inRoom(roomId), "The kiln is warm", { supersedes: old.id, pinned: true });
  const lost = await sendMessage(bob, roomId, "lost");
  await remember(alice, { type: "principal" }, "The kiln of alice", { sourceMessageIds: [two.id] });
  await remember(alice, { type: "agent", id: "robo" }, "The kiln of robo", { subjectIds: ["bob"] });
  await remember(boss, { type: "tenant" }, "The kiln of all", { expiresAt: "2026-04-01T00:00:00Z" });
  const forgotten = await remember(alice, inRoom(roomId), "The kiln is forgotten");
  ok(await alice.delete(`${ITEMS}/${forgotten.id}`));
  await remember(alice, inRoom(roomId), "The kiln is lost", { sourceMessageIds: [lost.id] });
  ok(await bob.delete(`/v1/messages/${lost.id}`));

  const archive = await exportTenant(source, boss);
  const texts = ["all", "alice", "robo"].map((name) => `The kiln of ${name}`);
  const records = recordsOfType(archive, "memory");
  assert.deepEqual(
    records.map(({ text }) => text).sort(),
    [
      "The kiln is cold",
      "The kiln is hot",
      "The kiln is warm",
      ...texts,
    ].sort(),
  );
  assert.equal(parseRecords(archive).at(-1).counts.facts, 6);
  // Of a room alone, without what is elsewhere.
  const ofRoom = await exportRoom(source, alice, roomId);
  assert.equal(recordsOfType(ofRoom, "memory").length, 3);
  assert.equal((await importArchive(source, boss, "gateway", archive)).progress.added.facts, 0);

  await using target = await openGateway();
  const owner = await target.as("boss", { role: "owner" });
  const [first] = records;
  const position = parseRecords(archive).findIndex(({ type }) => type === "memory");
  const changed = toArchive(
    parseRecords(archive).toSpliced(
      position,
      0,
      { ...first, id: "mem_1", text: "" },
      { ...first, id: "mem_2", scope: { type: "room", id: "room_elsewhere" } },
      { ...first, id: "mem_3", sources: [{ messageId: "msg_unknown" }] },
      { ...first, id: "mem_4", expiresAt: "2026-01-01T00:00:00.000Z" },
      { ...first, id: "mem_5", sources: [], scope: { type: "agent", id: "bob" } },
    ),
  );
  const done = await importArchive(target, owner, "gateway", changed);
  assert.equal(done.progress.added.facts, 6);
  assert.deepEqual(skipCounts(done), {
    invalid_record: 1,
    unknown_room: 1,
    source_missing: 1,
    fact_expired: 1,
    unknown_scope: 1,
  });
  const [alice2, bob2] = [await target.as("alice"), await target.as("bob")];
  assert.deepEqual(await foundTexts(alice2, "the kiln"), ["The kiln is hot", "The kiln is warm", ...texts].sort());
  assert.deepEqual(await foundTexts(bob2, "the kiln"), [
    "The kiln is hot",
    "The kiln is warm",
    "The kiln of all",
    "The kiln of robo",
  ]);
  assert.deepEqual(await myTexts(bob2), ["The kiln is hot", "The kiln of robo"]);
  assert.deepEqual(await listedTexts(alice2, "status=superseded"), ["The kiln is cold"]);
  assert.deepEqual(recordsOfType(await exportTenant(target, owner), "memory"), records);
  // What was imported and then erased is not imported again.
  const hot = ok(await alice2.get(`${ITEMS}?q=hot`)).items[0];
  ok(await alice2.delete(`${ITEMS}/${hot.id}`));
  target.clock.advance(31 * 86_400_000);
  await target.app.runMaintenance();
  const again = await importArchive(target, await target.as("boss", { role: "owner" }), "gateway", archive);
  assert.equal(again.progress.added.facts, 0);
});

Deno.test("the export of a room has no facts about history that is hidden from who asked for it", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, [], { historyVisibility: "joined" });
  const before = await sendMessage(alice, roomId, "before");
  await remember(alice, inRoom(roomId), "Noted before");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "owner" }));
  const after = await sendMessage(alice, roomId, "after");
  await remember(alice, inRoom(roomId), "About before", { sourceMessageIds: [before.id] });
  await remember(alice, inRoom(roomId), "About both", { sourceMessageIds: [before.id, after.id] });
  const records = recordsOfType(await exportRoom(gateway, bob, roomId), "memory");
  assert.deepEqual(records.map(({ text, sources }) => [text, sources.length]), [["About both", 1]]);
});
