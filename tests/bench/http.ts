// What the HTTP transport costs: server CPU of one authenticated GET of a trivial operation, next to a bare Hono JSON route.
// Run with `deno run -A tests/bench/http.ts`; prints microseconds of CPU for each request and the ratio.
import { Hono } from "@hono/hono";
import process from "node:process";
import { z } from "@zod/zod";
import { defineOperation } from "@/core/operation.ts";
import { baseHeaders } from "@/transport/http/headers.ts";
import { createHttp } from "@/transport/http/server.ts";
import { ALICE, sampleGateway } from "../transport/http_sample.ts";

const REQUESTS = 40_000;
const CONNECTIONS = 8;
const ROUNDS = 3;

const bare = new Hono();
bare.get("/v1/things/:id", (context) => context.json({ id: context.req.param("id"), name: "One" }));

const thing = defineOperation({
  name: "thing.get",
  summary: "Read a thing",
  access: { scope: "thing.read" },
  http: { method: "GET", path: "/v1/things/:id", status: 200 },
  input: z.strictObject({ id: z.string() }),
  output: z.object({ id: z.string(), name: z.string() }),
  run: (_context, { id }) => Promise.resolve({ id, name: "One" }),
});
const limits = {
  takeGeneral: () => Promise.resolve({ isAllowed: true, limit: 100, remaining: 99, resetMs: 100 }),
  requests: { perSecond: 10, burst: 100 },
  unauthenticated: { perSecond: 1, burst: 30 },
};

/** CPU microseconds a request, the best of a few rounds. */
async function measure(handler: Deno.ServeHandler<Deno.NetAddr>, batch: number): Promise<number> {
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, handler);
  const costs: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const before = process.cpuUsage();
    await load(server.addr.port, batch);
    const { user, system } = process.cpuUsage(before);
    if (round > 0) costs.push((user + system) / REQUESTS);
  }
  await server.shutdown();
  return Math.min(...costs);
}

/** Sends the requests from another process; `batch` of them at a time on each connection. */
async function load(port: number, batch: number): Promise<void> {
  const script = `
    const one = "GET /v1/things/abc HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Bearer alice\\r\\nAccept: */*\\r\\n\\r\\n";
    const batch = new TextEncoder().encode(one.repeat(${batch}));
    await Promise.all(Array.from({ length: ${CONNECTIONS} }, async () => {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port: ${port} });
      const buffer = new Uint8Array(65536);
      for (let left = ${REQUESTS / CONNECTIONS}; left > 0; left -= ${batch}) {
        await connection.write(batch);
        for (let got = 0; got < ${batch};) {
          const size = await connection.read(buffer) ?? 0;
          got += new TextDecoder().decode(buffer.subarray(0, size)).split("HTTP/1.1 ").length - 1;
        }
      }
      connection.close();
    }));`;
  const { success } = await new Deno.Command(Deno.execPath(), { args: ["eval", script] }).output();
  if (!success) throw new Error("The load generator failed");
}

const gateway = (isLimited: boolean): Deno.ServeHandler<Deno.NetAddr> => {
  const { deps } = sampleGateway({
    operations: [thing],
    authenticate: () => Promise.resolve(ALICE),
    limits: isLimited ? limits : undefined,
  });
  const http = createHttp(deps);
  return (request, { remoteAddr }) => http(request, remoteAddr.hostname);
};

const headed = new Hono();
headed.get(
  "/v1/things/:id",
  (context) => context.json({ id: context.req.param("id"), name: "One" }, 200, baseHeaders(crypto.randomUUID())),
);

for (const batch of [1, 20]) {
  const base = await measure((request) => bare.fetch(request), batch);
  const fair = await measure((request) => headed.fetch(request), batch);
  for (const isLimited of [false, true]) {
    const ours = await measure(gateway(isLimited), batch);
    const [times, fairly] = [base, fair].map((cost) => `${(ours / cost).toFixed(2)}x`);
    // deno-lint-ignore no-console -- printing is what a benchmark is for
    console.log(
      `${batch} in a write, limits ${isLimited ? "on" : "off"}: bare Hono ${
        base.toFixed(1)
      } us, with the security headers ${fair.toFixed(1)} us, operation ${ours.toFixed(1)} us: ${times}, ${fairly}`,
    );
  }
}
