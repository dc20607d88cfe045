// Rates and latencies from `/metrics`, sampled while the page is open.
import { addressOf } from "../core/api.ts";

export type Sample = { at: number; requests: number; messages: number; seconds: number; errors: number };
export type Point = {
  requestsPerSecond: number;
  messagesPerSecond: number;
  latencyMs: number;
  errorsPerSecond: number;
};

const LINE = /^(\w+)(?:\{[^}]*\})? ([\d.e+-]+)$/;

/** Sums of the counters; throws if the gateway serves its metrics elsewhere. */
export async function readSample(): Promise<Sample> {
  const response = await fetch(addressOf("metrics"));
  if (!response.ok) throw new Error("Metrics are not served here");
  const sums = new Map<string, number>();
  for (const line of (await response.text()).split("\n")) {
    const [, name, value] = LINE.exec(line) ?? [];
    if (name !== undefined) sums.set(name, (sums.get(name) ?? 0) + Number(value));
    if (name === "svc_http_responses_total" && /status="5/.test(line)) {
      sums.set("errors", (sums.get("errors") ?? 0) + Number(value));
    }
  }
  return {
    at: performance.now(),
    requests: sums.get("svc_http_latency_seconds_count") ?? 0,
    seconds: sums.get("svc_http_latency_seconds_sum") ?? 0,
    messages: sums.get("svc_messages_sent_total") ?? 0,
    errors: sums.get("errors") ?? 0,
  };
}

/** What happened between two samples. */
export function pointOf(before: Sample, after: Sample): Point {
  const seconds = Math.max(0.001, (after.at - before.at) / 1000);
  // The request that reads the metrics is none of the load.
  const requests = Math.max(0, after.requests - before.requests - 1);
  return {
    requestsPerSecond: requests / seconds,
    messagesPerSecond: Math.max(0, after.messages - before.messages) / seconds,
    latencyMs: requests === 0 ? 0 : Math.max(0, after.seconds - before.seconds) / requests * 1000,
    errorsPerSecond: Math.max(0, after.errors - before.errors) / seconds,
  };
}
