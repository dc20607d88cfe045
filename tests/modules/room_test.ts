// Rooms through the door.
import assert from "node:assert/strict";
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
