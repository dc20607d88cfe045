// Rooms through the door.
import assert from "node:assert/strict";
import { temporarySchema } from "../conformance/store_backends.ts";
import { openGateway } from "../harness.ts";

Deno.test("room.create makes a room that its creator owns and reads back", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const created = await alice.post("/v1/rooms", { name: "Operations" });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  assert.equal(created.body.myRole, "owner");
  const read = await alice.get(`/v1/rooms/${created.body.id}`);
  assert.equal(read.status, 200);
  assert.deepEqual(read.body, created.body);
});

Deno.test("message.send puts a message at the next place of the room's line", async () => {
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

Deno.test("room.update changes of the agent policy what it names, and me.update of the preferences", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
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

Deno.test("an update that says nothing changes nothing", async () => {
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

Deno.test("room.list finds what was updated since a time, however exactly the time is written", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  gateway.clock.advance(500);
  await alice.post("/v1/rooms", { name: "a" });
  const found = async (time: string) => (await alice.get(`/v1/rooms?updatedSince=${time}`)).body.items.length;
  const times = ["12:00:00Z", "12:00:00.5Z", "12:00:00.500000Z", "12:00:00.501Z", "12:00:01Z"];
  const counts = await Promise.all(times.map((time) => found(`2026-03-01T${time}`)));
  assert.deepEqual(counts, [1, 1, 1, 0, 0]);
});

Deno.test("who left a direct room starts another one with the same people", async () => {
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

Deno.test("a restored direct room is the one of its people again, unless they have another by then", async () => {
  await using gateway = await openGateway();
  const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
  await bob.get("/v1/collaboration/me");
  const make = async () => (await alice.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["bob"] })).body.id;
  const first = await make();
  await alice.delete(`/v1/rooms/${first}`);
  assert.equal((await alice.post(`/v1/rooms/${first}/restore`)).status, 200);
  assert.equal(await make(), first);
  await alice.delete(`/v1/rooms/${first}`);
  const second = await make();
  assert.equal((await alice.post(`/v1/rooms/${first}/restore`)).status, 200);
  assert.equal(await make(), second);
});

Deno.test("message.list around a message has it in its middle, however few are asked for", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "a" });
  const ids: string[] = [];
  for (const text of "01234") ids.push((await alice.post("/v1/messages", { roomId: room.id, text })).body.id);
  const around = async (limit: number) => {
    const { body } = await alice.get(`/v1/messages?roomId=${room.id}&around=${ids[2]}&limit=${limit}`);
    return body.items.map((item: { text: string }) => item.text).join("");
  };
  assert.deepEqual(await Promise.all([1, 2, 3, 5].map(around)), ["2", "12", "123", "01234"]);
});

async function takesExtremes(environment: Record<string, string>): Promise<void> {
  await using gateway = await openGateway(environment);
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "a" });
  await alice.post("/v1/messages", { roomId: room.id, text: "one" });
  const far = "9".repeat(64);
  const counts = [];
  for (const query of [`before=${far}`, `after=${far}`, `around=${far}`, "types="]) {
    counts.push((await alice.get(`/v1/messages?roomId=${room.id}&${query}`)).body.items?.length);
  }
  assert.deepEqual(counts, [1, 0, 1, 1]);
}

Deno.test("sqlite: message.list takes a position beyond all others, and no types as all", () => takesExtremes({}));

const url = Deno.env.get("TEST_POSTGRES_URL");
Deno.test({
  name: "postgres: message.list takes a position beyond all others, and no types as all",
  ignore: url === undefined,
  async fn() {
    const schema = await temporarySchema(url ?? "");
    try {
      await takesExtremes({ SVC_DATABASE_URL: schema.url });
    } finally {
      await schema.drop();
    }
  },
});
