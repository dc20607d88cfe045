// Marking everything as read in one call: a whole room, or all rooms.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { recordQueries } from "../query_log.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

testOnEngines("read.put with `all` marks a room as read to its end", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const last = await sendMessage(alice, roomId, "bob?", { mentions: { principalIds: ["bob"] } });
  await gateway.runJobs();
  const read = ok(await bob.put(`/v1/rooms/${roomId}/read`, { seq: "all" }));
  assert.deepEqual(read, {
    roomId,
    lastReadSeq: last.seq,
    unreadCount: 0,
    mentionCount: 0,
    badgeCount: 0,
    lastSeq: last.seq,
  });
  assert.equal(ok(await bob.get("/v1/collaboration/notifications?unread=true&kind=mention")).items.length, 0);
  assertProblem(await bob.put(`/v1/rooms/${roomId}/read`, { seq: "everything" }), 422, "validation_failed");
  assertProblem(await bob.put(`/v1/rooms/${roomId}/read`, {}), 422, "validation_failed");
});

testOnEngines(
  "unread.read_all marks all rooms of the caller as read, and of no other principal",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
    const rooms: string[] = [];
    for (let n = 0; n < 106; n++) rooms.push(await createRoom(alice, ["bob", "carol"]));
    const quiet = rooms.splice(101);
    for (const roomId of rooms) await sendMessage(alice, roomId, "bob?", { mentions: { principalIds: ["bob"] } });
    await createRoom(alice, ["carol"]);
    await gateway.runJobs();
    const { cursor } = ok(await bob.get("/v1/collaboration/sync"));
    const transactions: number[] = [];
    const { onCommit } = gateway.app.store;
    gateway.app.store.onCommit = (committed) => {
      const count = committed.events.filter(({ type }) => type === "read.updated").length;
      if (count > 0) transactions.push(count);
      onCommit(committed);
    };
    assert.deepEqual(ok(await bob.post("/v1/collaboration/unreads/read")), { roomCount: 101 });
    assert.deepEqual(transactions, [100, 1]);
    const { items } = ok(await bob.get("/v1/collaboration/unreads"));
    assert.equal(items.length, 106);
    for (const { unreadCount, mentionCount, lastReadSeq, lastSeq } of items) {
      assert.deepEqual([unreadCount, mentionCount, lastReadSeq], [0, 0, lastSeq]);
    }
    assert.equal(ok(await bob.get("/v1/collaboration/notifications?unread=true&kind=mention")).items.length, 0);
    assert.equal(ok(await bob.get("/v1/collaboration/notifications")).unreadCount, 106);
    const told = ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(cursor)}`));
    assert.deepEqual(told.unreads.map((one: { roomId: string }) => one.roomId).sort(), [...rooms].sort());
    const others = ok(await carol.get("/v1/collaboration/unreads")).items;
    assert.equal(others.filter((one: { unreadCount: number }) => one.unreadCount === 1).length, 101);
    assert.deepEqual(ok(await bob.post("/v1/collaboration/unreads/read")), { roomCount: 0 });
    assert.equal(quiet.length, 5);
  },
);

Deno.test("unread.read_all needs as many queries for many rooms as for few", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const statements = async (count: number): Promise<number> => {
    for (let n = 0; n < count; n++) await sendMessage(alice, await createRoom(alice, ["bob"]), "hello");
    const answered = await recordQueries(async () => void ok(await bob.post("/v1/collaboration/unreads/read")));
    return answered.filter(({ sql }) => /"member"|"notification"/.test(sql)).length;
  };
  const few = await statements(2);
  assert.ok(few > 0);
  assert.equal(await statements(90), few);
});
