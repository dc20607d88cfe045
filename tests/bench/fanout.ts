// Fan-out: one room, many sockets, messages sent durably through `message.send`, beside socket.io and ws that store nothing.
import { pause } from "../wait.ts";
import { Gateway } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import type { Row } from "./report.ts";
import { Server } from "./server.ts";

const SOCKETS = 1000;
const BYTES = 200;
const PEERS = ["socket.io", "ws"] as const;

type Figures = { perCpuSecond: number; p50: number; p99: number; kibPerSocket: number };

export async function fanout(rounds: number): Promise<Row[]> {
  const ours: Figures[] = [];
  const theirs = new Map<string, Figures[]>(PEERS.map((peer) => [peer, []]));
  for (let round = 0; round < rounds; round++) {
    ours.push(await measureGateway());
    for (const peer of PEERS) theirs.get(peer)?.push(await measurePeer(peer));
  }
  return PEERS.flatMap((peer) => {
    const figures = theirs.get(peer) ?? [];
    const row = (what: string, unit: string, pick: (of: Figures) => number): Row => ({
      what,
      unit,
      peer,
      ours: ours.map(pick),
      theirs: figures.map(pick),
    });
    return [
      {
        ...row(`Fan-out to ${SOCKETS} sockets, deliveries per server-CPU second`, "/CPU-s", (of) => of.perCpuSecond),
        ...(peer === "socket.io" ? { goal: 5 } : {}),
      },
      { ...row("Delivery at 50 messages/s, p50", "ms", (of) => of.p50), isLowerBetter: true as const },
      {
        ...row("Delivery at 50 messages/s, p99", "ms", (of) => of.p99),
        isLowerBetter: true as const,
        ...(peer === "socket.io" ? { goal: 1 } : {}),
      },
    ];
  });
}

async function measureGateway(): Promise<Figures> {
  const gateway = await Gateway.start();
  const rooms = await gateway.rooms(1);
  return await measure("gateway", gateway.server, { token: gateway.token, rooms });
}

async function measurePeer(peer: (typeof PEERS)[number]): Promise<Figures> {
  const script = new URL(`./peers/${peer === "ws" ? "ws" : "socketio"}.mjs`, import.meta.url).pathname;
  return await measure(peer, await Server.start("deno", [script], {}), {});
}

async function measure(dialect: string, server: Server, extra: { token?: string; rooms?: string[] }): Promise<Figures> {
  const generator = new LoadGenerator();
  const empty = server.residentKib();
  await generator.request({ kind: "open", dialect, bases: [server.url], sockets: SOCKETS, ...extra });
  await pause(500);
  const kibPerSocket = (server.residentKib() - empty) / SOCKETS;
  const flood = { kind: "flood", bytes: BYTES, senders: 10, inFlight: 4 } as const;
  await generator.request({ ...flood, seconds: 2 });
  const before = server.cpuSeconds();
  const { deliveries } = await generator.request({ ...flood, seconds: 5 });
  const perCpuSecond = deliveries / (server.cpuSeconds() - before);
  await pause(500);
  const steady = await generator.request({ kind: "steady", bytes: BYTES, perSecond: 50, seconds: 8 });
  await generator.stop();
  await server.stop();
  const [p50 = NaN, , p99 = NaN] = steady.latencies;
  return { perCpuSecond, p50, p99, kibPerSocket };
}
