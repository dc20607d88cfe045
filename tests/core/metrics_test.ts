// Metrics are wanted most while something is wrong.
import assert from "node:assert/strict";
import * as prom from "prom-client";
import { Counter, Histogram } from "@/core/metric_family.ts";
import { Metrics } from "@/core/metrics.ts";
import { captureLog } from "../log_capture.ts";

Deno.test("a scrape omits gauges that cannot be read, and returns them again when they can", async () => {
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

Deno.test("counters and histograms are written as prom-client writes its own", async () => {
  const theirs = new prom.Registry();
  const ours = new prom.Registry();
  const name = "calls_total";
  const buckets = [0.1, 0.5, 2];
  const [help, registers] = ["What it\\ counts", [theirs]];
  const labelNames = ["path", "status"];
  const one = { path: '/a "quoted"\n\\', status: "200" };
  const other = { path: "/b", status: "" };

  const theirCounter = new prom.Counter({ name, help, labelNames, registers });
  const ourCounter = new Counter<string>(ours, name, help, labelNames);
  const theirSeconds = new prom.Histogram({ name: "seconds", help, labelNames, buckets, registers });
  const ourSeconds = new Histogram<string>(ours, "seconds", help, { bounds: buckets, labelNames });
  for (const labels of [one, other, one]) {
    theirCounter.inc(labels);
    ourCounter.inc(labels);
    theirCounter.inc(labels, 4);
    ourCounter.labels({ ...labels }).inc(4);
    for (const value of [0, 0.1, 0.10001, 0.5, 1, 2, 3, 1e9]) {
      theirSeconds.observe(labels, value);
      ourSeconds.observe(labels, value);
    }
  }
  const theirPlain = new prom.Histogram({ name: "plain", help, buckets, registers });
  const ourPlain = new Histogram<string>(ours, "plain", help, { bounds: buckets, labelNames: [] }).labels({});
  new prom.Counter({ name: "none_total", help, registers });
  new Counter(ours, "none_total", help, []).labels({});
  assert.equal(await ours.metrics(), await theirs.metrics());
  theirPlain.observe(0.3);
  ourPlain.observe(0.3);
  assert.equal(await ours.metrics(), await theirs.metrics());
});
