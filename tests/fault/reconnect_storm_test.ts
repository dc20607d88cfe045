// A thousand clients cut off at once, who missed a hundred messages each and come back at once: all get all of it, once, in order.
import assert from "node:assert/strict";
import { Centrifuge } from "npm:centrifuge@5.8.0";
import { WebSocket } from "npm:ws@8.23.0";
import { countSockets } from "../counted_sockets.ts";
import { eventually, WAIT_MS } from "../wait.ts";
import { Cluster } from "./cluster.ts";
import { printLine } from "./report.ts";
import { cpuSeconds, startStopwatch } from "../cpu_time.ts";

const CLIENTS = 1000;
const MISSED = 100;
/** At once, before the storm. */
const JOINING = 50;

Deno.test(`${CLIENTS} clients cut at once recover ${MISSED} missed messages each, none lost, none doubled`, async () => {
  await using cluster = await Cluster.openSingle();
  await cluster.call(0, "ann", "GET", "/v1/collaboration/me");
  const { id: roomId } = await cluster.call(0, "ann", "POST", "/v1/rooms", { name: "storm", visibility: "public" });
  const { Socket, untilClosed } = countSockets(WebSocket);
  const crowd: StormClient[] = [];
  while (crowd.length < CLIENTS) {
    const join = (_: unknown, at: number) => joinRoom(cluster, roomId, `p${crowd.length + at}`, Socket);
    const more = await Promise.all(Array.from({ length: JOINING }, join));
    await Promise.all(more.map(({ listening }) => listening));
    crowd.push(...more);
  }

  for (const { client } of crowd) client.disconnect();
  for (let count = 0; count < MISSED; count++) {
    const body = { roomId, text: `missed ${count} ${"x".repeat(200)}`, clientMessageId: `m${count}` };
    await cluster.call(0, "ann", "POST", "/v1/messages", body);
  }
  const { pid } = cluster.node(0);
  const [took, spentBefore] = [startStopwatch(), cpuSeconds(pid)];
  for (const { client } of crowd) client.connect();
  // A slow machine is waited for as long as another message arrives.
  for (let missing = CLIENTS * MISSED; missing > 0;) {
    missing = await eventually(() => {
      const left = crowd.reduce((sum, { seqs }) => sum + Math.max(0, MISSED - seqs.length), 0);
      assert.ok(left < missing, "another message arrives");
      return left;
    });
  }
  const [backAfter, cpu] = [took(), cpuSeconds(pid) - spentBefore];

  const [first] = crowd;
  const from = first?.seqs[0] ?? 0;
  const line = Array.from({ length: MISSED }, (_, at) => from + at);
  for (const { seqs, refused } of crowd) {
    assert.deepEqual(seqs, line);
    assert.equal(refused, 0);
  }
  for (const { client } of crowd) client.disconnect();
  await untilClosed();
  printLine(
    `storm: ${CLIENTS} clients back with ${MISSED} messages each in ${backAfter}, ${cpu.toFixed(2)} s of server CPU`,
  );
});

type StormClient = { client: Centrifuge; seqs: number[]; refused: number; listening: Promise<void> };

async function joinRoom(
  cluster: Cluster,
  roomId: string,
  sub: string,
  websocket: typeof WebSocket,
): Promise<StormClient> {
  const endpoint = `ws://127.0.0.1:${cluster.node(0).port}/ws`;
  const client = new Centrifuge(endpoint, { token: await cluster.token(sub), websocket, timeout: WAIT_MS });
  const subscription = client.newSubscription(`room:${roomId}`);
  subscription.subscribe();
  const guest: StormClient = { client, seqs: [], refused: 0, listening: subscription.ready(WAIT_MS).then(() => {}) };
  subscription.on("publication", ({ offset }) => guest.seqs.push(offset ?? 0));
  subscription.on("subscribed", ({ wasRecovering, recovered }) => {
    if (wasRecovering !== recovered) guest.refused++;
  });
  client.connect();
  return guest;
}
