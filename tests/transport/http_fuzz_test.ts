// Random requests: no response is a 5xx, and every error is a complete problem document.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { FAULTS } from "@/core/fault.ts";
import { createSampleGateway } from "./http_sample.ts";

const SEGMENTS = [
  "v1",
  "rooms",
  "room_1",
  "unread",
  "import",
  "collaboration",
  "ready",
  "health",
  "docs",
  "%",
  "%zz",
  "",
];
const segment = fc.oneof(
  fc.constantFrom(...SEGMENTS, "%00", "%ff", "..", ".", "__proto__", "constructor", "a".repeat(5000)),
  fc.string({ unit: "binary" }).map((text) => encodeURIComponent(text.toWellFormed())),
  fc.webSegment(),
);
const path = fc.oneof(
  fc.constantFrom("/v1/rooms", "/v1/rooms/room_1", "/v1/rooms/room_1/import", "/metrics", "/openapi.json"),
  fc.array(segment, { maxLength: 6 }).map((parts) => `/${parts.join("/")}`),
);
const query = fc.oneof(
  fc.constant(""),
  fc.constantFrom("?limit=1e999", "?limit=", "?ids=&ids=,,", "?cursor=%00", "?kind[]=a", "?&&=", "?__proto__=1"),
  fc.webQueryParameters().map((text) => `?${text}`),
);
const method = fc.constantFrom("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE", "constructor", "x");
const headers = fc.dictionary(
  fc.constantFrom(
    "Accept",
    "Content-Type",
    "If-Match",
    "If-None-Match",
    "Idempotency-Key",
    "X-Request-Id",
    "Origin",
    "Access-Control-Request-Method",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "Authorization",
    "Upgrade",
    "Content-Length",
  ),
  fc.oneof(
    fc.constantFrom(
      "application/json",
      "*/*",
      '"1"',
      "Bearer alice",
      "Bearer nope",
      "websocket",
      "GET",
      "10.0.0.1",
      "0",
    ),
    fc.string({ maxLength: 300 }).map((text) => text.replaceAll(/[^\x20-\x7e]/g, "?")),
  ),
);
const body = fc.oneof(
  fc.constant(undefined),
  fc.json({ maxDepth: 6 }),
  fc.constantFrom('{"name":"x"}', '{"lines":[]}', "[".repeat(9999), '{"__proto__":null}', '{"name":"\\ud800"}', "{"),
  fc.uint8Array({ maxLength: 400 }).map((bytes) => new Uint8Array(bytes)),
);

Deno.test("no request causes a 5xx, and every error is a valid problem", async () => {
  const { call } = createSampleGateway({ corsOrigins: ["https://app.example"], trustedProxies: ["10.0.0.0/8"] });
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(method, path, query, headers, body, async (method, path, query, headers, body) => {
      const isBodyless = method === "GET" || method === "HEAD" || body === undefined;
      const response = await call(`http://gateway.test${path}${query}`, {
        method,
        headers: { "Content-Type": "application/json", ...headers },
        ...isBodyless ? {} : { body },
        ip: "10.9.9.9",
      });
      statuses.add(response.status);
      assert.ok(response.status < 500, `${method} ${path}${query} returned ${response.status}`);
      assert.match(response.headers.get("X-Request-Id") ?? "", /^[A-Za-z0-9_.-]{1,64}$/);
      const text = await response.text();
      if (response.status < 400 || method === "HEAD") return;
      assert.equal(response.headers.get("Content-Type"), "application/problem+json");
      const problem = JSON.parse(text);
      const kind = Object.entries(FAULTS).find(([code]) => code === problem.code)?.[1];
      assert.equal(problem.type, `urn:collab:problem:${problem.code}`);
      assert.deepEqual([problem.status, problem.title], [response.status, kind?.title]);
      assert.equal(kind?.status, response.status);
      assert.equal(problem.requestId, response.headers.get("X-Request-Id"));
      assert.equal(typeof problem.detail, "string");
      assert.ok(problem.instance.startsWith("/"));
      if (response.status === 405) assert.ok(response.headers.get("Allow"));
    }),
    { numRuns: 1500 },
  );
  // The requests must cover different outcomes.
  for (const status of [200, 400, 401, 404, 405]) assert.ok(statuses.has(status), `${status} was never returned`);
});
