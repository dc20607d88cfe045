// Deleting a message deletes its content from stored events as well; the events and their positions stay.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, openGateway } from "../../harness.ts";
import { openPeer, pushesOn, sendCommand } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import { upload } from "../file/file_harness.ts";
import { createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

testOnEngines("the content of a deleted message is not returned anywhere in its room", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const since = ok(await bob.get("/v1/collaboration/sync")).cursor;
  const mentions = { principalIds: ["alice"], room: false };
  const gone = await sendMessage(bob, roomId, "secret", { metadata: { key: "secret" }, mentions });
  const other = await sendMessage(alice, roomId, "other", { replyToId: gone.id });
  ok(await bob.patch(`/v1/messages/${gone.id}`, { text: "secret, still" }));
  const posing = { data: { message: { id: gone.id } } };
  ok(await alice.patch(`/v1/messages/${other.id}`, { metadata: posing }));
  ok(await bob.patch(`/v1/messages/${gone.id}`, { metadata: { key: "secret, too" } }));
  const before = await readRoomEvents(bob, roomId);
  ok(await alice.delete(`/v1/messages/${gone.id}`));

  const events = await readRoomEvents(bob, roomId);
  const named = before.filter(({ data }) => (data.messageId ?? data.message?.id) === gone.id);
  assert.equal(named.length, 3);
  const [created, edited, changed] = named as [ApiResponse["body"], ApiResponse["body"], ApiResponse["body"]];
  assert.deepEqual([edited.data.changes.text, changed.data.changes.metadata], ["secret, still", {
    key: "secret, too",
  }]);
  created.data.message = { ...created.data.message, text: null, metadata: {}, files: [] };
  edited.data.changes.text = null;
  changed.data.changes.metadata = {};
  assert.deepEqual(events.slice(0, -1), before);
  // Clients that count mentions need these.
  assert.deepEqual(events.at(-1)?.data.previousMentions, mentions);

  const channel = `room:${roomId}`;
  const peer = await openPeer(gateway, bob);
  const ways = {
    recovery: (await sendCommand(peer, 2, { subscribe: { channel, recover: true, offset: 1 } })).subscribe.publications,
    history: (await sendCommand(peer, 3, { history: { channel, limit: -1 } })).history.publications,
    sync: ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(since)}`)).events,
  };
  for (const [way, found] of Object.entries(ways)) {
    assert.ok(JSON.stringify(found).includes(gone.id), way);
    assert.ok(!JSON.stringify(found).includes("secret"), way);
  }
});

testOnEngines("a deletion after the clock was set back removes the content from events too", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice: early } = await createCallers(gateway, "alice");
  const roomId = await createRoom(early, []);
  for (let minute = 0; minute < 20; minute++) {
    gateway.clock.advance(60_000);
    await sendMessage(early, roomId, "earlier, and later");
  }
  const document = `/v1/collaboration/documents/${
    ok(await early.post("/v1/collaboration/documents", { title: "x", roomId })).id
  }`;
  const comments = [ok(await early.post(`${document}/comments`, { text: "secret" }))];
  gateway.clock.advance(-15 * 60_000);
  const alice = await gateway.as("alice");
  comments.push(ok(await alice.post(`${document}/comments`, { text: "secret" })));
  const { id } = await sendMessage(alice, roomId, "plain");
  ok(await alice.patch(`/v1/messages/${id}`, { text: "secret" }));
  assert.equal(JSON.stringify(await readRoomEvents(alice, roomId)).split("secret").length, 4);
  ok(await alice.delete(`/v1/messages/${id}`));
  for (const comment of comments) ok(await alice.delete(`${document}/comments/${comment.id}`));
  assert.ok(!JSON.stringify(await readRoomEvents(alice, roomId)).includes("secret"));
});

testOnEngines("no event has the files of a deleted message", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id: fileId } = ok(await upload(gateway, alice, { name: "secret.txt" }, "x"));
  const { id } = await sendMessage(alice, roomId, "look", { fileIds: [fileId] });
  assert.ok(JSON.stringify(await readRoomEvents(alice, roomId)).includes("secret.txt"));
  ok(await alice.delete(`/v1/messages/${id}`));
  assert.ok(!JSON.stringify(await readRoomEvents(alice, roomId)).includes("secret.txt"));
});

Deno.test("a page of events that was read before a deletion is not returned after it, with and without subscribers", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_RECOVERY_EVENTS: "5" });
  const { alice } = await createCallers(gateway, "alice");
  for (const isHeard of [true, false]) {
    const roomId = await createRoom(alice, []);
    const { id } = await sendMessage(alice, roomId, "secret");
    for (let n = 0; n < 8; n++) await sendMessage(alice, roomId, "more");
    const recover = async () => {
      const peer = await openPeer(gateway, alice);
      const { subscribe } = await sendCommand(peer, 2, {
        subscribe: { channel: `room:${roomId}`, recover: true, offset: 1 },
      });
      return { peer, said: JSON.stringify(subscribe.publications).includes("secret") };
    };
    const before = await recover();
    assert.ok(before.said);
    if (!isHeard) await sendCommand(before.peer, 3, { unsubscribe: { channel: `room:${roomId}` } });
    ok(await alice.delete(`/v1/messages/${id}`));
    if (isHeard) {
      await until(() =>
        pushesOn(before.peer.socket, `room:${roomId}`).some(({ data }) => data.type === "message.deleted")
      );
    }
    assert.ok(!(await recover()).said);
  }
});
