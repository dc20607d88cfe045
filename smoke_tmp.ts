import { json, sampleGateway } from "./tests/transport/http_sample.ts";
const { call } = sampleGateway();
for (
  const [p, i] of [
    ["/v1/rooms/room_1", {}],
    ["/v1/rooms/room_1/", {}],
    ["/v1/rooms", json({ name: "x" })],
    ["/v1/rooms/unread", {}],
    ["/v1/rooms/room_1", { method: "PUT" }],
    ["/health", { method: "HEAD" }],
    ["/v1/rooms?limit=5&ids=a,b&ids=c&isArchived=true&foo=1", {}],
    ["/openapi.json", {}],
    ["/docs", {}],
  ] as const
) {
  const r = await call(p, i);
  console.log(i, p, r.status, Object.fromEntries(r.headers), (await r.text()).slice(0, 300));
}
const doc = await (await call("/openapi.json")).text();
await Deno.mkdir("/tmp/oa", { recursive: true });
await Deno.writeTextFile("/tmp/oa/openapi.json", JSON.stringify(JSON.parse(doc), null, 1));
console.log(doc.length);
