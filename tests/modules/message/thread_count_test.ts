// Events of replies have the reply count of their thread, where members may know it.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

testOnEngines("message.created of a reply has the reply count of its thread", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const root = await sendMessage(alice, roomId, "root");
  const other = await sendMessage(alice, roomId, "another root");
  const replies = [await sendMessage(bob, roomId, "one", { threadId: root.id })];
  // Concurrent replies share a batch.
  const texts = ["two", "three", "four"];
  replies.push(...await Promise.all(texts.map((text) => sendMessage(bob, roomId, text, { threadId: root.id }))));
  await sendMessage(alice, roomId, "elsewhere", { threadId: other.id });
  await ok(await bob.delete(`/v1/messages/${replies[0].id}`));
  const last = await sendMessage(bob, roomId, "five", { threadId: root.id });
  const events = (await readRoomEvents(alice, roomId, other.seq)).filter(({ type }) => type === "message.created");
  const counts = events.filter(({ data }) => data.message.threadId === root.id).map(({ data }) => data.thread);
  assert.deepEqual(counts.map(({ replyCount }) => replyCount), [1, 2, 3, 4, 4]);
  assert.deepEqual(counts.at(-1), { replyCount: 4, lastReplyAt: last.createdAt });
  const read = ok(await alice.get(`/v1/messages/${root.id}`));
  assert.deepEqual({ replyCount: read.replyCount, lastReplyAt: read.lastReplyAt }, counts.at(-1));
  const [created] = await readRoomEvents(alice, roomId, root.seq - 1);
  assert.equal(created?.data.thread, undefined);
});

Deno.test("message.created of a reply has no count in a room with hidden history", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, [], { historyVisibility: "joined" });
  const root = await sendMessage(alice, roomId, "root");
  await sendMessage(alice, roomId, "before bob", { threadId: root.id });
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  await sendMessage(alice, roomId, "after", { threadId: root.id });
  const events = (await readRoomEvents(bob, roomId)).filter(({ type }) => type === "message.created");
  assert.deepEqual(events.map(({ data }) => [data.message.text, data.thread]), [["after", undefined]]);
});

Deno.test("messages have the first principals of each reaction, at most ten", async () => {
  await using gateway = await openGateway();
  const names = Array.from({ length: 12 }, (_, n) => `p${String(n).padStart(2, "0")}`);
  const { alice } = await createCallers(gateway, "alice");
  const others = await createCallers(gateway, ...names);
  const roomId = await createRoom(alice, names);
  const { id } = await sendMessage(alice, roomId, "shipped");
  for (const name of names.toReversed()) {
    gateway.clock.advance(1000);
    ok(await (others[name] ?? assert.fail()).put(`/v1/messages/${id}/reactions/:shipit:`));
  }
  const [{ reactions }] = ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items;
  assert.deepEqual(reactions, [
    { key: ":shipit:", count: 12, me: false, principalIds: names.toReversed().slice(0, 10) },
  ]);
});
