// Webhooks under faults: an endpoint that is down, slow, refuses and responds late, and gateways that are killed. Nothing is lost,
// the order of each room is preserved, and what is repeated has the id that it had before.
import assert from "node:assert/strict";
import { Webhook } from "npm:standardwebhooks@1.1.1";
import type { GatewayProcess } from "../e2e/target.ts";
import { freePort } from "../free_port.ts";
import { eventually, pause, until } from "../wait.ts";
import { Endpoint, type Received } from "../modules/webhook/webhook_fixture.ts";
import { Cluster, hasServers } from "./cluster.ts";

/** More than one batch for each room; as many as wanted by `WEBHOOK_EVENTS`. */
const EVENTS = Number(Deno.env.get("WEBHOOK_EVENTS") ?? 600);
const ROOMS = 3;
const SENDERS = 16;
/** As long as the busiest machine takes for all of it. */
const ALL_MS = 600_000;
const WEBHOOKS = "/v1/collaboration/webhooks";
const ALLOW = { SVC_OUTBOUND_ALLOW: "127.0.0.1" };

Deno.test(`${EVENTS} events reach a faulty endpoint through kill -9 of a node on SQLite`, async () => {
  await using cluster = await Cluster.openSingle({ environment: ALLOW });
  await deliverThroughFaults(cluster, async () => {
    await cluster.node(0).stop("SIGKILL");
    await cluster.node(0).start();
  });
});

Deno.test({
  name: `${EVENTS} events reach a faulty endpoint through kill -9 and a stop of the nodes that deliver`,
  ignore: !hasServers,
  async fn() {
    await using cluster = await Cluster.openShared({ environment: ALLOW });
    // The lease of a node that was killed is ended by the other one; a node that stops gives it back.
    const signals: Deno.Signal[] = ["SIGKILL", "SIGTERM"];
    await deliverThroughFaults(cluster, async () => {
      const attempts = await Promise.all(cluster.nodes.map(attemptsOf));
      const node = cluster.node(attempts.indexOf(Math.max(...attempts)));
      await node.stop(signals.shift());
      await node.start();
    });
  },
});

/** Deliveries that this run of a node has attempted. */
async function attemptsOf({ url }: GatewayProcess): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const counts = text.matchAll(/^svc_webhook_deliveries_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function deliverThroughFaults(cluster: Cluster, kill: () => Promise<void>): Promise<void> {
  const rooms = await Promise.all(Array.from({ length: ROOMS }, () => cluster.createRoom(["ann"])));
  const port = freePort();
  const { id, secret } = await cluster.call(0, "ann", "POST", WEBHOOKS, {
    url: `http://127.0.0.1:${port}/`,
    events: ["message.created"],
    roomIds: rooms,
  });
  const sending = sendAll(cluster, rooms);
  // It is down until the first attempt has failed.
  const read = () => anyCall(cluster, "GET", `${WEBHOOKS}/${id}`);
  await eventually(async () => assert.equal((await read()).state, "retrying"));
  await using endpoint = new Endpoint(port);
  const recover = () => anyCall(cluster, "PATCH", `${WEBHOOKS}/${id}`, { enabled: true });
  const accepted = (share: number) =>
    until(() => endpoint.accepted.length >= EVENTS * share, `${share} of the events`, ALL_MS);

  // Some events are refused, as often as they are tried. Half of all wait, however long a node takes to start.
  const isRefused = ({ body }: Received): boolean => body.data.message.text.endsWith("13");
  let most = EVENTS / 2;
  const statusOf = (received: Received): number =>
    endpoint.accepted.length >= most ? 503 : isRefused(received) ? 422 : 204;
  const refusing = (received: Received) => new Response(null, { status: statusOf(received) });
  endpoint.answer = refusing;
  await recover();
  await accepted(0.1);
  await kill();
  await accepted(0.2);

  // Ill, then slow, then so late that it is cut off by the end of the process.
  endpoint.answer = () => new Response(null, { status: 503 });
  await eventually(async () => assert.equal((await read()).lastError, "http_503"));
  most = Infinity;
  let slow = 10 * ROOMS;
  endpoint.answer = async (received) => {
    await pause(slow-- > 0 ? 100 : 0);
    return refusing(received);
  };
  await recover();
  await accepted(0.4);
  let late = 0;
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  endpoint.answer = async (received) => {
    if (late++ < ROOMS) await released;
    return refusing(received);
  };
  await until(() => late >= ROOMS);
  await kill();
  release();
  await sending;

  const total = EVENTS - refusedCount();
  await until(() => distinct(endpoint.accepted).size >= total, "all events", ALL_MS);
  const parked = (count: number) =>
    eventually(async () => assert.equal((await read()).parkedCount, count, "parked events"), ALL_MS);
  await parked(refusedCount());
  const inOrder = [...endpoint.accepted];
  endpoint.answer = () => new Response(null, { status: 200 });
  await anyCall(cluster, "POST", `${WEBHOOKS}/${id}/parked/replay`, {});
  await parked(0);

  const events = distinct(endpoint.accepted);
  assert.equal(events.size, EVENTS);
  for (const room of rooms) {
    const first = new Set<number>();
    for (const { body } of inOrder) if (body.roomId === room) first.add(body.seq);
    assert.deepEqual([...first], [...first].toSorted((a, b) => a - b), "the order of a room");
  }
  const ids = new Map<string, string>();
  for (const { id: eventId, body } of endpoint.requests) {
    const event = `${body.stream} ${body.epoch} ${body.seq}`;
    assert.equal(ids.get(eventId) ?? event, event);
    ids.set(eventId, event);
  }
  assert.equal(new Set(ids.values()).size, ids.size, "one id for each event");
  const signed = new Webhook(secret);
  for (const { headers, text } of endpoint.accepted.slice(-100)) signed.verify(text, Object.fromEntries(headers));
  // deno-lint-ignore no-console -- the figures of the run
  console.log(
    `events ${events.size}, requests ${endpoint.requests.length}, accepted ${endpoint.accepted.length}, ` +
      `accepted again ${endpoint.accepted.length - events.size}, parked and replayed ${refusedCount()}`,
  );
}

function refusedCount(): number {
  return Array.from({ length: EVENTS }, (_, n) => n).filter((n) => String(n).endsWith("13")).length;
}

function distinct(received: readonly Received[]): ReadonlySet<string> {
  return new Set(received.map(({ body }) => body.data.message.text));
}

/** Sends all messages, each until it is acknowledged; one is sent twice only if no response arrived. */
async function sendAll(cluster: Cluster, rooms: readonly string[]): Promise<void> {
  let next = 0;
  await Promise.all(Array.from({ length: SENDERS }, async () => {
    while (next < EVENTS) {
      const n = next++;
      const message = { roomId: rooms[n % ROOMS], text: `event ${n}`, clientMessageId: `${n}` };
      await anyCall(cluster, "POST", "/v1/messages", message);
    }
  }));
}

/** Calls nodes in turn until one responds. */
async function anyCall(cluster: Cluster, method: string, path: string, body?: unknown) {
  for (let tries = 0; tries < 2000; tries++) {
    try {
      const answer = await cluster.request(tries % cluster.nodes.length, "ann", method, path, body);
      if (answer.status < 300) return answer.body;
      if (answer.status < 500) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    } catch (error) {
      // A node that was killed.
      if (error instanceof Error && error.message.startsWith(method)) throw error;
    }
    await pause(100);
  }
  throw new Error(`no node answers ${method} ${path}`);
}
