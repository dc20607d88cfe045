import { RedisBus } from "@/adapters/bus_redis.ts";
import { RedisLimiter } from "@/adapters/limiter_redis.ts";
import { ownRedis } from "./conformance/redis_server.ts";
await using s = await ownRedis();
const a = new RedisBus(s.url), b = new RedisBus(s.url);
let got = 0;
let done = () => {};
const N = 50000;
const lat: number[] = [];
await b.subscribe("room:a", (m) => {
  got++;
  if (m.kind === "ephemeral" && m.event.channel) lat.push(performance.now() - Number(m.event.channel));
  if (got === N) done();
});
const msg = (c = "") => ({ kind: "ephemeral" as const, event: { tenantId: "t", channel: c, json: "x".repeat(200) } });
await (await a.subscribe("w", () => {})).close();
for (let r = 0; r < 3; r++) {
  got = 0;
  const p = new Promise<void>((res) => done = res);
  const t = performance.now();
  let max = 0;
  for (let i = 0; i < N; i++) {
    a.publish("room:a", msg());
    if (i % 500 === 499) await new Promise((r) => setTimeout(r, 0));
  }
  const tp = performance.now() - t;
  await p;
  console.log(
    "publish µs",
    (tp * 1000 / N).toFixed(1),
    "end to end msg/s",
    (N / (performance.now() - t) * 1000).toFixed(0),
  );
}
got = 0;
for (let i = 0; i < 2000; i++) {
  a.publish("room:a", msg(String(performance.now())));
  await new Promise((r) => setTimeout(r, 1));
}
lat.sort((x, y) => x - y);
console.log("latency p50", lat[lat.length >> 1]!.toFixed(2), "p99", lat[Math.floor(lat.length * .99)]!.toFixed(2));
await a.close();
await b.close();
const l = new RedisLimiter(s.url);
await l.connected;
const rate = { perSecond: 1e5, burst: 1e6 };
{
  const t = performance.now();
  for (let i = 0; i < 5000; i++) await l.take("k", rate);
  console.log("redis take serial µs", ((performance.now() - t) / 5).toFixed(0));
}
{
  const t = performance.now();
  await Promise.all(Array.from({ length: 20000 }, (_, i) => l.take("k" + i % 100, rate)));
  console.log("redis take parallel µs", ((performance.now() - t) / 20).toFixed(1));
}
await s.stop();
const ts = [];
for (let i = 0; i < 200; i++) {
  const t = performance.now();
  await l.take("k", rate);
  ts.push(performance.now() - t);
}
console.log("down: first ms", ts[0]!.toFixed(2), "max", Math.max(...ts).toFixed(2));
await s.start();
const t = performance.now();
let r = 0;
while (true) {
  const x = await l.take("z" + r++, { perSecond: 1, burst: 10 });
  await l.take("z" + (r - 1), { perSecond: 1, burst: 10 });
  if ((l as unknown as Record<string, unknown>) && performance.now() - t > 0 && await (async () => true)()) break;
}
await l.close();
