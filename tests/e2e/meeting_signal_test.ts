// The signalling relay with real clients: only the addressed participant receives a signal.
import assert from "node:assert/strict";
import type { Centrifuge, Subscription } from "npm:centrifuge@5.8.0";
import { until, WAIT_MS } from "../wait.ts";
import { openTarget, type Target, testOfParts, uniqueName } from "./target.ts";

const PATH = "/v1/collaboration/meetings";

type SignalEvent = { type: string; actor: { id: string }; data: { from?: string; kind: string; payload: unknown } };
type Peer = {
  sub: string;
  token: string;
  participantId: string;
  client: Centrifuge;
  channel: Subscription;
  heard: SignalEvent[];
};

const signalTest = testOfParts("signals of a meeting");

async function openCall(target: Target, names: readonly string[]) {
  const people = await Promise.all(names.map(async (name) => {
    const sub = uniqueName(name);
    return { sub, token: await target.createPrincipal({ sub }) };
  }));
  const host = people[0];
  assert.ok(host);
  const room = await target.call(host.token, "POST", "/v1/rooms", {
    name: "Call",
    memberIds: people.slice(1).map(({ sub }) => sub),
  });
  const meeting = await target.call(host.token, "POST", PATH, { roomId: room.id });
  const peers = await Promise.all(people.map(async ({ sub, token }): Promise<Peer> => {
    const { participantId } = await target.call(token, "POST", `${PATH}/${meeting.id}/join`, {});
    const client = await target.connect(token);
    const channel = client.newSubscription(`meeting:${meeting.id}`);
    const heard: SignalEvent[] = [];
    channel.on("publication", ({ data }) => heard.push(data));
    channel.subscribe();
    await channel.ready(WAIT_MS);
    return { sub, token, participantId, client, channel, heard };
  }));
  return { meeting, roomId: room.id as string, peers };
}

function signal(from: Peer, to: string, payload: unknown, kind = "candidate", claimed = from.participantId) {
  return from.client.publish(from.channel.channel, {
    type: "meeting.signal",
    data: { to, from: claimed, kind, payload },
  });
}

/** The code with which the server ends the subscription. */
function endOf({ channel }: Peer): Promise<number> {
  return new Promise((resolve) => channel.once("unsubscribed", ({ code }) => resolve(code)));
}

async function codeOf(call: Promise<unknown>): Promise<number> {
  try {
    await call;
    return 0;
  } catch (error) {
    return Object(error).code;
  }
}

signalTest("a signal reaches the participant it is for, and no other", async (target) => {
  const { peers: [alice, bob, carol] } = await openCall(target, ["alice", "bob", "carol"]);
  assert.ok(alice && bob && carol);
  await signal(alice, bob.participantId, { sdp: "v=0", type: "offer" }, "offer");
  await signal(bob, alice.participantId, { sdp: "v=0", type: "answer" }, "answer");
  await signal(carol, alice.participantId, null, "bye");
  await until(() => alice.heard.length === 2 && bob.heard.length === 1, "signals");
  assert.deepEqual(bob.heard.map(({ type, actor, data }) => [type, actor.id, data.from, data.kind, data.payload]), [
    ["meeting.signal", alice.sub, alice.participantId, "offer", { sdp: "v=0", type: "offer" }],
  ]);
  assert.deepEqual(
    alice.heard.map(({ actor, data }) => [actor.id, data.kind]).sort(),
    [
      [bob.sub, "answer"],
      [carol.sub, "bye"],
    ].sort(),
  );
  // The order within one sender is preserved, so once this has come nothing earlier is still on its way.
  await signal(alice, carol.participantId, "last");
  await until(() => carol.heard.length > 0, "the last signal");
  assert.deepEqual(carol.heard.map(({ data }) => data.payload), ["last"]);
});

Deno.test("a burst of candidates arrives whole and in order, within the limits as they are", async () => {
  await using target = await openTarget({ isOwn: true, environment: { SVC_RATE_LIMIT: "on" } });
  const { peers: [alice, bob] } = await openCall(target, ["alice", "bob"]);
  assert.ok(alice && bob);
  await Promise.all(Array.from({ length: 100 }, (_, at) => signal(alice, bob.participantId, at)));
  await until(() => bob.heard.length === 100, "candidates");
  assert.deepEqual(bob.heard.map(({ data }) => data.payload), Array.from({ length: 100 }, (_, at) => at));
});

signalTest(
  "only participants subscribe and signal, and none can signal as another",
  async (target) => {
    const { meeting, roomId, peers: [alice, bob, carol] } = await openCall(target, ["alice", "bob", "carol"]);
    assert.ok(alice && bob && carol);
    assert.equal(await codeOf(signal(alice, bob.participantId, "x", "offer", carol.participantId)), 103);
    assert.notEqual(await codeOf(signal(alice, "part_none", "x")), 0);
    assert.equal(await codeOf(signal(alice, bob.participantId, "x", "shout")), 107);
    assert.equal(await codeOf(signal(alice, bob.participantId, "x".repeat(17_000))), 106);
    await signal(alice, bob.participantId, "x".repeat(16_000));

    const [carolsEnd, bobsEnd, alicesEnd] = [carol, bob, alice].map(endOf);
    await target.call(carol.token, "POST", `${PATH}/${meeting.id}/leave`, { participantId: carol.participantId });
    assert.equal(await carolsEnd, 2000);
    assert.equal(await codeOf(signal(carol, bob.participantId, "late")), 103);
    assert.notEqual(await codeOf(signal(alice, carol.participantId, "late")), 0);

    await target.call(alice.token, "DELETE", `/v1/rooms/${roomId}/members/${bob.sub}`);
    assert.equal(await bobsEnd, 2000);
    assert.notEqual(await codeOf(signal(bob, alice.participantId, "still here?")), 0);
    const outsider = await target.connect(await target.token({ sub: uniqueName("dave") }));
    const subscription = outsider.newSubscription(`meeting:${meeting.id}`);
    const refused = new Promise<number>((resolve) => subscription.on("unsubscribed", ({ code }) => resolve(code)));
    subscription.subscribe();
    assert.equal(await refused, 103);
    assert.deepEqual([alice.heard.length, bob.heard.length, carol.heard.length], [0, 1, 0]);
    assert.equal(alice.channel.state, "subscribed");
    await target.call(alice.token, "POST", `${PATH}/${meeting.id}/end`, {});
    assert.equal(await alicesEnd, 2000);
  },
);
