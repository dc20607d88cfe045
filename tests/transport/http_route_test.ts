// Ordinary routes and the probes: the same door as operations, their own answers.
import assert from "node:assert/strict";
import { Fault } from "@/core/fault.ts";
import type { Route } from "@/core/route.ts";
import { upgradeRoute } from "@/transport/http/upgrade.ts";
import { pause } from "../wait.ts";
import { json, sampleGateway } from "./http_sample.ts";

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
  isLong: true,
  document,
  handle: () => new Promise((resolve) => setTimeout(() => resolve(new Response("done")), 40)),
}];

Deno.test("a bearer route gets the actor, the parameters and the address", async () => {
  const { call } = sampleGateway({ routes: ROUTES });
  const response = await call("/v1/files/f%201/content");
  assert.equal(await response.text(), "alice f 1 192.0.2.1");
  assert.equal(response.headers.get("Cache-Control"), "private");
  assert.equal(response.headers.get("X-Content-Type-Options"), "nosniff");
  assert.equal((await call("/v1/files/f/content", { token: null })).status, 401);
  const narrow = await call("/v1/files/f/content", { method: "PUT", body: "x", token: "reader" });
  assert.deepEqual([narrow.status, (await narrow.json()).code], [403, "scope_missing"]);
});

Deno.test("what no id has is not found, and asked of no store", async () => {
  const { call } = sampleGateway({ routes: ROUTES });
  const answer = await call("/v1/files/f%00/content");
  assert.deepEqual([answer.status, (await answer.json()).code], [404, "not_found"]);
});

Deno.test("a route reads its own body or gets it parsed", async () => {
  const { call } = sampleGateway({ routes: ROUTES });
  const bytes = await call("/v1/files/f/content", { method: "PUT", body: new Uint8Array(5000) });
  assert.deepEqual(await bytes.json(), { body: null, size: 5000 });
  const hook = await call("/v1/hooks/abc", { ...json({ a: 1 }), token: null });
  assert.deepEqual(await hook.json(), { body: { a: 1 } });
  assert.equal((await call("/v1/hooks/abc", { ...json("{"), token: null })).status, 400);
});

Deno.test("what a route throws is a problem, and its redirects get the headers too", async () => {
  const { call } = sampleGateway({ routes: ROUTES });
  assert.equal((await call("/v1/hooks/bad", { method: "POST" })).status, 401);
  const bug = await call("/v1/hooks/bug", { method: "POST" });
  assert.equal(bug.status, 500);
  assert.ok(!(await bug.text()).includes("secret"));
  const moved = await call("/v1/hooks/elsewhere", { method: "POST" });
  assert.equal(moved.status, 303);
  assert.equal(moved.headers.get("Location"), "https://elsewhere.test/");
  assert.ok(moved.headers.get("X-Request-Id"));
});

Deno.test("HEAD lets go of a content that nobody will read", async () => {
  let isCancelled = false;
  const route: Route = {
    name: "file.stream",
    summary: "Read a file that stays open until it was read",
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
  const { call } = sampleGateway({ routes: [route] });
  const response = await call("/v1/stream", { method: "HEAD" });
  assert.deepEqual([response.status, response.headers.get("Content-Length"), response.body], [200, "5", null]);
  assert.ok(isCancelled);
});

Deno.test("a long route has no time-out", async () => {
  const { call } = sampleGateway({ routes: ROUTES, requestTimeoutMs: 10 });
  assert.equal(await (await call("/v1/slow")).text(), "done");
});

Deno.test("/ws is answered by the upgrade, and only GET reaches it", async () => {
  const asked: string[] = [];
  const upgrade = (request: Request, ip: string): Response => {
    asked.push(`${new URL(request.url).search} ${ip}`);
    return new Response(null, { status: 204 });
  };
  const { call, metrics } = sampleGateway({ routes: [upgradeRoute(upgrade)] });
  assert.equal((await call("/ws?token=abc", { token: null })).status, 204);
  assert.deepEqual(asked, ["?token=abc 192.0.2.1"]);
  assert.equal((await call("/ws", { method: "POST" })).status, 405);
  assert.match(await metrics.registry.metrics(), /requests_total\{method="GET",path="\/ws"\} 1/);
});

Deno.test("/health answers OK in plain text without a token", async () => {
  const { call } = sampleGateway();
  const response = await call("/health", { token: null });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("Content-Type") ?? "", /^text\/plain/);
  assert.equal(await response.text(), "OK");
});

Deno.test("/metrics is in the Prometheus format, and wants its token when there is one", async () => {
  const open = await sampleGateway().call("/metrics", { token: null });
  assert.match(open.headers.get("Content-Type") ?? "", /^text\/plain; version=0\.0\.4/);
  assert.match(await open.text(), /^# HELP svc_build_info /m);
  const { call } = sampleGateway({ metricsToken: "s3cret" });
  assert.equal((await call("/metrics", { token: null })).status, 401);
  assert.equal((await call("/metrics", { token: "s3cret2" })).status, 401);
  assert.equal((await call("/metrics", { token: "s3cret" })).status, 200);
});

Deno.test("readiness answers 200 or 503 with its checks", async () => {
  const ready = await sampleGateway().call("/v1/collaboration/ready", { token: null });
  assert.deepEqual([ready.status, await ready.json()], [200, { isReady: true, checks: { store: true } }]);
  const checks = { store: true, draining: true };
  const { call } = sampleGateway({ ready: () => Promise.resolve({ isReady: false, checks }) });
  const draining = await call("/v1/collaboration/ready", { token: null });
  assert.deepEqual([draining.status, await draining.json()], [503, { isReady: false, checks }]);
});

Deno.test("who asks at once for readiness, which takes a write to find out, shares one answer", async () => {
  let asked = 0;
  const { call } = sampleGateway({
    async ready() {
      asked++;
      await pause(5);
      return { isReady: true, checks: {} };
    },
  });
  const ask = async (): Promise<number> => (await call("/v1/collaboration/ready", { token: null })).status;
  assert.deepEqual(new Set(await Promise.all(Array.from({ length: 20 }, ask))), new Set([200]));
  assert.equal(asked, 1);
  await ask();
  assert.equal(asked, 2);
});

Deno.test("a route that writes is counted as operations that write are, and one that reads is not", async () => {
  const keys: string[] = [];
  const { call } = sampleGateway({
    routes: ROUTES,
    limits: {
      takeGeneral: (key, { burst }) => {
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
  const refused = await call(path, { method: "PUT", body: "abc" });
  assert.deepEqual([refused.status, (await refused.json()).code], [429, "rate_limited"]);
  assert.equal(refused.headers.get("Retry-After"), "2");
});
