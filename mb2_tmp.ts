async function b(name: string, f: () => unknown, n = 200000) {
  for (let r = 0; r < 2; r++) { const t = performance.now(); for (let i = 0; i < n; i++) await f(); if (r) console.log(name, ((performance.now() - t) * 1000 / n).toFixed(2)); }
}
const A = { "X-Request-Id": "x", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cache-Control": "no-store", "Content-Type": "application/json" };
const L = Object.fromEntries(Object.entries(A).map(([k, v]) => [k.toLowerCase(), v]));
const S = { "x-request-id": "x", "x-content-type-options": "nosniff", "content-security-policy": "frame-ancestors 'none'", "cache-control": "no-store", "content-type": "application/json", "referrer-policy": "no-referrer" };
await b("mixed", () => new Response("{}", { headers: A }));
await b("lower", () => new Response("{}", { headers: L }));
await b("lower 6", () => new Response("{}", { headers: S }));
await b("lower spread", () => new Response("{}", { headers: { ...L } }));
const rq = () => new Request("http://localhost/v1/things/abc", { headers: { authorization: "Bearer alice", accept: "*/*" } });
await b("rq", rq);
await b("rq + url", () => { const r = rq(); return r.url; });
await b("rq + 4 gets", () => { const r = rq(); r.headers.get("Authorization"); r.headers.get("Accept"); r.headers.get("X-Request-Id"); return r.headers.get("Origin"); });
await b("rq + 4 lower gets", () => { const r = rq(); r.headers.get("authorization"); r.headers.get("accept"); r.headers.get("x-request-id"); return r.headers.get("origin"); });
await b("timeout race", () => new Promise((resolve) => { const t = setTimeout(() => {}, 30000); Promise.resolve(1).then((x) => { clearTimeout(t); resolve(x); }); }));
await b("bare new Response", () => new Response("{}"));
