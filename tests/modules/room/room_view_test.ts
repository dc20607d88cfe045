// What lists of rooms include: the newest visible message, and the other members of direct rooms.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { testOnEngines } from "../../engines.ts";
import { type Caller, openGateway } from "../../harness.ts";
import { uploadPicture } from "../file/file_harness.ts";
import { recordQueries } from "../query_log.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

/** The newest message of a room, as each way to read rooms returns it. */
async function lastIn(who: Caller, roomId: string) {
  const rooms = [
    ...ok(await who.get("/v1/rooms?include=lastMessage&member=me")).items,
    ...ok(await who.get("/v1/collaboration/sync?include=lastMessage")).rooms,
    ok(await who.get(`/v1/rooms/${roomId}?include=members,lastMessage`)),
  ].filter(({ id }) => id === roomId).map(({ lastMessage }) => lastMessage);
  assert.equal(rooms.length, 3);
  for (const last of rooms) assert.deepEqual(last, rooms[0]);
  return rooms[0];
}

testOnEngines("rooms include the newest message that is visible to the caller", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  ok(await bob.patch("/v1/collaboration/me", { displayName: "Bobby" }));
  const roomId = await createRoom(alice, ["bob"], { historyVisibility: "joined" });
  assert.equal(await lastIn(alice, roomId), null);
  const long = `${"x".repeat(199)}🌴 and more`;
  const root = await sendMessage(bob, roomId, long);
  const shown = {
    id: root.id,
    seq: root.seq,
    senderId: "bob",
    senderKind: "human",
    senderName: "Bobby",
    type: "text",
    preview: "x".repeat(199),
    hasFiles: false,
    threadId: null,
    createdAt: root.createdAt,
    deletedAt: null,
  };
  assert.deepEqual(await lastIn(alice, roomId), shown);
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`));
  assert.equal(await lastIn(carol, roomId), null);
  assert.deepEqual(await lastIn(alice, roomId), shown);
  const reply = await sendMessage(alice, roomId, "reply", { threadId: root.id });
  const own = await lastIn(carol, roomId);
  assert.deepEqual([own.preview, own.threadId, own.senderName], ["reply", root.id, "alice"]);
  ok(await alice.patch(`/v1/messages/${reply.id}`, { text: "edited" }));
  assert.equal((await lastIn(carol, roomId)).preview, "edited");
  ok(await alice.delete(`/v1/messages/${reply.id}`));
  const deleted = await lastIn(carol, roomId);
  assert.deepEqual([deleted.id, deleted.preview, deleted.deletedAt === null], [reply.id, null, false]);
  assert.equal(ok(await alice.get("/v1/rooms")).items[0].lastMessage, undefined);
});

testOnEngines(
  "a room includes its agents, and the pinned messages that the caller may see",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, [], { historyVisibility: "joined" });
    const agent = ok(await alice.post("/v1/collaboration/principals", { kind: "agent", displayName: "Helper" }));
    ok(await alice.put(`/v1/rooms/${roomId}/members/${agent.id}`));
    const early = await sendMessage(alice, roomId, "y".repeat(300));
    ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
    const late = await sendMessage(bob, roomId, "late");
    await sendMessage(bob, roomId, "not pinned");
    for (const { id } of [early, late]) {
      ok(await alice.put(`/v1/messages/${id}/pin`));
      gateway.clock.advance(1000);
    }
    const seen = async (who: Caller) => {
      const { pins, agents, members } = ok(await who.get(`/v1/rooms/${roomId}?include=pins,agents`));
      assert.equal(members, undefined);
      assert.deepEqual(agents.map(({ principalId }: { principalId: string }) => principalId), [agent.id]);
      return pins.map(({ id, preview, senderName }: Record<string, string>) => [id, preview, senderName]);
    };
    const lateShown = [late.id, "late", "bob"];
    assert.deepEqual(await seen(alice), [lateShown, [early.id, "y".repeat(200), "alice"]]);
    assert.deepEqual(await seen(bob), [lateShown]);
    ok(await alice.delete(`/v1/messages/${late.id}`));
    assert.deepEqual(await seen(bob), []);
    const { pins, agents } = ok(await alice.get(`/v1/rooms/${roomId}`));
    assert.deepEqual([pins, agents], [undefined, undefined]);
  },
);

Deno.test("without the scope for messages, rooms include none", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "eve");
  const roomId = await createRoom(alice, [], { visibility: "public", historyVisibility: "joined" });
  await sendMessage(alice, roomId, "hush");
  const eve = await gateway.as("eve");
  assert.equal(ok(await eve.get("/v1/rooms?include=lastMessage")).items[0].lastMessage, null);
  const scoped = await gateway.as("alice", { scope: "room.read" });
  const room = `/v1/rooms/${roomId}`;
  for (const path of ["/v1/rooms?include=lastMessage", `${room}?include=lastMessage`, `${room}?include=pins`]) {
    assertProblem(await scoped.get(path), 403, "scope_missing");
  }
  ok(await scoped.get("/v1/rooms"));
});

testOnEngines("a direct room shows each member the others", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const avatarFileId = await uploadPicture(gateway, bob);
  ok(await bob.patch("/v1/collaboration/me", { displayName: "Bobby", avatarFileId }));
  const direct = { kind: "direct" };
  const two = ok(await alice.post("/v1/rooms", { ...direct, memberIds: ["bob"] }));
  const three = ok(await alice.post("/v1/rooms", { ...direct, memberIds: ["bob", "carol"] }));
  const bobby = {
    id: "bob",
    kind: "human",
    handle: null,
    displayName: "Bobby",
    avatarFileId,
    status: null,
    state: "active",
  };
  assert.deepEqual(two.direct, { name: "Bobby", principals: [bobby] });
  const directOf = async (who: Caller, roomId: string) => {
    const rooms = [
      ...ok(await who.get("/v1/rooms")).items,
      ...ok(await who.get("/v1/collaboration/sync")).rooms,
      ok(await who.get(`/v1/rooms/${roomId}`)),
    ].filter(({ id }) => id === roomId).map((room) => room.direct);
    for (const one of rooms) assert.deepEqual(one, rooms[0]);
    return rooms[0];
  };
  assert.equal((await directOf(bob, two.id)).name, "alice");
  assert.equal((await directOf(alice, three.id)).name, "Bobby, carol");
  assert.equal((await directOf(carol, three.id)).name, "alice, Bobby");
  const admin = await gateway.as("root", { role: "admin" });
  ok(await admin.delete("/v1/collaboration/principals/bob"));
  assert.deepEqual((await directOf(alice, two.id)).principals, [{ ...bobby, state: "disabled" }]);
  ok(await carol.delete(`/v1/rooms/${three.id}/members/me`));
  assert.equal((await directOf(alice, three.id)).name, "Bobby");
  assert.equal(ok(await alice.get(`/v1/rooms/${await createRoom(alice, [])}`)).direct, undefined);
});

Deno.test("a long page of rooms takes as many statements as a short one, and reads one message of each", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob");
  const rooms = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n++) {
      const roomId = await createRoom(alice, ["bob"]);
      for (const text of ["one", "two"]) await sendMessage(alice, roomId, text);
    }
  };
  const list = () => recordQueries(async () => void ok(await alice.get("/v1/rooms?include=lastMessage")));
  ok(await alice.post("/v1/rooms", { kind: "direct", memberIds: ["bob"] }));
  await rooms(0, 2);
  await list();
  const few = await list();
  await rooms(2, 40);
  await list();
  const many = await list();
  assert.equal(many.length, few.length);
  const statement = many.find(({ sql }) => sql.includes("as newest")) ?? assert.fail();
  const plan = await gateway.app.store.db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${statement.sql}`, [...statement.parameters]),
  );
  const lines = plan.rows.map(({ detail }) => detail).join("; ");
  assert.match(lines, /SEARCH message USING INDEX message_room_seq \(room_id=\? AND seq=\?\)/);
  assert.match(lines, /SEARCH newest USING COVERING INDEX message_room_seq \(room_id=\? AND seq>\?\)/);
  assert.doesNotMatch(lines, /SCAN message/);
});
