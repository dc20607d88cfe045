// Responses: statuses, headers, ETags, problems.
import assert from "node:assert/strict";
import { ALICE, createSampleGateway, jsonRequest } from "./http_sample.ts";

Deno.test("a response has the status, Location and body of the operation", async () => {
  const { call } = createSampleGateway();
  const made = await call("/v1/rooms", jsonRequest({ name: "Launch" }));
  assert.equal(made.status, 201);
  assert.equal(made.headers.get("Location"), "/v1/rooms/room_2");
  assert.equal(made.headers.get("Content-Type"), "application/json");
  assert.equal((await made.json()).name, "Launch");
  const deleted = await call("/v1/rooms/room_2", { method: "DELETE" });
  assert.equal(deleted.status, 204);
  assert.equal(deleted.headers.get("Content-Type"), null);
  assert.equal(await deleted.text(), "");
  assert.equal((await call("/v1/rooms/room_2", { method: "DELETE" })).status, 404);
});

Deno.test("a literal path wins over a parameter", async () => {
  const { call } = createSampleGateway();
  assert.deepEqual(await (await call("/v1/rooms/unread")).json(), { count: 7 });
});

Deno.test("a versioned response has a strong ETag, and If-None-Match returns 304", async () => {
  const { call } = createSampleGateway();
  const first = await call("/v1/rooms/room_1");
  const etag = first.headers.get("ETag") ?? "";
  assert.match(etag, /^"3\.[0-9a-f]{16}"$/);
  assert.equal(first.headers.get("Cache-Control"), "private, no-cache");
  for (const header of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
    const again = await call("/v1/rooms/room_1", { headers: { "If-None-Match": header } });
    assert.equal(again.status, 304, header);
    assert.equal(again.headers.get("ETag"), etag);
    assert.equal(await again.text(), "");
  }
  const changed = await call("/v1/rooms/room_1", jsonRequest({ name: "Two" }, "PATCH", { "If-Match": etag }));
  assert.match(changed.headers.get("ETag") ?? "", /^"4\./);
  const fresh = await call("/v1/rooms/room_1", { headers: { "If-None-Match": etag } });
  assert.equal(fresh.status, 200);
  assert.equal((await call("/v1/rooms/unread")).headers.get("ETag"), null);
});

Deno.test("HEAD responds like GET without a body", async () => {
  const { call } = createSampleGateway();
  for (const path of ["/v1/rooms/room_1", "/health", "/v1/rooms/nope"]) {
    const [head, get] = [await call(path, { method: "HEAD" }), await call(path)];
    assert.equal(head.status, get.status);
    assert.equal(head.headers.get("Content-Type"), get.headers.get("Content-Type"));
    assert.equal(head.headers.get("ETag"), get.headers.get("ETag"));
    assert.equal(await head.text(), "");
    // The runtime would send 0.
    assert.equal(head.headers.get("Content-Length"), String((await get.bytes()).length));
  }
});

Deno.test("a problem has every member of the contract", async () => {
  const { call } = createSampleGateway();
  const response = await call("/v1/rooms/nope?", { headers: { "X-Request-Id": "abc-1" } });
  assert.deepEqual(await response.json(), {
    type: "urn:collab:problem:not_found",
    title: "Not found",
    status: 404,
    detail: "No such room",
    instance: "/v1/rooms/nope",
    code: "not_found",
    requestId: "abc-1",
  });
  assert.equal(response.headers.get("X-Request-Id"), "abc-1");
});

Deno.test("an invalid request id is replaced", async () => {
  const { call } = createSampleGateway();
  for (const id of ["a b", "x".repeat(65), "<script>", "ä"]) {
    const minted = (await call("/health", { headers: { "X-Request-Id": id } })).headers.get("X-Request-Id") ?? "";
    assert.match(minted, /^[0-9a-f-]{36}$/);
  }
});

Deno.test("an unexpected error returns 500 without its message", async () => {
  const { call } = createSampleGateway();
  const response = await call("/v1/rooms", jsonRequest({ name: "bug" }));
  assert.equal(response.status, 500);
  const text = await response.text();
  assert.ok(!text.includes("secret"));
  assert.equal(JSON.parse(text).code, "internal");
});

Deno.test("unknown paths return 404, known paths with another method 405 and Allow", async () => {
  const { call } = createSampleGateway();
  for (
    const path of ["/nope", "/v1/rooms/", "/v1/rooms/room_1/", "/health/", "/v1", "http://gateway.test//v1/rooms"]
  ) {
    const response = await call(path);
    assert.equal(response.status, 404, path);
    assert.equal((await response.json()).code, "route_not_found");
  }
  const cases = [
    ["PUT", "/v1/rooms/room_1", "GET, HEAD, PATCH, DELETE"],
    ["DELETE", "/v1/rooms", "GET, HEAD, POST"],
    ["POST", "/health", "GET, HEAD"],
    ["PROPFIND", "/v1/rooms", "GET, HEAD, POST"],
    ["OPTIONS", "/v1/rooms", "GET, HEAD, POST"],
    // Not the room "unread": the documents name this path with one method only.
    ["DELETE", "/v1/rooms/unread", "GET, HEAD"],
  ] as const;
  for (const [method, path, allow] of cases) {
    const response = await call(path, { method });
    assert.equal(response.status, 405);
    assert.equal(response.headers.get("Allow"), allow);
    assert.equal((await response.json()).code, "method_not_allowed");
  }
});

Deno.test("an Accept header that excludes JSON returns 406", async () => {
  const { call } = createSampleGateway();
  for (
    const accept of [
      "text/html",
      "image/*, text/plain;q=0.5",
      "application/json;q=0, */*;q=0.0",
      "*/*, application/json;q=0",
      'text/html;title="a, application/json, b"',
    ]
  ) {
    const response = await call("/v1/rooms", { headers: { Accept: accept } });
    assert.equal(response.status, 406, accept);
    assert.equal((await response.json()).code, "not_acceptable");
  }
  for (
    const accept of [
      "*/*",
      "application/*",
      "*/*;q=0, application/json",
      "text/html, application/json;q=0.1",
      "Application/JSON",
    ]
  ) {
    assert.equal((await call("/v1/rooms", { headers: { Accept: accept } })).status, 200, accept);
  }
  const headers = { Accept: "application/problem+json" };
  assert.equal((await call("/v1/rooms/room_1", { method: "DELETE", headers })).status, 204, "it has no body");
});

Deno.test("every response has the security headers", async () => {
  const { call } = createSampleGateway();
  for (const path of ["/v1/rooms", "/v1/rooms/nope", "/nope", "/health", "/docs", "/openapi.json", "/metrics"]) {
    const response = await call(path);
    await response.body?.cancel();
    assert.equal(response.headers.get("X-Content-Type-Options"), "nosniff", path);
    assert.equal(response.headers.get("Referrer-Policy"), "no-referrer", path);
    assert.match(response.headers.get("Content-Security-Policy") ?? "", /frame-ancestors 'none'/);
    assert.ok(response.headers.get("Cache-Control"));
    assert.ok(response.headers.get("X-Request-Id"));
  }
  assert.equal((await call("/v1/rooms")).headers.get("Cache-Control"), "no-store");
});

Deno.test("missing, invalid and expired tokens return 401 with WWW-Authenticate; a missing scope 403", async () => {
  const { call } = createSampleGateway();
  const cases = [
    [null, "unauthenticated", 'Bearer realm="gateway"'],
    ["nope", "unauthenticated", 'Bearer error="invalid_token"'],
    ["old", "token_expired", 'Bearer error="invalid_token"'],
  ] as const;
  for (const [token, code, challenge] of cases) {
    const response = await call("/v1/rooms", { token });
    assert.equal(response.status, 401);
    assert.equal(response.headers.get("WWW-Authenticate"), challenge);
    assert.equal((await response.json()).code, code);
  }
  for (const header of ["Basic YTpi", "Bearer", "Bearer a b", `Bearer ${"x".repeat(9000)}`]) {
    assert.equal((await call("/v1/rooms", { headers: { Authorization: header } })).status, 401, header.slice(0, 20));
  }
  const long = await call("/v1/rooms", { headers: { Authorization: `Bearer ${"x".repeat(9000)}` } });
  assert.match((await long.json()).detail, /longer than 8192 characters/);
  const basic = await call("/v1/rooms", { headers: { Authorization: "Basic YTpi" } });
  assert.equal(basic.headers.get("WWW-Authenticate"), 'Bearer realm="gateway"');
  assert.equal((await call("/v1/rooms", { headers: { Authorization: "bearer alice" } })).status, 200);
  const forbidden = await call("/v1/rooms", { ...jsonRequest({ name: "x" }), token: "reader" });
  assert.equal((await forbidden.json()).code, "scope_missing");
  assert.equal(forbidden.headers.get("WWW-Authenticate"), 'Bearer error="insufficient_scope"');
});

Deno.test("authenticated responses have rate headers; beyond the rate they are 429 with Retry-After", async () => {
  let left = 3;
  const keys: string[] = [];
  const { call } = createSampleGateway({
    limits: {
      consumeRate: (key, { burst }) => {
        keys.push(key);
        left--;
        return Promise.resolve({ isAllowed: left >= 0, limit: burst, remaining: Math.max(0, left), resetMs: 1500 });
      },
      requests: { perSecond: 10, burst: 100 },
      writes: { perSecond: 10, burst: 100 },
      unauthenticated: { perSecond: 0.5, burst: 30 },
    },
  });
  const statuses = [];
  for (const path of ["/v1/rooms", "/v1/rooms/nope", "/v1/rooms?foo=1", "/v1/rooms"]) {
    const response = await call(path);
    statuses.push(response.status);
    assert.equal(response.headers.get("RateLimit-Limit"), "100");
    assert.match(response.headers.get("RateLimit-Remaining") ?? "", /^[0-2]$/);
    assert.equal(response.headers.get("RateLimit-Reset"), "2");
    if (response.status === 429) assert.equal(response.headers.get("Retry-After"), "2");
  }
  assert.deepEqual(statuses, [200, 404, 400, 429]);
  assert.deepEqual(new Set(keys), new Set([`requests:${ALICE.tenantId}/${ALICE.principalId}`]));
  assert.equal((await call("/health")).headers.get("RateLimit-Limit"), null);
  assert.equal(keys.length, 4);
});

Deno.test("failed authentications are limited per address, and a /64 is one address", async () => {
  const counts = new Map<string, number>();
  const { call } = createSampleGateway({
    limits: {
      consumeRate: (key, { burst }) => {
        const count = (counts.get(key) ?? 0) + 1;
        counts.set(key, count);
        return Promise.resolve({ isAllowed: count <= burst, limit: burst, remaining: 0, resetMs: 4000 });
      },
      requests: { perSecond: 10, burst: 100 },
      writes: { perSecond: 10, burst: 100 },
      unauthenticated: { perSecond: 0.5, burst: 2 },
    },
  });
  const knock = async (ip: string): Promise<number> => (await call("/v1/rooms", { token: "nope", ip })).status;
  assert.deepEqual([await knock("192.0.2.9"), await knock("192.0.2.9"), await knock("192.0.2.9")], [401, 401, 429]);
  assert.equal(await knock("192.0.2.10"), 401);
  assert.deepEqual(
    [await knock("2001:db8:0:1::1"), await knock("2001:db8:0:1::2"), await knock("2001:db8:0:1:ff::3")],
    [401, 401, 429],
  );
  assert.equal((await call("/v1/rooms", { ip: "192.0.2.9" })).status, 200);
  // The same path, percent-encoded.
  assert.equal((await call("/%761/rooms", { token: "nope", ip: "192.0.2.9" })).status, 429);
  assert.deepEqual([...counts.keys()].filter((key) => key.startsWith("unauthenticated")), [
    "unauthenticated:192.0.2.9",
    "unauthenticated:192.0.2.10",
    "unauthenticated:2001:db8:0:1::",
  ]);
});

Deno.test("a temporary failure has Retry-After", async () => {
  const { call } = createSampleGateway();
  const response = await call("/v1/rooms", jsonRequest({ name: "busy" }));
  assert.equal(response.status, 429);
  assert.equal(response.headers.get("Retry-After"), "3");
});
