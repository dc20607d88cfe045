// One client that stops reading, beside others that do not: they notice nothing, it is cut off and gets everything later.
import assert from "node:assert/strict";
import { Centrifuge, type PublicationContext } from "npm:centrifuge@5.8.0";
import { WebSocket } from "npm:ws@8.23.0";
import { countSockets } from "../counted_sockets.ts";
import { cpuSeconds } from "../cpu_time.ts";
import type { GatewayProcess } from "../e2e/target.ts";
import { allEnded, eventually, pause, until, WAIT_MS } from "../wait.ts";
import { Cluster } from "./cluster.ts";
import { printLine } from "./report.ts";

const FAST = 8;
const MESSAGES = 400;
const TEXT = "x".repeat(16_000);
const GROWTH_MAX_MIB = 64;
/** Far less than the gateway waits for one. */
const PONG_MS = 1000;
const PONG = "{}";
/** As long as the busiest machine takes for a burst. */
const BURST_MS = 600_000;
/** What a slow neighbour may cost: so many times the work of the gateway. */
const TIMES_MAX = 2;
/** Garbage may be collected in any burst: the cheapest of so many counts. */
const TRIES_MAX = 3;

Deno.test("a slow reader beside fast ones is closed with 3008, costs them nothing, and gets everything afterwards", async () => {
  await using cluster = await Cluster.openSingle();
  const roomId = await cluster.createRoom(["ann"]);
  const sentAt = new Map<string, number>();
  const latencies: number[] = [];
  const heard: number[][] = [];
  for (let at = 0; at < FAST; at++) {
    const seqs: number[] = [];
    heard.push(seqs);
    await listen(await cluster.connect("ann"), roomId, ({ data, offset }) => {
      seqs.push(offset ?? 0);
      latencies.push(performance.now() - (sentAt.get(data.data.message.clientMessageId ?? "") ?? performance.now()));
    });
  }
  const sender = await cluster.connect("ann");
  const { pid } = cluster.node(0);
  const burst = async (name: string): Promise<{ p95: number; cpu: number }> => {
    const cpuBefore = cpuSeconds(pid);
    latencies.length = 0;
    for (let count = 0; count < MESSAGES; count++) {
      const clientMessageId = `${name}:${count}`;
      sentAt.set(clientMessageId, performance.now());
      await sender.rpc("message.send", { roomId, text: TEXT, clientMessageId });
    }
    await eventually(() => assert.ok(heard.every((seqs) => seqs.length === heard[0]?.length)));
    await eventually(() => assert.equal(latencies.length, FAST * MESSAGES));
    const p95 = latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length * 0.95)] ?? 0;
    return { p95, cpu: cpuSeconds(pid) - cpuBefore };
  };
  await burst("warm");

  for (let tries = 1;; tries++) {
    const alone = await burst(`alone ${tries}`);
    const slow = new SlowClient(await cluster.token("ann"), cluster.node(0).port, roomId);
    await slow.ready();
    const before = residentMib(pid);
    const closedBefore = await countSlowClosed(cluster.node(0));
    slow.pause();
    let isOver = false;
    // It learns why if it reads within five seconds of it, which may be less than the rest of the burst takes.
    const resumed = until(
      async () => {
        // To be asked costs the gateway some of the work that is compared.
        await pause(1000);
        return isOver || await countSlowClosed(cluster.node(0)) > closedBefore;
      },
      "it is closed",
      BURST_MS,
    ).then(() => slow.resume());
    const [beside] = await allEnded([burst(`beside ${tries}`).finally(() => isOver = true), resumed]);
    const grownMib = residentMib(pid) - before;
    const target = heard[0]?.at(-1) ?? 0;
    await eventually(() => assert.equal(slow.seqs.at(-1), target));

    assert.deepEqual(slow.closes, [3008]);
    assert.deepEqual(slow.seqs, Array.from({ length: MESSAGES }, (_, at) => target - MESSAGES + 1 + at));
    for (const seqs of heard) assert.deepEqual(seqs, heard[0]);
    await slow.disconnect();
    printLine(
      `slow reader: p95 of the others ${alone.p95.toFixed(1)} ms without it, ${beside.p95.toFixed(1)} ms beside it; ` +
        `the gateway's CPU ${alone.cpu.toFixed(2)} and ${beside.cpu.toFixed(2)} s; ` +
        `${grownMib.toFixed(0)} MiB more memory; all ${MESSAGES} messages of 16 kB recovered`,
    );
    const isCheap = beside.cpu <= TIMES_MAX * alone.cpu;
    if (isCheap && grownMib <= GROWTH_MAX_MIB) return;
    assert.ok(tries < TRIES_MAX || isCheap, `${beside.cpu} s of CPU beside a slow one, ${alone.cpu} s without`);
    assert.ok(tries < TRIES_MAX, `${grownMib} MiB more for a reader that does not read`);
  }
});

/** A real client whose socket can be left unread. */
class SlowClient {
  readonly seqs: number[] = [];
  readonly closes: number[] = [];
  readonly #client: Centrifuge;
  readonly #listening: Promise<void>;
  readonly #sockets = countSockets(WebSocket);
  #socket: WebSocket | undefined;
  #pongs: ReturnType<typeof setInterval> | undefined;

  constructor(token: string, port: number, roomId: string) {
    const own = (socket: WebSocket): void => {
      this.#socket = socket;
      socket.on("close", (code: number) => this.closes.push(code));
    };
    class OwnSocket extends this.#sockets.Socket {
      constructor(url: string, protocols?: string) {
        super(url, protocols);
        own(this);
      }
    }
    const endpoint = `ws://127.0.0.1:${port}/ws`;
    this.#client = new Centrifuge(endpoint, {
      token,
      websocket: OwnSocket,
      minReconnectDelay: 20,
      maxReconnectDelay: 50,
      // It is the gateway that closes, however long nothing is read.
      timeout: WAIT_MS,
      maxServerPingDelay: WAIT_MS,
    });
    this.#client.connect();
    this.#listening = listen(this.#client, roomId, ({ offset }) => this.seqs.push(offset ?? 0));
  }

  ready(): Promise<void> {
    return this.#listening;
  }

  /** It still responds to pings, which it cannot read: it is slow, not disconnected. */
  pause(): void {
    const socket = this.#socket;
    socket?.pause();
    this.#pongs = setInterval(() => socket?.readyState === WebSocket.OPEN && socket.send(PONG), PONG_MS);
  }

  resume(): void {
    clearInterval(this.#pongs);
    this.#socket?.resume();
  }

  async disconnect(): Promise<void> {
    this.#client.disconnect();
    await this.#sockets.untilClosed();
  }
}

async function listen(
  client: Centrifuge,
  roomId: string,
  hear: (publication: PublicationContext) => void,
): Promise<void> {
  const subscription = client.newSubscription(`room:${roomId}`);
  subscription.on("publication", hear);
  subscription.on("subscribed", ({ wasRecovering, recovered }) => assert.equal(wasRecovering, recovered));
  subscription.subscribe();
  await subscription.ready(WAIT_MS);
}

/** Clients that a node has closed because they read too slowly. */
async function countSlowClosed({ url }: GatewayProcess): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^svc_connection_errors\S*\{.*type="slow_consumer".*\} (\d+)$/m.exec(text)?.[1] ?? 0);
}

function residentMib(pid: number): number {
  const [, kib] = /VmRSS:\s+(\d+)/.exec(Deno.readTextFileSync(`/proc/${pid}/status`)) ?? [];
  return Number(kib) / 1024;
}
