// Routes of modules and the probes: handled like operations, with their own responses.
import assert from "node:assert/strict";
import { Fault } from "@/core/fault.ts";
import type { Route } from "@/core/http/route.ts";
import { webSocketRoute } from "@/transport/ws/server.ts";
import { replace } from "../replace.ts";
import { pause } from "../wait.ts";
import { createSampleGateway, jsonRequest } from "./http_sample.ts";

const document = { responses: { 200: { description: "Fine" } } };

const ROUTES: Route[] = [{
  name: "file.content",
  summary: "Read a file",
  tag: "file",
  method: "GET",
  path: "/v1/files/:fileId/content",
  auth: "bearer",
  scope: "room.read",
  document,
  handle: (_request, { actor, params, ip }) =>
    new Response(`${actor.principalId} ${params["fileId"]} ${ip}`, { headers: { "Cache-Control": "private" } }),
}, {
  name: "file.upload",
  summary: "Write a file",
  tag: "file",
  method: "PUT",
  path: "/v1/files/:fileId/content",
  auth: "bearer",
  scope: "file.write",
  body: "stream",
  document,
  handle: async (request, { body }) => Response.json({ body: body ?? null, size: (await request.bytes()).length }),
}, {
  name: "hook.call",
  summary: "Call a hook",
  tag: "hook",
  method: "POST",
  path: "/v1/hooks/:token",
  auth: "public",
  document,
  handle(_request, { body, params }) {
    if (params["token"] === "bad") throw new Fault("unauthenticated", "No such hook");
    if (params["token"] === "bug") throw new TypeError("secret detail");
    if (params["token"] === "elsewhere") return Response.redirect("https://elsewhere.test/", 303);
    return Response.json({ body });
  },
}, {
  name: "event.stream",
  summary: "Slow on purpose",
  tag: "hook",
  method: "GET",
  path: "/v1/slow",
  auth: "public",
  hasNoTimeout: true,
  document,
  handle: () => new Promise((resolve) => setTimeout(() => resolve(new Response("done")), 40)),
}];

Deno.test("a bearer route gets the actor, the parameters and the address", async () => {
  const { call } = createSampleGateway({ routes: ROUTES });
  const response = await call("/v1/files/f%201/content");
  assert.equal(await response.text(), "alice f 1 192.0.2.1");
  assert.equal(response.headers.get("Cache-Control"), "private");
  assert.equal(response.headers.get("X-Content-Type-Options"), "nosniff");
  assert.equal((await call("/v1/files/f/content", { token: null })).status, 401);
  const narrow = await call("/v1/files/f/content", { method: "PUT", body: "x", token: "reader" });
  assert.deepEqual([narrow.status, (await narrow.json()).code], [403, "scope_missing"]);
});

Deno.test("unsafe text in an id returns 404 without a read", async () => {
  const { call } = createSampleGateway({ routes: ROUTES });
  const response = await call("/v1/files/f%00/content");
  assert.deepEqual([response.status, (await response.json()).code], [404, "not_found"]);
});

Deno.test("a route reads its body as a stream or gets parsed JSON", async () => {
  const { call } = createSampleGateway({ routes: ROUTES });
  const bytes = await call("/v1/files/f/content", { method: "PUT", body: new Uint8Array(5000) });
  assert.deepEqual(await bytes.json(), { body: null, size: 5000 });
  const hook = await call("/v1/hooks/abc", { ...jsonRequest({ a: 1 }), token: null });
  assert.deepEqual(await hook.json(), { body: { a: 1 } });
  assert.equal((await call("/v1/hooks/abc", { ...jsonRequest("{"), token: null })).status, 400);
});

Deno.test("errors of a route become problems, and its redirects have the common headers", async () => {
  const { call } = createSampleGateway({ routes: ROUTES });
  assert.equal((await call("/v1/hooks/bad", { method: "POST" })).status, 401);
  const bug = await call("/v1/hooks/bug", { method: "POST" });
  assert.equal(bug.status, 500);
  assert.ok(!(await bug.text()).includes("secret"));
  const moved = await call("/v1/hooks/elsewhere", { method: "POST" });
  assert.equal(moved.status, 303);
  assert.equal(moved.headers.get("Location"), "https://elsewhere.test/");
  assert.ok(moved.headers.get("X-Request-Id"));
});

Deno.test("HEAD cancels the unread content", async () => {
  let isCancelled = false;
  const route: Route = {
    name: "file.stream",
    summary: "Read a file that stays open until it is read",
    tag: "file",
    method: "GET",
    path: "/v1/stream",
    auth: "public",
    document,
    handle: () =>
      new Response(new ReadableStream({ cancel: () => void (isCancelled = true) }), {
        headers: { "Content-Length": "5" },
      }),
  };
  const { call } = createSampleGateway({ routes: [route] });
  const response = await call("/v1/stream", { method: "HEAD" });
  assert.deepEqual([response.status, response.headers.get("Content-Length"), response.body], [200, "5", null]);
  assert.ok(isCancelled);
});

Deno.test("a route without a timeout is not aborted", async () => {
  const { call } = createSampleGateway({ routes: ROUTES, requestTimeoutMs: 10 });
  assert.equal(await (await call("/v1/slow")).text(), "done");
});

Deno.test("/ws calls the upgrade for GET only", async () => {
  const upgrades: string[] = [];
  const upgrade = (request: Request, ip: string): Response => {
    upgrades.push(`${new URL(request.url).search} ${ip}`);
    return new Response(null, { status: 204 });
  };
  const { call, metrics } = createSampleGateway({ routes: [webSocketRoute(upgrade)] });
  assert.equal((await call("/ws?token=abc", { token: null })).status, 204);
  assert.deepEqual(upgrades, ["?token=abc 192.0.2.1"]);
  assert.equal((await call("/ws", { method: "POST" })).status, 405);
  assert.match(await metrics.registry.metrics(), /requests_total\{method="GET",path="\/ws"\} 1/);
});

Deno.test("/health returns OK in plain text without a token", async () => {
  const { call } = createSampleGateway();
  const response = await call("/health", { token: null });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("Content-Type") ?? "", /^text\/plain/);
  assert.equal(await response.text(), "OK");
});

Deno.test("/metrics is in the Prometheus format, and requires its token if there is one", async () => {
  const open = await createSampleGateway().call("/metrics", { token: null });
  assert.match(open.headers.get("Content-Type") ?? "", /^text\/plain; version=0\.0\.4/);
  assert.match(await open.text(), /^# HELP svc_build_info /m);
  const { call } = createSampleGateway({ metricsToken: "s3cret" });
  assert.equal((await call("/metrics", { token: null })).status, 401);
  assert.equal((await call("/metrics", { token: "s3cret2" })).status, 401);
  assert.equal((await call("/metrics", { token: "s3cret" })).status, 200);
});

Deno.test("readiness returns 200 or 503 with its checks", async () => {
  const ready = await createSampleGateway().call("/v1/collaboration/ready", { token: null });
  assert.deepEqual([ready.status, await ready.json()], [200, { ready: true, checks: { store: true } }]);
  const checks = { store: true, draining: true };
  const { call } = createSampleGateway({ checkReadiness: () => Promise.resolve({ ready: false, checks }) });
  const draining = await call("/v1/collaboration/ready", { token: null });
  assert.deepEqual([draining.status, await draining.json()], [503, { ready: false, checks }]);
});

Deno.test("readiness is checked once for concurrent requests, and for those within a tenth of a second after", async () => {
  let checks = 0;
  let shift = 0;
  const now = performance.now.bind(performance);
  const { call } = createSampleGateway({
    async checkReadiness() {
      checks++;
      await pause(5);
      return { ready: true, checks: {} };
    },
  });
  const request = async (): Promise<number> => (await call("/v1/collaboration/ready", { token: null })).status;
  const frozen = now();
  using _replaced = replace(performance, "now", () => frozen + shift);
  assert.deepEqual(new Set(await Promise.all(Array.from({ length: 20 }, request))), new Set([200]));
  shift = 99;
  await request();
  assert.equal(checks, 1);
  shift = 100;
  await request();
  assert.equal(checks, 2);
});

Deno.test("writing routes count against the write rate, reading ones do not", async () => {
  const keys: string[] = [];
  const { call } = createSampleGateway({
    routes: ROUTES,
    limits: {
      consumeRate: (key, { burst }) => {
        keys.push(key.slice(0, key.indexOf(":")));
        const isAllowed = keys.filter((one) => one === "writes").length <= burst;
        return Promise.resolve({ isAllowed, limit: burst, remaining: 0, resetMs: 1500 });
      },
      requests: { perSecond: 10, burst: 100 },
      writes: { perSecond: 1, burst: 1 },
      unauthenticated: { perSecond: 1, burst: 1 },
    },
  });
  const path = "/v1/files/f/content";
  await (await call(path)).body?.cancel();
  assert.deepEqual(keys, ["requests"]);
  assert.equal((await call(path, { method: "PUT", body: "abc" })).status, 200);
  const rejected = await call(path, { method: "PUT", body: "abc" });
  assert.deepEqual([rejected.status, (await rejected.json()).code], [429, "rate_limited"]);
  assert.equal(rejected.headers.get("Retry-After"), "2");
});
