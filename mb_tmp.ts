import { Metrics } from "@/core/metrics.ts";
import { Meters } from "@/transport/http/meter.ts";
import { createDispatch } from "@/core/dispatch.ts";
import { defineOperation } from "@/core/operation.ts";
import { z } from "@zod/zod";
import { ALICE, sampleGateway } from "./tests/transport/http_sample.ts";
import { createHttp } from "@/transport/http/server.ts";
import { Hono } from "@hono/hono";
import { baseHeaders } from "@/transport/http/headers.ts";
async function b(name: string, f: () => unknown, n = 100000) {
  for (let r = 0; r < 2; r++) { const t = performance.now(); for (let i = 0; i < n; i++) await f(); if (r) console.log(name, ((performance.now() - t) * 1000 / n).toFixed(2)); }
}
const m = new Metrics(); const meter = new Meters(m).of("GET", "/v1/x");
await b("await nothing", () => {});
await b("meter begin+end", () => { meter.begin(); meter.end(200, 0.001); });
const op = defineOperation({ name: "thing.get", summary: "", access: { scope: "thing.read" }, http: { method: "GET", path: "/v1/things/:id", status: 200 }, input: z.strictObject({ id: z.string() }), output: z.object({}), run: (_c, { id }) => Promise.resolve({ id, name: "One" }) });
const dispatch = createDispatch({ metrics: m, takeRate: undefined, rates: { requests: { perSecond: 1, burst: 1 }, writes: { perSecond: 1, burst: 1 } } });
await b("dispatch", () => dispatch(op, { actor: ALICE, input: { id: "abc" }, requestId: "x", via: "http" }));
await b("parse", () => op.input.safeParse({ id: "abc" }));
await b("timer", () => clearTimeout(setTimeout(() => {}, 30000)));
await b("uuid", () => crypto.randomUUID());
await b("resp 1 header", () => new Response("{}", { headers: { "content-type": "application/json" } }));
await b("resp base", () => new Response("{}", { headers: { ...baseHeaders("x"), "content-type": "application/json" } }));
await b("resp base arr", () => new Response("{}", { headers: Object.entries({ ...baseHeaders("x"), "content-type": "application/json" }) }));
const H = new Headers({ ...baseHeaders("x"), "content-type": "application/json" });
await b("resp headers obj", () => new Response("{}", { headers: H }));
await b("json stringify", () => JSON.stringify({ id: "abc", name: "one" }));
const { deps } = sampleGateway({ operations: [op], authenticate: () => Promise.resolve(ALICE) });
const http = createHttp(deps);
const mk = () => new Request("http://localhost/v1/things/abc", { headers: { authorization: "Bearer alice", accept: "*/*" } });
await b("mk request", mk);
await b("ours - incl request", () => http(mk(), "1.1.1.1"));
const bare = new Hono(); bare.get("/v1/things/:id", (c) => c.json({ id: c.req.param("id"), name: "One" }));
await b("bare - incl request", () => bare.fetch(mk()));
