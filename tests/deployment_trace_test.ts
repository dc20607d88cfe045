// Tracing as README turns it on: spans and log entries reach the collector, and contain nothing of the secrets in URLs.
import assert from "node:assert/strict";
import { openTarget, uniqueName } from "./e2e/target.ts";
import { until } from "./wait.ts";

Deno.test("spans and log entries reach the collector without tokens, searches and names from URLs", async () => {
  let told = "";
  await using collector = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const text = await request.text();
    told += text;
    return Response.json({});
  });
  await using target = await openTarget({
    isOwn: true,
    environment: {
      OTEL_DENO: "true",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.addr.port}`,
      OTEL_BSP_SCHEDULE_DELAY: "100",
      OTEL_BLRP_SCHEDULE_DELAY: "100",
    },
  });
  const token = await target.token({ sub: uniqueName("alice") });
  const feed = await target.call(token, "POST", "/v1/collaboration/calendar/feeds", {});
  await target.call(token, "GET", "/v1/search?q=canary");
  for (const path of [feed.path, `/ws?token=${token}`]) {
    const response = await fetch(`${target.baseUrl}${path}`, { headers: { "X-Canary": "canary" } });
    await response.body?.cancel();
  }
  await until(() => (told.match(/"http\.response\.status_code"/g)?.length ?? 0) >= 4, "four spans are told");
  // Entries have their level: that the gateway listens is no error.
  const listening = /"severityText": "INFO",\s*"body": \{\s*"stringValue": "[^\n]*listening/;
  await until(() => listening.test(told), "an entry of the log arrives");
  assert.doesNotMatch(told, /"severityText": "ERROR"/);
  const secret = feed.path.split("/").at(-1);
  assert.deepEqual([secret, token, "canary"].filter((text) => told.includes(text)), []);
  assert.match(told, /"http\.request\.method"/);
  for (const route of ["/v1/search", "/v1/collaboration/calendar/feeds/:id", "/ws"]) {
    assert.ok(told.includes(`"name": "GET ${route}"`), `a span is named after ${route}`);
    assert.ok(told.includes(`"stringValue": "${route}"`), `a span tells ${route}`);
  }
});
