// What a deleted message said is gone, also from the events that told of it; their places stay.
import assert from "node:assert/strict";
import { onEngines } from "../engines.ts";
import { openGateway } from "../harness.ts";
import { ask, FakeSocket, pushes } from "../transport/ws_rig.ts";
import { until } from "../wait.ts";
import { openFileGateway, upload } from "./file_rig.ts";
import { eventsOf, ok, people, roomOf, say } from "./team.ts";

onEngines("what a deleted message said is on no way back into its room", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const since = ok(await bob.get("/v1/collaboration/sync")).cursor;
  const mentions = { principalIds: ["alice"], room: false };
  const gone = await say(bob, roomId, "secret", { metadata: { key: "secret" }, mentions });
  const other = await say(alice, roomId, "other", { replyToId: gone.id });
  ok(await bob.patch(`/v1/messages/${gone.id}`, { text: "secret, still" }));
  const posing = { data: { message: { id: gone.id } } };
  ok(await alice.patch(`/v1/messages/${other.id}`, { metadata: posing }));
  ok(await bob.patch(`/v1/messages/${gone.id}`, { metadata: { key: "secret, too" } }));
  const before = await eventsOf(bob, roomId);
  ok(await alice.delete(`/v1/messages/${gone.id}`));

  const events = await eventsOf(bob, roomId);
  const isAbout = ({ data }: { data: { message?: { id: string } } }): boolean => data.message?.id === gone.id;
  const emptied = before.map((event) => {
    const nothing = { text: null, metadata: {}, files: [] };
    return isAbout(event)
      ? { ...event, data: { ...event.data, message: { ...event.data.message, ...nothing } } }
      : event;
  });
  assert.equal(before.filter(isAbout).length, 3);
  assert.deepEqual(events.slice(0, -1), emptied);
  // Those who count mentions count on these.
  assert.deepEqual(events.at(-1)?.data.previousMentions, mentions);

  const channel = `room:${roomId}`;
  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
  await ask(peer, 1, { connect: { token: bob.token } });
  const ways = {
    recovery: (await ask(peer, 2, { subscribe: { channel, recover: true, offset: 1 } })).subscribe.publications,
    history: (await ask(peer, 3, { history: { channel, limit: -1 } })).history.publications,
    sync: ok(await bob.get(`/v1/collaboration/sync?since=${encodeURIComponent(since)}`)).events,
  };
  for (const [way, found] of Object.entries(ways)) {
    assert.ok(JSON.stringify(found).includes(gone.id), way);
    assert.ok(!JSON.stringify(found).includes("secret"), way);
  }
});

onEngines("what is deleted after the clock was set back is told no more either", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice: early } = await people(gateway, "alice");
  const roomId = await roomOf(early, []);
  for (let minute = 0; minute < 20; minute++) {
    gateway.clock.advance(60_000);
    await say(early, roomId, "earlier, and later");
  }
  const document = `/v1/collaboration/documents/${
    ok(await early.post("/v1/collaboration/documents", { title: "x", roomId })).id
  }`;
  const comments = [ok(await early.post(`${document}/comments`, { text: "secret" }))];
  gateway.clock.advance(-15 * 60_000);
  const alice = await gateway.as("alice");
  comments.push(ok(await alice.post(`${document}/comments`, { text: "secret" })));
  const { id } = await say(alice, roomId, "plain");
  ok(await alice.patch(`/v1/messages/${id}`, { text: "secret" }));
  assert.equal(JSON.stringify(await eventsOf(alice, roomId)).split("secret").length, 4);
  ok(await alice.delete(`/v1/messages/${id}`));
  for (const comment of comments) ok(await alice.delete(`${document}/comments/${comment.id}`));
  assert.ok(!JSON.stringify(await eventsOf(alice, roomId)).includes("secret"));
});

onEngines("the files of a deleted message are named by no event", async (environment) => {
  await using rig = await openFileGateway(environment);
  const { alice } = await people(rig.gateway, "alice");
  const roomId = await roomOf(alice, []);
  const { id: fileId } = ok(await upload(rig.gateway, alice, { name: "secret.txt" }, "x"));
  const { id } = await say(alice, roomId, "look", { fileIds: [fileId] });
  assert.ok(JSON.stringify(await eventsOf(alice, roomId)).includes("secret.txt"));
  ok(await alice.delete(`/v1/messages/${id}`));
  assert.ok(!JSON.stringify(await eventsOf(alice, roomId)).includes("secret.txt"));
});

Deno.test("a page of the log that was read before a deletion is not given after it, whether or not anybody listened", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_RECOVERY_EVENTS: "5" });
  const { alice } = await people(gateway, "alice");
  for (const isHeard of [true, false]) {
    const roomId = await roomOf(alice, []);
    const { id } = await say(alice, roomId, "secret");
    for (let n = 0; n < 8; n++) await say(alice, roomId, "more");
    const recover = async () => {
      const socket = new FakeSocket();
      const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
      await ask(peer, 1, { connect: { token: alice.token } });
      const { subscribe } = await ask(peer, 2, { subscribe: { channel: `room:${roomId}`, recover: true, offset: 1 } });
      return { peer, said: JSON.stringify(subscribe.publications).includes("secret") };
    };
    const before = await recover();
    assert.ok(before.said);
    if (!isHeard) await ask(before.peer, 3, { unsubscribe: { channel: `room:${roomId}` } });
    ok(await alice.delete(`/v1/messages/${id}`));
    if (isHeard) {
      await until(() =>
        pushes(before.peer.socket, `room:${roomId}`).some(({ data }) => data.type === "message.deleted")
      );
    }
    assert.ok(!(await recover()).said);
  }
});
