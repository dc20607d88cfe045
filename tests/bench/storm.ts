// A reconnect storm: one room's clients cut at once, who miss messages and come back all at once, beside socket.io with its
// own recovery. Every client must have received every message once and in order, or there is no figure.
import { Gateway, SECRET } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import type { Row } from "./report.ts";
import { Server } from "./server.ts";
import type { StormReport, StormRequest } from "./storm_clients.ts";

const CLIENTS = 2000;
const MISSED = 100;
const BYTES = 200;

type Figures = { cpuSeconds: number; seconds: number };

export async function storm(rounds: number): Promise<Row[]> {
  const ours: Figures[] = [];
  const theirs: Figures[] = [];
  for (let round = 0; round < rounds; round++) {
    ours.push(await measureGateway());
    theirs.push(await measureSocketIo());
  }
  const row = (what: string, pick: (of: Figures) => number): Row => ({
    what: `Storm: ${CLIENTS} clients recover ${MISSED} messages each, ${what}`,
    unit: "s",
    peer: "socket.io",
    ours: ours.map(pick),
    theirs: theirs.map(pick),
    isLowerBetter: true,
  });
  return [row("server CPU", (of) => of.cpuSeconds), row("time", (of) => of.seconds)];
}

async function measureGateway(): Promise<Figures> {
  const gateway = await Gateway.start();
  const { id: roomId } = await gateway.call("POST", "/v1/rooms", { name: "Storm", visibility: "public" });
  return await measure(gateway.server, { secret: SECRET, roomId });
}

async function measureSocketIo(): Promise<Figures> {
  const script = new URL("./peers/socketio.mjs", import.meta.url).pathname;
  return await measure(await Server.start("deno", [script], { RECOVERY: "1" }));
}

async function measure(server: Server, gateway?: { secret: string; roomId: string }): Promise<Figures> {
  const generator = new LoadGenerator<StormRequest, StormReport>("./storm_clients.ts");
  await generator.request({
    kind: "open",
    base: server.url,
    clients: CLIENTS,
    ...(gateway === undefined ? {} : { gateway }),
  });
  await generator.request({ kind: "cut" });
  await generator.request({ kind: "send", count: MISSED, bytes: BYTES });
  const before = server.cpuSeconds();
  const { seconds } = await generator.request({ kind: "return" });
  const cpuSeconds = server.cpuSeconds() - before;
  const { received } = await generator.request({ kind: "check" });
  await generator.stop();
  await server.stop();
  if (received !== CLIENTS * MISSED) throw new Error(`${received} of ${CLIENTS * MISSED} messages were recovered`);
  return { cpuSeconds, seconds };
}
