import { Exchange } from "@/transport/http/exchange.ts";
import { createCors } from "@/transport/http/cors.ts";
import { createHttps } from "@/transport/http/https.ts";
import { createClientOf } from "@/transport/http/client.ts";
import { createAdmit } from "@/transport/http/auth.ts";
import { requireAcceptsJson } from "@/transport/http/endpoint.ts";
import { withDeadline } from "@/transport/http/deadline.ts";
import { ALICE, sampleGateway } from "./tests/transport/http_sample.ts";
import { logOf } from "@/core/log.ts";
async function b(name: string, f: () => unknown, n = 200000) {
  for (let r = 0; r < 2; r++) { const t = performance.now(); for (let i = 0; i < n; i++) { const x = f(); if (x instanceof Promise) await x; } if (r) console.log(name, ((performance.now() - t) * 1000 / n).toFixed(2)); }
}
const rq = () => new Request("http://localhost/v1/things/abc", { headers: { authorization: "Bearer alice", accept: "*/*" } });
await b("rq", rq);
await b("exchange", () => new Exchange(rq(), "1.1.1.1", false));
const cors = createCors([]), https = createHttps({ isHstsOn: false }), client = createClientOf([]);
await b("gates", () => { const r = rq(); client(r, "1"); const e = new Exchange(r, "1.1.1.1", false); https(e); cors(e); return e; });
const admit = createAdmit(() => Promise.resolve(ALICE), undefined);
await b("gates+admit+accept", () => { const r = rq(); client(r, "1"); const e = new Exchange(r, "1.1.1.1", false); https(e); cors(e); requireAcceptsJson(r); return admit(e); });
await b("gates+admit+accept+deadline", () => { const r = rq(); client(r, "1"); const e = new Exchange(r, "1.1.1.1", false); https(e); cors(e); requireAcceptsJson(r); return withDeadline(e, 30000, admit(e) as never); });
await b("respond", () => { const e = new Exchange(rq(), "1.1.1.1", false); return e.respond({ status: 200, headers: { "Content-Type": "application/json" }, body: "{}" }); });
const log = logOf("http");
await b("isEnabled", () => log.isEnabledFor("debug"));
const { call, deps } = sampleGateway();
import { createHttp } from "@/transport/http/server.ts";
const http = createHttp({ ...deps, authenticate: () => Promise.resolve(ALICE) });
await b("health", () => http(new Request("http://localhost/health", { headers: { accept: "*/*" } }), "1"));
await b("unread", () => http(new Request("http://localhost/v1/rooms/unread", { headers: { authorization: "Bearer alice", accept: "*/*" } }), "1"));
