// Rooms with hidden history: later events about older messages disclose nothing, on any path.
import assert from "node:assert/strict";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { openPeer, type Peer, pushesOn, sendCommand } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import { upload } from "../file/file_harness.ts";
import { createCaller, createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

const HIDDEN = "message.hidden";

type SeenEvent = { seq: number; id: string; type: string; at: string; actor: unknown; data: unknown };
type Publication = { data: Omit<SeenEvent, "seq">; offset: number };

/** A socket of the real hub that listens to a room. */
function listen(gateway: Harness, who: Caller, roomId: string): Promise<Peer> {
  return openPeer(gateway, who, `room:${roomId}`);
}

/** Publications as REST shows events. */
function seenIn(publications: Publication[]): SeenEvent[] {
  return publications.map(({ data, offset }) => ({ seq: offset, ...data }));
}

/** What a listener got live, up to a position. */
async function receivedEvents({ socket }: Peer, roomId: string, upTo: number): Promise<SeenEvent[]> {
  const all = (): SeenEvent[] => seenIn(pushesOn(socket, `room:${roomId}`));
  await until(() => (all().at(-1)?.seq ?? 0) >= upTo, `event ${upTo}`);
  return all();
}

Deno.test("events about older messages are redacted for members who joined after them, on every path", async () => {
  await using gateway = await openGateway();
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["carol"], { historyVisibility: "joined" });
  const channel = `room:${roomId}`;
  const root = await sendMessage(alice, roomId, "secret");
  const reply = await sendMessage(alice, roomId, "secret, too", { threadId: root.id });
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  const since = ok(await bob.get("/v1/collaboration/sync")).cursor;
  const [atBob, atCarol] = [await listen(gateway, bob, roomId), await listen(gateway, carol, roomId)];

  const path = `/v1/messages/${root.id}`;
  ok(await alice.patch(path, { text: "secret, edited", mentions: { principalIds: ["bob", "carol"], room: true } }));
  ok(await alice.put(`${path}/reactions/${encodeURIComponent("👍")}`));
  ok(await alice.delete(`${path}/reactions/${encodeURIComponent("👍")}`));
  ok(await alice.put(`${path}/pin`));
  ok(await alice.delete(`${path}/pin`));
  ok(await alice.delete(`/v1/messages/${reply.id}`));
  ok(await alice.delete(path));
  const last = await sendMessage(alice, roomId, "for everybody");
  const deeds = [
    ...["message.updated", "reaction.added", "reaction.removed", "message.pinned", "message.unpinned"],
    ...["message.deleted", "thread.updated", "message.deleted"],
  ];

  const full = await receivedEvents(atCarol, roomId, last.seq);
  assert.deepEqual(full.map(({ type }) => type), [...deeds, "message.created"]);
  assert.ok(JSON.stringify(full).includes("secret, edited"));
  const live = await receivedEvents(atBob, roomId, last.seq);
  const blank = (event: SeenEvent): SeenEvent => ({ ...event, type: HIDDEN, actor: null, data: {} });
  assert.deepEqual(live, [...full.slice(0, -1).map(blank), full.at(-1)]);

  const history = async (id: number, more: Record<string, unknown>) =>
    seenIn((await sendCommand(atBob, id, { history: { channel, limit: -1, ...more } })).history.publications);
  const sync = ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(since)}`));
  const inRoom = sync.events.filter((event: { channel: string }) => event.channel === channel);
  const ways: Record<string, unknown[]> = {
    events: await readRoomEvents(bob, roomId),
    sync: inRoom.map(({ channel: _, ...event }: { channel: string }) => event),
    history: await history(3, {}),
    back: (await history(4, { reverse: true })).reverse(),
  };
  await sendCommand(atBob, 5, { unsubscribe: { channel } });
  const again = await sendCommand(atBob, 6, { subscribe: { channel, recover: true, offset: 1 } });
  assert.equal(again.subscribe.recovered, true);
  ways["recovery"] = seenIn(again.subscribe.publications);
  for (const [way, events] of Object.entries(ways)) {
    // Most ways begin with bob's own coming.
    assert.deepEqual(events.slice(-live.length), live, way);
    assert.ok(!JSON.stringify(events).includes("secret"), way);
  }
});

Deno.test("a file deleted from an older message is not published to later members", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, [], { historyVisibility: "joined" });
  const [old, both] = [
    ok(await upload(gateway, alice, { name: "a" }, "a")).id,
    ok(await upload(gateway, alice, { name: "b" }, "b")).id,
  ];
  await sendMessage(alice, roomId, "before", { fileIds: [old, both] });
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  await sendMessage(alice, roomId, "after", { fileIds: [both] });
  for (const id of [old, both]) ok(await alice.delete(`/v1/collaboration/files/${id}`));
  const received = (await readRoomEvents(bob, roomId)).slice(-2).map(({ type, data }) => [type, data]);
  assert.deepEqual(received, [[HIDDEN, {}], ["file.deleted", { fileId: both }]]);
});

Deno.test("a mention in a hidden message does not notify", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["carol"], { historyVisibility: "joined" });
  const [one, two] = [await sendMessage(alice, roomId, "secret"), await sendMessage(alice, roomId, "secret, too")];
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  await alice.patch(`/v1/messages/${one.id}`, { mentions: { principalIds: ["bob", "carol"] } });
  await alice.patch(`/v1/messages/${two.id}`, { mentions: { room: true } });
  await gateway.runJobs();
  const mentions = async (who: Caller) =>
    ok(await who.get("/v1/collaboration/notifications?kind=mention")).items
      .map(({ messageId }: { messageId: string }) => messageId);
  assert.deepEqual(await mentions(bob), []);
  assert.deepEqual((await mentions(await gateway.as("carol"))).sort(), [one.id, two.id].sort());
});

Deno.test("an agent sees no more history than its owner, whichever of the two joined later", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob");
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "bob" });
  const roomId = await createRoom(alice, ["bob"], { historyVisibility: "joined" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`));
  const secret = await sendMessage(alice, roomId, "secret");
  // An agent leaves with its owner now, but rows of those who stayed and saw them come back may be there from before.
  await gateway.app.store.write((tx) =>
    tx.db.updateTable("member").set({ joined_seq: secret.seq, last_read_seq: secret.seq }).where(
      "tenant_id",
      "=",
      "default",
    )
      .where("room_id", "=", roomId).where("principal_id", "=", "bob").execute()
  );
  const peer = await listen(gateway, robo, roomId);
  ok(await alice.patch(`/v1/messages/${secret.id}`, { text: "secret, edited" }));
  const last = await sendMessage(alice, roomId, "for everybody");
  assert.deepEqual((await receivedEvents(peer, roomId, last.seq)).map(({ type }) => type), [HIDDEN, "message.created"]);
  assert.ok(!JSON.stringify(await readRoomEvents(robo, roomId)).includes("secret"));
  const listed = ok(await robo.get(`/v1/messages?roomId=${roomId}`)).items;
  assert.deepEqual(listed.map(({ id }: { id: string }) => id), [last.id]);
  assert.equal((await robo.get(`/v1/messages/${secret.id}`)).status, 404);
  assert.equal(ok(await robo.get(`/v1/rooms/${roomId}`)).unreadCount, 1);
  assert.equal(ok(await robo.get(`/v1/collaboration/unreads`)).items[0].unreadCount, 1);
  assert.equal(ok(await robo.get(`/v1/collaboration/sync`)).rooms[0].unreadCount, 1);
});

Deno.test("a change of the history visibility makes subscribers resubscribe, and then applies", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, []);
  const channel = `room:${roomId}`;
  const old = await sendMessage(alice, roomId, "old");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  const peer = await listen(gateway, bob, roomId);
  let id = 2;
  const editedAfter = async (historyVisibility: string): Promise<string | undefined> => {
    ok(await alice.patch(`/v1/rooms/${roomId}`, { historyVisibility }));
    await until(() => pushesOn(peer.socket, channel, "unsubscribe").length === id - 1, "the unsubscribe");
    assert.equal(pushesOn(peer.socket, channel, "unsubscribe").at(-1).code, 2500);
    assert.ok((await sendCommand(peer, ++id, { subscribe: { channel } })).subscribe);
    ok(await alice.patch(`/v1/messages/${old.id}`, { text: `edited, ${historyVisibility}` }));
    const { seq } = await sendMessage(alice, roomId, "next");
    return (await receivedEvents(peer, roomId, seq)).at(-2)?.type;
  };
  assert.equal(await editedAfter("joined"), HIDDEN);
  assert.equal(await editedAfter("shared"), "message.updated");
});

Deno.test("no one can reply to a message that is hidden from them", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, [], { historyVisibility: "joined" });
  const old = await sendMessage(alice, roomId, "secret");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  for (const field of ["threadId", "replyToId"]) {
    const refused = await bob.post("/v1/messages", { roomId, text: "what was that?", [field]: old.id });
    const unknown = await bob.post("/v1/messages", { roomId, text: "?", [field]: old.id.replace(/.{4}$/, "0000") });
    assert.equal(refused.body.code, "validation_failed");
    assert.deepEqual(refused.body.errors, unknown.body.errors);
    ok(await alice.post("/v1/messages", { roomId, text: "I may", [field]: old.id }));
  }
});

Deno.test("a hidden message responds as one that does not exist, also where the role would not suffice", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, [], { historyVisibility: "joined" });
  const hidden = await sendMessage(alice, roomId, "secret");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  const seen = await sendMessage(alice, roomId, "for everybody");
  const answers = async (id: string) =>
    [
      ...await Promise.all(
        ["before", "after", "around"].map((anchor) => bob.get(`/v1/messages?roomId=${roomId}&${anchor}=${id}`)),
      ),
      await bob.put(`/v1/messages/${id}/pin`),
      await bob.delete(`/v1/messages/${id}`),
    ].map(({ status }) => status);
  assert.deepEqual(await answers(hidden.id.replace(/.{4}$/, "0000")), [404, 404, 404, 404, 404]);
  assert.deepEqual(await answers(hidden.id), [404, 404, 404, 404, 404]);
  assert.deepEqual(await answers(seen.id), [200, 200, 200, 403, 403]);
});
