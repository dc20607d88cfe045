// The handling of every request: CORS, HTTPS, proxies, timeouts, metrics, log.
import assert from "node:assert/strict";
import { nextTick } from "@/core/time/clock.ts";
import fc from "npm:fast-check@4.10.2";
import { Fault } from "@/core/fault.ts";
import type { Route } from "@/core/http/route.ts";
import { hstsOf } from "@/transport/http/https.ts";
import { createHttpHandler } from "@/transport/http/server.ts";
import { Metrics } from "@/core/metrics.ts";
import { type GuardedResponse, MemoryGuard } from "@/transport/shared/memory_guard.ts";
import { captureLog } from "../log_capture.ts";
import { pause, until } from "../wait.ts";
import { createSampleGateway, jsonRequest } from "./http_sample.ts";
import { RequestContext, RequestTimeouts } from "@/transport/http/request_context.ts";

const APP = "https://app.example";

Deno.test("CORS allows exactly the configured origins", async () => {
  const { call } = createSampleGateway({ corsOrigins: [APP] });
  const allowed = await call("/v1/rooms", { headers: { Origin: APP } });
  assert.equal(allowed.headers.get("Access-Control-Allow-Origin"), APP);
  assert.equal(allowed.headers.get("Access-Control-Allow-Credentials"), null);
  assert.match(allowed.headers.get("Access-Control-Expose-Headers") ?? "", /ETag.*RateLimit-Remaining.*X-Request-Id/);
  assert.match(allowed.headers.get("Access-Control-Expose-Headers") ?? "", /Content-Disposition, Content-Range/);
  assert.equal(allowed.headers.get("Vary"), "Origin");
  for (const origin of ["https://app.example.evil.test", "http://app.example", "https://APP.example", "null"]) {
    const other = await call("/v1/rooms", { headers: { Origin: origin } });
    assert.equal(other.status, 200);
    assert.equal(other.headers.get("Access-Control-Allow-Origin"), null, origin);
    assert.equal(other.headers.get("Vary"), "Origin");
  }
  const failed = await call("/v1/rooms/nope", { headers: { Origin: APP } });
  assert.equal(failed.headers.get("Access-Control-Allow-Origin"), APP);
  const health = await call("/health", { headers: { Origin: APP } });
  assert.equal(health.headers.get("Access-Control-Allow-Origin"), APP);
});

Deno.test("a preflight returns 204 without a token, 403 for other origins", async () => {
  const { call } = createSampleGateway({ corsOrigins: [APP] });
  const preflight = (origin: string) =>
    call("/v1/rooms", {
      method: "OPTIONS",
      token: null,
      headers: { Origin: origin, "Access-Control-Request-Method": "POST" },
    });
  const allowed = await preflight(APP);
  assert.equal(allowed.status, 204);
  assert.equal(allowed.headers.get("Access-Control-Max-Age"), "600");
  assert.match(allowed.headers.get("Access-Control-Allow-Methods") ?? "", /PATCH/);
  assert.match(
    allowed.headers.get("Access-Control-Allow-Headers") ?? "",
    /Authorization.*Idempotency-Key.*If-Match.*traceparent, tracestate, baggage/,
  );
  const foreign = await preflight("https://evil.test");
  const { code, detail } = await foreign.json();
  assert.deepEqual([foreign.status, code], [403, "origin_not_allowed"]);
  assert.match(detail, /^The origin https:\/\/evil\.test is not allowed.* SVC_CORS_ALLOW_ORIGINS.* allowedOrigins/);
});

Deno.test("allowing all origins needs no Vary", async () => {
  const { call } = createSampleGateway({ corsOrigins: "*" });
  const response = await call("/v1/rooms", { headers: { Origin: "https://anyone.test" } });
  assert.equal(response.headers.get("Access-Control-Allow-Origin"), "*");
  assert.equal(response.headers.get("Vary"), null);
});

Deno.test("plain http is redirected to the configured host, except probes", async () => {
  const { call, deps } = createSampleGateway({
    https: { redirectTo: "https://api.example/base/", hsts: hstsOf(true, false) },
  });
  const moved = await call("/v1/rooms?limit=1", { headers: { Host: "evil.test" }, ...jsonRequest({ name: "x" }) });
  assert.equal(moved.status, 308);
  assert.equal(moved.headers.get("Location"), "https://api.example/base/v1/rooms?limit=1");
  assert.equal(moved.headers.get("Strict-Transport-Security"), null);
  const doubled = "http://gateway.test//evil.test/x";
  assert.equal((await call(doubled)).headers.get("Location"), "https://api.example/base//evil.test/x");
  // As the runtime passes on unescaped characters, and requests without a path.
  for (
    const [url, path] of [["http://a.test/漢?q=ä 😀", "/%E6%BC%A2?q=%C3%A4%20%F0%9F%98%80"], ["http://a.test:443", "/"]]
  ) {
    const request = new Request("http://gateway.test/");
    Object.defineProperty(request, "url", { value: url });
    const response = await createHttpHandler(deps)(request, "192.0.2.1");
    assert.equal(response.headers.get("Location"), `https://api.example/base${path}`);
  }
  assert.equal((await call("/health")).status, 200);
  assert.equal((await call("/metrics")).status, 200);
  assert.equal((await call("/v1/collaboration/ready")).status, 200);
  const socket = await call("/ws?token=secret", { headers: { Upgrade: "websocket" } });
  assert.equal(socket.status, 403);
  assert.ok(!(await socket.text()).includes("secret"));
});

Deno.test("an invalid host is rejected", async () => {
  const { call, deps } = createSampleGateway();
  for (const host of ["a/health?", "a/health#", "a?", "a#b", "user@a", "a\\b", "a b"]) {
    // How the runtime builds the URL of `GET /v1/rooms` with such a header.
    const response = await call("/health", { headers: { Host: host } });
    assert.deepEqual([response.status, (await response.json()).code], [400, "bad_request"], host);
  }
  for (const host of ["]][[", "a:99999", "a:b", "%zz", "[::1", "1.2.3.4.5", "xn--"]) {
    const request = new Request("http://gateway.test/health");
    Object.defineProperty(request, "url", { value: `http://${host}/health?token=x` });
    assert.equal((await createHttpHandler(deps)(request, "192.0.2.1")).status, 400, host);
  }
  for (const host of ["a.example", "a.example:8080", "[::1]:8080", ""]) {
    assert.equal((await call("/health", { headers: { Host: host } })).status, 200, host);
  }
});

Deno.test("X-Forwarded-Proto counts only from trusted proxies, and HSTS is sent over https only", async () => {
  const { call } = createSampleGateway({
    https: { redirectTo: "https://api.example", hsts: hstsOf(true, false) },
    trustedProxies: ["10.0.0.0/8", "::1"],
  });
  const headers = { "X-Forwarded-Proto": "https" };
  for (const ip of ["10.1.2.3", "::ffff:10.1.2.3", "::1"]) {
    const proxied = await call("/v1/rooms", { ip, headers });
    assert.equal(proxied.status, 200, ip);
    assert.equal(proxied.headers.get("Strict-Transport-Security"), "max-age=31536000; includeSubDomains");
  }
  assert.equal((await call("/v1/rooms", { ip: "192.0.2.1", headers })).status, 308);
  assert.equal((await call("/v1/rooms", { ip: "10.1.2.3", headers: { "X-Forwarded-Proto": "http" } })).status, 308);
  // How the runtime builds the URL of an absolute-form request line; the connection is plain TCP anyway.
  for (const ip of ["192.0.2.1", "10.1.2.3"]) {
    assert.equal((await call("https://api.example/v1/rooms", { ip })).status, 308, ip);
  }
  const alone = createSampleGateway({ https: { hsts: hstsOf(true, false) } });
  const claimed = await alone.call("https://api.example/v1/rooms");
  assert.deepEqual([claimed.status, claimed.headers.get("Strict-Transport-Security")], [200, null]);
  const quiet = createSampleGateway({ trustedProxies: ["10.0.0.0/8"] });
  const response = await quiet.call("/v1/rooms", { ip: "10.1.2.3", headers });
  assert.equal(response.headers.get("Strict-Transport-Security"), null);
});

Deno.test("the client address is the farthest hop reported by trusted proxies", async () => {
  const addresses: string[] = [];
  const { call } = createSampleGateway({
    trustedProxies: ["10.0.0.0/8", "2001:db8::/32"],
    limits: {
      consumeRate: (key) => {
        if (key.startsWith("unauthenticated:")) addresses.push(key.slice("unauthenticated:".length));
        return Promise.resolve({ isAllowed: true, limit: 1, remaining: 1, resetMs: 0 });
      },
      requests: { perSecond: 1, burst: 1 },
      writes: { perSecond: 1, burst: 1 },
      unauthenticated: { perSecond: 1, burst: 1 },
    },
  });
  const cases = [
    ["192.0.2.1", "203.0.113.7", "192.0.2.1"],
    ["10.0.0.1", "203.0.113.7", "203.0.113.7"],
    ["10.0.0.1", "6.6.6.6, 203.0.113.7, 10.0.0.2", "203.0.113.7"],
    ["10.0.0.1", "203.0.113.7:4711", "203.0.113.7"],
    ["10.0.0.1", "garbage", "10.0.0.1"],
    ["10.0.0.1", "203.0.113.7, garbage", "10.0.0.1"],
    ["::ffff:10.0.0.1", "::ffff:203.0.113.7", "203.0.113.7"],
    ["2001:db8::1", "[fd00:1:2:3::9]:80", "fd00:1:2:3::"],
    ["10.0.0.1", "", "10.0.0.1"],
    ["not an address", "203.0.113.7", "not an address"],
  ] as const;
  for (const [ip, forwarded, expected] of cases) {
    await call("/v1/rooms", { ip, token: null, headers: { "X-Forwarded-For": forwarded } });
    assert.equal(addresses.at(-1), expected, `${ip} / ${forwarded}`);
  }
});

Deno.test("a request beyond the timeout returns 503 and aborts its signal, except long polls", async () => {
  const { call, sample } = createSampleGateway({ requestTimeoutMs: 20 });
  // A busy machine may take as long before the operation begins.
  do {
    const slow = await call("/v1/collaboration/slow");
    assert.deepEqual([slow.status, (await slow.json()).code], [503, "unavailable"]);
    assert.equal(slow.headers.get("Retry-After"), "1");
  } while (sample.signals.length === 0);
  assert.deepEqual(sample.signals.map(({ aborted }) => aborted), [true]);
  const poll = await call("/v1/collaboration/sync?wait=1");
  assert.equal(poll.status, 200);
  assert.deepEqual(sample.signals.map(({ aborted }) => aborted), [true, false]);
});

Deno.test("a body that trickles beyond the timeout returns 503", async () => {
  const { call } = createSampleGateway({ requestTimeoutMs: 20 });
  const endless = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array([0x7b])) });
  const headers = { "Content-Type": "application/json" };
  const response = await call("/v1/rooms", { method: "POST", headers, body: endless });
  assert.equal(response.status, 503);
  await response.body?.cancel();
});

Deno.test("the signal aborts when the client disconnects, which is not an internal error", async () => {
  const { call, sample, metrics } = createSampleGateway();
  const client = new AbortController();
  const pending = call("/v1/collaboration/sync?wait=1", { signal: client.signal });
  await until(() => sample.signals.length === 1);
  client.abort();
  const response = await pending;
  assert.ok(sample.signals[0]?.aborted);
  assert.equal(response.status, 503);
  await response.body?.cancel();
  assert.match(await metrics.registry.metrics(), /responses_total\{method="GET",path="[^"]*sync",status="503"\} 1/);
});

Deno.test("metrics count route templates, never paths, and requests before authentication too", async () => {
  const { call, metrics } = createSampleGateway({ corsOrigins: [APP] });
  await call("/v1/rooms/room_1");
  await call("/v1/rooms/other", { token: null });
  await call("/v1/rooms/room_1", { method: "HEAD" });
  await call("/secret/path?token=abc");
  await call("/v1/rooms", { method: "PURGE" });
  await call("/v1/rooms", { method: "OPTIONS", headers: { Origin: APP, "Access-Control-Request-Method": "GET" } });
  const text = await metrics.registry.metrics();
  for (
    const line of [
      'svc_http_requests_total{method="GET",path="/v1/rooms/:roomId"} 2',
      'svc_http_responses_total{method="GET",path="/v1/rooms/:roomId",status="200"} 1',
      'svc_http_responses_total{method="GET",path="/v1/rooms/:roomId",status="401"} 1',
      'svc_http_responses_total{method="HEAD",path="/v1/rooms/:roomId",status="200"} 1',
      'svc_http_responses_total{method="GET",path="_unmatched",status="404"} 1',
      'svc_http_responses_total{method="_other",path="_unmatched",status="405"} 1',
      'svc_http_responses_total{method="OPTIONS",path="_unmatched",status="204"} 1',
      'svc_http_latency_seconds_count{method="GET",path="/v1/rooms/:roomId"} 2',
    ]
  ) assert.ok(text.split("\n").includes(line), `${line} is missing`);
  assert.ok(!text.includes("secret"));
});

Deno.test("the log has one entry per request, without paths, queries, bodies or tokens", async () => {
  const records = await captureLog(["gateway", "http"], async () => {
    const { call } = createSampleGateway();
    await call("/v1/rooms/private-id?foo=hidden", { headers: { "X-Request-Id": "r1" } });
    await call("/v1/rooms", jsonRequest({ name: "bug", tags: ["private-body"] }));
  });
  const requests = records.filter(({ rawMessage }) => rawMessage === "request");
  assert.deepEqual(requests.map(({ level, properties }) => [level, properties["path"], properties["status"]]), [
    ["debug", "/v1/rooms/:roomId", 400],
    ["error", "/v1/rooms", 500],
  ]);
  assert.equal(requests[0]?.properties["requestId"], "r1");
  assert.doesNotMatch(JSON.stringify(records), /private|hidden|Bearer|alice/);
});

Deno.test("an internal error is logged once with request, code and cause", async () => {
  const unavailable = new Fault("unavailable", "Not now", { cause: new Error("connection refused") });
  const route: Route = {
    name: "file.content",
    summary: "Read a file",
    tag: "file",
    method: "GET",
    path: "/v1/files/:fileId",
    auth: "public",
    document: { responses: {} },
    handle: () => Promise.reject(unavailable),
  };
  const records = await captureLog(["gateway"], async () => {
    const { call } = createSampleGateway({ routes: [route] });
    for (const id of ["r1", "r2"]) {
      await call("/v1/files/private?token=private", { headers: { "X-Request-Id": id } });
    }
    await call("/v1/rooms", jsonRequest({ name: "bug" }, "POST", { "X-Request-Id": "r3" }));
    const { call: shut } = createSampleGateway({ authenticate: () => Promise.reject(unavailable) });
    await shut("/v1/rooms", { headers: { "X-Request-Id": "r4" } });
    await call("/v1/files/private", { method: "POST" });
  });
  const failures = records.filter(({ rawMessage }) => rawMessage === "request failed");
  assert.deepEqual(
    failures.map(({ category, level, properties: { requestId, code } }) => [category[1], level, requestId, code]),
    [
      ["http", "warning", "r1", "unavailable"],
      ["http", "warning", "r2", "unavailable"],
      ["operation", "error", "r3", "internal"],
      ["http", "warning", "r4", "unavailable"],
    ],
  );
  assert.deepEqual([failures[0]?.properties["method"], failures[0]?.properties["path"]], ["GET", route.path]);
  for (const { properties } of failures) assert.match(String(properties["cause"]), /connection refused|secret detail/);
  assert.doesNotMatch(JSON.stringify(records), /private/);
});

function createRequestContext(): RequestContext {
  return new RequestContext(new Request("http://localhost/"), "127.0.0.1", false);
}

const TIMEOUT_MS = 150;
/** When a request completes: immediately, before the timer is set, while it runs, or never. */
const duration = fc.constantFrom(0, 1, 2, 3, Infinity);

Deno.test("each request gets its response, and those that exceed the timeout are aborted in order", async () => {
  const many = fc.array(fc.record({ lasts: duration, fails: fc.boolean(), isApart: fc.boolean() }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(many, async (requests) => {
      // Much longer than any of them lasts, unless the machine pauses.
      const timeouts = new RequestTimeouts(TIMEOUT_MS);
      const ended: number[] = [];
      const outcomes = [];
      for (const [index, { lasts, fails, isApart }] of requests.entries()) {
        const { promise, resolve, reject } = Promise.withResolvers<Response>();
        const done = (): void => fails ? reject(new Error(`${index}`)) : resolve(new Response(null));
        if (lasts === 0) done();
        else if (lasts < Infinity) setTimeout(done, lasts);
        const context = createRequestContext();
        const startedAt = performance.now();
        outcomes.push(
          timeouts.run(context, promise).then((response) => response.status, (error) => {
            if (!(error instanceof Fault)) return error.message;
            ended.push(index);
            assert.ok(context.isAborted && performance.now() >= startedAt + TIMEOUT_MS);
            // A late result has no effect.
            done();
            return error.code;
          }),
        );
        if (isApart) await pause(1);
      }
      const settled = await Promise.all(outcomes);
      const expected = requests.map(({ lasts, fails }, index) =>
        lasts === Infinity || ended.includes(index) ? "unavailable" : fails ? `${index}` : 200
      );
      assert.deepEqual(settled, expected);
      assert.deepEqual(ended, ended.toSorted((a, b) => a - b));
    }),
    { numRuns: 25 },
  );
});

Deno.test("few responses to strangers leave at once, in turns of their addresses, and a caller waits for none", async () => {
  const { call } = createSampleGateway();
  const left: string[] = [];
  const flood = Array.from({ length: 100 }, () => call("/nope", { token: null }).then(() => left.push("flood")));
  const other = call("/nope", { token: null, ip: "192.0.2.2" }).then(() => left.push("other"));
  const caller = call("/v1/rooms").then(() => left.push("caller"));
  let ticks = 0;
  for (; left.length < 102; ticks++) await nextTick();
  await Promise.all([...flood, other, caller]);
  assert.ok(ticks >= 4, `all left in ${ticks} ticks`);
  assert.ok(left.indexOf("caller") < 30 && left.indexOf("other") < 30, left.join());
});

Deno.test("fewer refusals leave at once than other responses to strangers", async () => {
  const refused = { isAllowed: false, limit: 1, remaining: 0, resetMs: 1000 };
  const rate = { perSecond: 1, burst: 1 };
  const consumeRate = () => Promise.resolve(refused);
  const { call } = createSampleGateway({
    limits: { consumeRate, requests: rate, writes: rate, unauthenticated: rate },
  });
  const mostAtOnce = async (path: string, init: Parameters<typeof call>[1]): Promise<number> => {
    let [left, most] = [0, 0];
    for (let n = 0; n < 96; n++) void call(path, init).then(() => left++);
    while (left < 96) {
      const before = left;
      await nextTick();
      most = Math.max(most, left - before);
    }
    return most;
  };
  assert.ok(await mostAtOnce("/health", { token: null }) >= 20);
  assert.ok(await mostAtOnce("/nope", { token: null }) <= 12);
  assert.ok(await mostAtOnce("/v1/rooms", {}) <= 12);
  assert.ok(await mostAtOnce("/nope", { token: null, headers: { Upgrade: "websocket" } }) <= 12);
});

Deno.test("the memory guard can end what waits for a response and streams without an end, and nothing else", async () => {
  const guarded = new Set<GuardedResponse>();
  const guard = new MemoryGuard({ budgetBytes: Infinity, metrics: new Metrics() });
  guard.addResponse = (response) => void guarded.add(response);
  guard.deleteResponse = (response) => void guarded.delete(response);
  const waiting = Promise.withResolvers<Response>();
  const isCancelled = { late: false, stream: false };
  const streamOf = (name: keyof typeof isCancelled): ReadableStream<Uint8Array<ArrayBuffer>> =>
    new ReadableStream({ cancel: () => void (isCancelled[name] = true) });
  const routeOf = (path: string, handle: Route["handle"]): Route => ({
    name: `file.${path}`,
    summary: "Read",
    tag: "file",
    method: "GET",
    path: `/v1/${path}`,
    auth: "public",
    hasNoTimeout: true,
    document: { responses: {} },
    handle,
  });
  const { call } = createSampleGateway({
    guard,
    routes: [
      routeOf("late", () => waiting.promise),
      routeOf("stream", () => new Response(streamOf("stream"))),
      routeOf("events", () => new Response("data: x")),
      routeOf("file", () => new Response(streamOf("late"), { headers: { "Content-Length": "9" } })),
    ],
  });
  const shed = (): void => guarded.forEach((response) => (guarded.delete(response), response.shed()));
  const late = call("/v1/late");
  await until(() => guarded.size === 1, "what waits is guarded");
  shed();
  const response = await late;
  assert.deepEqual([response.status, response.headers.get("Content-Length")], [429, "1"]);
  assert.equal(await response.text(), "", "shorter than announced, which ends the connection");
  waiting.resolve(new Response(streamOf("late")));
  await until(() => isCancelled.late, "the response that nobody gets is cancelled");

  const stream = await call("/v1/stream");
  assert.equal(guarded.size, 1);
  shed();
  await assert.rejects(stream.text(), /sends too much/);
  assert.equal(isCancelled.stream, true);

  const events = await call("/v1/events");
  assert.equal(guarded.size, 1);
  assert.equal(await events.text(), "data: x");
  await (await call("/v1/file")).body?.cancel();
  assert.equal(guarded.size, 0, "nothing is left, and what has a length is sent as fast as it is read");
});
