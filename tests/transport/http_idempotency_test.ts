// `Idempotency-Key` over HTTP: one effect, one response.
import assert from "node:assert/strict";
import { createSampleGateway, jsonRequest } from "./http_sample.ts";

const keyed = (key: string, body: unknown = { name: "x" }) => jsonRequest(body, "POST", { "Idempotency-Key": key });

Deno.test("the same key and body returns the same response and executes once", async () => {
  const { call, sample } = createSampleGateway();
  const first = await call("/v1/rooms", keyed("k1"));
  const again = await call("/v1/rooms", keyed("k1"));
  assert.equal(sample.runs, 1);
  assert.equal(first.headers.get("Idempotency-Replayed"), null);
  assert.equal(again.headers.get("Idempotency-Replayed"), "true");
  assert.equal(again.status, 201);
  assert.equal(await again.text(), await first.text());
  for (const name of ["Location", "ETag", "Content-Type"]) {
    assert.ok(first.headers.get(name));
    assert.equal(again.headers.get(name), first.headers.get(name));
  }
  assert.notEqual(again.headers.get("X-Request-Id"), first.headers.get("X-Request-Id"));
  await call("/v1/rooms", keyed("k2"));
  assert.equal(sample.runs, 2);
});

Deno.test("a key reused with another body, query or If-Match returns 422", async () => {
  const { call } = createSampleGateway();
  await call("/v1/rooms", keyed("k"));
  const body = await call("/v1/rooms", keyed("k", { name: "y" }));
  assert.deepEqual([body.status, (await body.json()).code], [422, "idempotency_key_reused"]);
  assert.equal((await call("/v1/rooms?isDraft=true", keyed("k"))).status, 422);
  const based = (ifMatch: string) =>
    call("/v1/rooms/room_1", jsonRequest({ name: "y" }, "PATCH", { "Idempotency-Key": "k", "If-Match": ifMatch }));
  assert.deepEqual([(await based('"2"')).status, (await based('"2"')).status], [412, 412]);
  const other = await based('"3"');
  assert.deepEqual([other.status, (await other.json()).code], [422, "idempotency_key_reused"]);
});

Deno.test("a key in flight returns 409 with Retry-After", async () => {
  const { call } = createSampleGateway();
  const [first, second] = await Promise.all([call("/v1/rooms", keyed("k")), call("/v1/rooms", keyed("k"))]);
  assert.equal(first.status, 201);
  assert.deepEqual([second.status, (await second.json()).code], [409, "idempotency_in_flight"]);
  assert.equal(second.headers.get("Retry-After"), "1");
});

Deno.test("a permanent failure is stored, a temporary one is not", async () => {
  const { call, sample } = createSampleGateway();
  for (const name of ["taken", "busy", "bug"]) {
    const statuses = [];
    for (let time = 0; time < 2; time++) {
      const response = await call("/v1/rooms", keyed(name, { name }));
      statuses.push([response.status, response.headers.get("Idempotency-Replayed")]);
      await response.body?.cancel();
    }
    const status = { taken: 409, busy: 429, bug: 500 }[name];
    assert.deepEqual(statuses, [[status, null], [status, name === "taken" ? "true" : null]]);
  }
  assert.equal(sample.runs, 5);
});

Deno.test("a malformed key returns 400", async () => {
  const { call, sample } = createSampleGateway();
  for (const key of ["", "x".repeat(256), "naïve", "a\tb"]) {
    const response = await call("/v1/rooms", keyed(key));
    assert.deepEqual([response.status, (await response.json()).code], [400, "bad_request"], key);
  }
  assert.equal(sample.runs, 0);
  assert.equal((await call("/v1/rooms", keyed("x".repeat(255)))).status, 201);
});
