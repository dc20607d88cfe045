// HTTP: the gateway's hot requests beside a bare Hono route on Deno that returns the same, in requests per server-CPU second.
import { Gateway } from "./gateway.ts";
import type { Row } from "./report.ts";
import { pin, Server } from "./server.ts";

const CONNECTIONS = 64;
const SECONDS = 5;
/** Until the runtime has compiled what is hot, on both sides. */
const WARM_UP_SECONDS = 10;

type LoadCall = { method: string; path: string; token: string; body?: unknown };

export async function http(rounds: number): Promise<Row[]> {
  const bare = new URL("./peers/hono.ts", import.meta.url).pathname;
  const sends: number[] = [];
  const reads: number[] = [];
  const bareSends: number[] = [];
  const bareReads: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const gateway = await Gateway.start();
    const [roomId = ""] = await gateway.rooms(1);
    const { server, token } = gateway;
    const send = { method: "POST", path: "/v1/messages", token, body: { roomId, text: "x".repeat(200) } };
    const read = { method: "GET", path: `/v1/rooms/${roomId}`, token };
    const answers = {
      ROOM: JSON.stringify(await gateway.call("GET", read.path)),
      MESSAGE: JSON.stringify(await gateway.call("POST", send.path, send.body)),
    };
    const peer = await Server.start("deno", [bare], answers);
    sends.push(await measurePerCpuSecond(server, send));
    bareSends.push(await measurePerCpuSecond(peer, send));
    reads.push(await measurePerCpuSecond(server, read));
    bareReads.push(await measurePerCpuSecond(peer, read));
    await server.stop();
    await peer.stop();
  }
  const unit = "/CPU-s";
  const peer = "bare Hono";
  return [
    { what: "POST /v1/messages", unit, peer, ours: sends, theirs: bareSends, goal: 0.25 },
    { what: "GET /v1/rooms/:id", unit, peer, ours: reads, theirs: bareReads, goal: 0.35 },
  ];
}

/** Fires the same request over a few connections for a while, from another process on the other core. */
async function measurePerCpuSecond(server: Server, shot: LoadCall): Promise<number> {
  await runLoad(server.url, shot, WARM_UP_SECONDS);
  const before = server.cpuSeconds();
  const requests = await runLoad(server.url, shot, SECONDS);
  return requests / (server.cpuSeconds() - before);
}

const LOAD_SCRIPT = `
  const { url, shot, seconds, connections } = JSON.parse(Deno.args[0]);
  const { hostname, port, host } = new URL(url);
  const body = shot.body === undefined ? "" : JSON.stringify(shot.body);
  const head = shot.method + " " + shot.path + " HTTP/1.1\\r\\nHost: " + host + "\\r\\nAuthorization: Bearer " + shot.token +
    (body === "" ? "" : "\\r\\nContent-Type: application/json\\r\\nContent-Length: " + body.length) + "\\r\\n\\r\\n";
  const request = new TextEncoder().encode(head + body);
  const until = performance.now() + seconds * 1000;
  const latin1 = new TextDecoder("latin1");
  let done = 0;
  await Promise.all(Array.from({ length: connections }, async () => {
    const connection = await Deno.connect({ hostname, port: Number(port) });
    const buffer = new Uint8Array(65536);
    while (performance.now() < until) {
      await connection.write(request);
      let text = "";
      let missing = Infinity;
      while (missing > 0) {
        const size = await connection.read(buffer) ?? 0;
        if (size === 0) throw new Error("closed");
        text += latin1.decode(buffer.subarray(0, size));
        const end = text.indexOf("\\r\\n\\r\\n");
        if (end > 0) missing = end + 4 + Number(/content-length: (\\d+)/i.exec(text)[1]) - text.length;
      }
      if (text[9] !== "2") throw new Error("answered " + text.slice(9, 12));
      done++;
    }
    connection.close();
  }));
  console.log(done);
`;

async function runLoad(url: string, shot: LoadCall, seconds: number): Promise<number> {
  const [command = "", ...args] = [...pin(1), Deno.execPath(), "eval", LOAD_SCRIPT];
  const { stdout, success } = await new Deno.Command(command, {
    args: [...args, JSON.stringify({ url, shot, seconds, connections: CONNECTIONS })],
    stderr: "inherit",
  }).output();
  if (!success) throw new Error("the load generator failed");
  return Number(new TextDecoder().decode(stdout));
}
