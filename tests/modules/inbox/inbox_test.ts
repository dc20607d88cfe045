// The inbox of agents outside: what notified them is leased, acknowledged, and delivered again where it was not.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { assertProblem, createCaller, createRoom, ok, sendMessage } from "../fixtures.ts";

const API = "/v1/collaboration";
const PULL = `${API}/agents/me/inbox/pull`;

async function openAgent(gateway: Harness): Promise<{ alice: Caller; robo: Caller; roomId: string }> {
  const alice = await createCaller(gateway, "alice", { role: "admin" });
  ok(await alice.post(`${API}/principals`, { id: "robo", kind: "agent", displayName: "Robo" }));
  const roomId = await createRoom(alice, ["robo"]);
  const robo = await gateway.as("robo", { kind: "agent" });
  // That it was added to the room.
  ok(await robo.post(`${API}/notifications/read`, {}));
  return { alice, robo, roomId };
}

async function mention({ alice, roomId }: { alice: Caller; roomId: string }, text: string): Promise<string> {
  return (await sendMessage(alice, roomId, text, { mentions: { principalIds: ["robo"] } })).id;
}

testOnEngines("an agent leases what notified it, and gets again what it does not acknowledge", async (environment) => {
  await using gateway = await openGateway(environment);
  const world = await openAgent(gateway);
  const { alice, robo } = world;
  const pull = async (input = {}) => ok(await robo.post(PULL, { max: 5, ...input })).items;
  const ack = (deliveryId: string, input: Record<string, unknown>) =>
    robo.post(`${API}/agents/robo/inbox/${deliveryId}/ack`, input);
  assert.deepEqual(await pull(), []);
  const ids: string[] = [];
  for (const text of ["first", "second", "third"]) {
    ids.push(await mention(world, text));
    await gateway.runJobs();
  }

  const [one, two] = await pull({ max: 2, leaseSeconds: 30 });
  assert.deepEqual([one.notification.messageId, two.notification.messageId], ids.slice(0, 2), "the oldest first");
  assert.deepEqual([one.attempt, one.notification.preview], [1, "first"]);
  const [three] = await pull();
  assert.equal(three.notification.messageId, ids[2], "another worker gets what is not leased");
  assert.deepEqual(await pull(), []);

  assert.equal(ok(await ack(one.deliveryId, { outcome: "done" })).availableAt, null);
  const read = ok(await robo.get(`${API}/notifications?unread=false&kind=mention`)).items;
  assert.deepEqual(read.map(({ messageId }: { messageId: string }) => messageId), [ids[0]]);
  assertProblem(await ack(one.deliveryId, { outcome: "done" }), 409, "conflict");
  ok(await ack(two.deliveryId, { outcome: "working", delaySeconds: 90 }));
  ok(await ack(three.deliveryId, { outcome: "retry" }));
  assertProblem(await ack(three.deliveryId, { outcome: "done" }), 409, "conflict");
  const [again] = await pull();
  assert.deepEqual([again.notification.messageId, again.attempt], [ids[2], 2]);
  gateway.clock.advance(61_000);
  assert.deepEqual((await pull()).map(({ attempt }: { attempt: number }) => attempt), [3], "its lease ended");
  gateway.clock.advance(30_000);
  const [late] = await pull();
  assert.equal(late.notification.messageId, ids[1]);
  assertProblem(await ack(two.deliveryId, { outcome: "done" }), 409, "conflict");
  ok(await ack(late.deliveryId, { outcome: "drop" }));

  // No delivery is left of a notification that was withdrawn.
  ok(await alice.delete(`/v1/messages/${ids[2]}`));
  await gateway.runJobs();
  await gateway.app.runMaintenance();
  assert.deepEqual(await gateway.app.store.db.selectFrom("inbox_delivery").selectAll().execute(), []);

  for (const [who, path] of [[alice, PULL], [alice, PULL.replace("me", "robo")], [robo, PULL.replace("me", "alice")]]) {
    assertProblem(await (who as Caller).post(path as string, {}), 403, "forbidden");
  }
  assertProblem(await robo.post(PULL, { max: 21 }), 422, "validation_failed");
  assertProblem(
    await (await gateway.as("robo", { kind: "agent", scope: "room.read" })).post(PULL, {}),
    403,
    "scope_missing",
  );
});

testOnEngines(
  "agents that act on their inboxes do not start each other without end, whether they pass on how many led to it or not",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { robo, roomId, alice } = await openAgent(gateway);
    ok(await alice.post(`${API}/principals`, { id: "zeta", kind: "agent", displayName: "Zeta" }));
    ok(await alice.put(`/v1/rooms/${roomId}/members/zeta`));
    const zeta = await gateway.as("zeta", { kind: "agent" });
    ok(await zeta.post(`${API}/notifications/read`, {}));
    const pull = async (who: Caller) => ok(await who.post(PULL, {})).items[0];
    const assign = async (who: Caller, id: string, headers = {}) =>
      ok(await who.post(`${API}/tasks`, { roomId, title: "You", assigneeIds: [id] }, headers));
    /** The numbers of the notifications on which the agents act one after the other, until there are no more. */
    const hopsOfLoop = async (passesOn: boolean, acksFirst: boolean): Promise<number[]> => {
      const hops: number[] = [];
      await assign(alice, "robo");
      while (hops.length < 10) {
        const [one, other] = hops.length % 2 === 0 ? [robo, "zeta"] : [zeta, "robo"];
        const delivery = await pull(one);
        if (delivery === undefined) break;
        const { deliveryId, notification: { agentHops } } = delivery;
        hops.push(agentHops);
        const steps = [
          async () => ok(await one.post(`${API}/agents/me/inbox/${deliveryId}/ack`, { outcome: "done" })),
          () => assign(one, other, passesOn ? { baggage: `agent-hops=${agentHops}` } : {}),
        ];
        for (const step of acksFirst ? steps : steps.toReversed()) await step();
      }
      gateway.clock.advance(61_000);
      return hops;
    };
    for (const [passesOn, acksFirst] of [[true, true], [false, true], [false, false]] as const) {
      assert.deepEqual(await hopsOfLoop(passesOn, acksFirst), [0, 1, 2, 3]);
    }
    // What an agent begins by itself is not caused by what it did before.
    await assign(robo, "zeta");
    assert.equal((await pull(zeta)).notification.agentHops, 1);
    // A message counts its sender once, as its events do.
    const mention = { roomId, text: "You", mentions: { principalIds: ["zeta"] } };
    const { metadata } = ok(await robo.post("/v1/messages", mention, { baggage: "agent-hops=1" }));
    await gateway.runJobs();
    assert.deepEqual([metadata, (await pull(zeta)).notification.agentHops], [{ agentHops: 2 }, 2]);
  },
);

testOnEngines("an agent waits for what notifies it", async (environment) => {
  await using gateway = await openGateway(environment);
  const world = await openAgent(gateway);
  const waiting = world.robo.post(PULL, { wait: 30 });
  const id = await mention(world, "now");
  await gateway.runJobs();
  const { items } = ok(await waiting);
  assert.deepEqual(items.map((one: { notification: { messageId: string } }) => one.notification.messageId), [id]);
});
