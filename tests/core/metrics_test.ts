// Metrics are wanted most while something is wrong.
import assert from "node:assert/strict";
import { Metrics } from "@/core/metrics.ts";
import { captureLog } from "../log_capture.ts";

Deno.test("a scrape answers without the gauges that cannot be read now, and has them again when they can", async () => {
  const metrics = new Metrics(50);
  let read: () => Promise<number> = () => Promise.resolve(7);
  metrics.onScrape(metrics.jobsWaiting, async (gauge) => gauge.set({ state: "dead" }, await read()));
  metrics.connections.inc();
  const scrape = async (): Promise<string> => {
    const text = await metrics.registry.metrics();
    assert.match(text, /^svc_connections_total 1$/m);
    return text;
  };
  const waiting = /^svc_jobs_waiting{state="dead"} (\d+)$/m;
  assert.equal(waiting.exec(await scrape())?.[1], "7");
  read = () => Promise.reject(new Error("away"));
  assert.doesNotMatch(await scrape(), waiting);
  const late = Promise.withResolvers<number>();
  read = () => late.promise;
  assert.doesNotMatch(await scrape(), waiting);
  late.resolve(8);
  read = () => Promise.resolve(9);
  assert.equal(waiting.exec(await scrape())?.[1], "9");
});

Deno.test("a gauge that cannot be read is in the log, once a minute for each", async () => {
  const metrics = new Metrics(50);
  const waiting = Promise.withResolvers<void>();
  metrics.onScrape(metrics.jobsWaiting, () => Promise.reject(new Error("away")));
  metrics.onScrape(metrics.busHealthy, () => waiting.promise);
  const records = await captureLog(["gateway", "metrics"], async () => {
    for (let scrape = 0; scrape < 2; scrape++) await metrics.registry.metrics();
  });
  const lines = records.map(({ level, properties: { name, code } }) => `${level} ${name} ${code}`).sort();
  assert.deepEqual(lines, ["warning svc_bus_healthy timeout", "warning svc_jobs_waiting internal"]);
  waiting.resolve();
});
