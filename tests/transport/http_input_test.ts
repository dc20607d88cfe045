// What a request may say, and where: path, query, body, If-Match.
import assert from "node:assert/strict";
import { createHttp } from "@/transport/http/server.ts";
import { json, sampleGateway } from "./http_sample.ts";

type Problem = { status: number; code: string; detail: string; errors?: { pointer: string; code: string }[] };

async function problemOf(response: Response): Promise<Problem> {
  assert.equal(response.headers.get("Content-Type"), "application/problem+json");
  const problem = await response.json();
  assert.equal(problem.status, response.status);
  return problem;
}

Deno.test("a query becomes the numbers, booleans and lists of the schema", async () => {
  const { call, sample } = sampleGateway();
  const response = await call("/v1/rooms?limit=5&kind=private&ids=a,b&ids=c&sizes=1,2&isArchived=true&since=start");
  assert.equal(response.status, 200);
  assert.deepEqual(sample.inputs, [{
    limit: 5,
    kind: "private",
    ids: ["a", "b", "c"],
    sizes: [1, 2],
    isArchived: true,
    since: "start",
  }]);
});

Deno.test("a text in a union stays text although it looks like a number", async () => {
  const { call, sample } = sampleGateway();
  assert.equal((await call("/v1/rooms?since=17")).status, 200);
  assert.deepEqual(sample.inputs, [{ limit: 50, since: "17" }]);
});

Deno.test("an unknown query parameter answers 400 and is named", async () => {
  const { call } = sampleGateway();
  for (const path of ["/v1/rooms?foo=1", "/v1/rooms/room_1?roomId=x", "/v1/rooms?__proto__=1"]) {
    const problem = await problemOf(await call(path));
    assert.equal(problem.code, "unknown_parameter");
    const name = path.split("?")[1]?.split("=")[0];
    assert.deepEqual(problem.errors?.map(({ pointer }) => pointer), [`/${name}`]);
  }
});

Deno.test("a single value given twice answers 400", async () => {
  const { call } = sampleGateway();
  const problem = await problemOf(await call("/v1/rooms?limit=1&limit=2"));
  assert.equal(problem.code, "bad_request");
  assert.equal(problem.errors?.[0]?.pointer, "/limit");
});

Deno.test("a query value of the wrong kind answers 422 with its pointer", async () => {
  const { call } = sampleGateway();
  for (const [query, pointer] of [["limit=ten", "/limit"], ["limit=500", "/limit"], ["isArchived=1", "/isArchived"]]) {
    const problem = await problemOf(await call(`/v1/rooms?${query}`));
    assert.equal(problem.status, 422);
    assert.equal(problem.code, "validation_failed");
    assert.equal(problem.errors?.[0]?.pointer, pointer);
  }
});

Deno.test("a query on a method with a body fills declared fields, and only those", async () => {
  const { call, sample } = sampleGateway();
  assert.equal((await call("/v1/rooms?isDraft=true", json({ name: "x" }))).status, 201);
  assert.deepEqual(sample.inputs, [{ name: "x", kind: "public", tags: [], isDraft: true }]);
  assert.equal((await problemOf(await call("/v1/rooms?foo=1", json({ name: "x" })))).code, "unknown_parameter");
  assert.equal((await problemOf(await call("/v1/rooms?name=y", json({ name: "x" })))).code, "unknown_parameter");
});

Deno.test("an unknown body field answers 422 unknown_field, also one that the path says", async () => {
  const { call } = sampleGateway();
  const extra = await problemOf(await call("/v1/rooms", json({ name: "x", owner: "me" })));
  assert.deepEqual([extra.status, extra.code, extra.errors?.[0]?.pointer], [422, "unknown_field", "/owner"]);
  const path = await problemOf(await call("/v1/rooms/room_1", json({ roomId: "room_2" }, "PATCH")));
  assert.deepEqual([path.status, path.code, path.errors?.[0]?.pointer], [422, "unknown_field", "/roomId"]);
  const proto = await problemOf(await call("/v1/rooms", json('{"name":"x","__proto__":{"a":1}}')));
  assert.deepEqual([proto.status, proto.code], [422, "unknown_field"]);
});

Deno.test("a body that is not JSON answers 415 before it is read", async () => {
  const { call } = sampleGateway();
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"]) {
    const problem = await problemOf(
      await call("/v1/rooms", { method: "POST", headers: { "Content-Type": type }, body: '{"name":"x"}' }),
    );
    assert.equal(problem.code, "unsupported_media_type", type);
  }
  const untyped = { method: "POST", body: new TextEncoder().encode('{"name":"x"}') };
  assert.equal((await call("/v1/rooms", untyped)).status, 415);
  const packed = json({ name: "x" }, "POST", { "Content-Encoding": "gzip" });
  assert.equal((await call("/v1/rooms", packed)).status, 415);
});

Deno.test("a JSON body may name its charset", async () => {
  const { call } = sampleGateway();
  for (const type of ['Application/JSON; charset="UTF-8"', "application/json;charset=utf8"]) {
    const headers = { "Content-Type": type };
    assert.equal((await call("/v1/rooms", { method: "POST", headers, body: '{"name":"x"}' })).status, 201, type);
  }
});

Deno.test("an absent body is an empty input", async () => {
  const { call } = sampleGateway();
  assert.equal((await call("/v1/rooms/room_1", { method: "PATCH" })).status, 200);
  const problem = await problemOf(await call("/v1/rooms", { method: "POST" }));
  assert.deepEqual([problem.code, problem.errors?.[0]?.pointer], ["validation_failed", "/name"]);
});

Deno.test("a body on DELETE answers 400: what it says would be ignored, and more deleted than meant", async () => {
  const { call, deps } = sampleGateway();
  const handle = createHttp(deps);
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => handle(request, "::1"),
  );
  const url = `http://127.0.0.1:${server.addr.port}/v1/rooms/room_1`;
  const headers = { Authorization: "Bearer alice", "Content-Type": "application/json" };
  const answer = async (body?: BodyInit): Promise<number> => {
    const response = await fetch(url, { method: "DELETE", headers, ...(body === undefined ? {} : { body }) });
    await response.body?.cancel();
    return response.status;
  };
  assert.equal(await answer('{"only":"this"}'), 400);
  assert.equal(await answer(new Blob(['{"only":"this"}']).stream()), 400);
  // As over HTTP/2, where no header need tell of a body.
  const stream = new Blob(['{"only":"this"}']).stream();
  assert.equal((await call("/v1/rooms/room_1", { method: "DELETE", body: stream })).status, 400);
  // Through a real server, where a request without a body has a stream all the same.
  assert.equal(await answer(), 204);
  assert.equal(await answer(""), 404);
});

Deno.test("malformed JSON, bad UTF-8 and deep nesting answer 400 invalid_json", async () => {
  const { call } = sampleGateway();
  const bad = [
    "{",
    "{'name':1}",
    '{"name":"\u0000"}',
    "nope",
    `{"name":${"[".repeat(40)}${"]".repeat(40)}}`,
    "[".repeat(500_000),
    new Uint8Array([0x22, 0xff, 0xfe, 0x22]),
  ];
  for (const body of bad) {
    const response = await call("/v1/rooms", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    assert.equal((await problemOf(response)).code, "invalid_json");
  }
});

Deno.test("32 levels are fine, and brackets in text do not count", async () => {
  const { call } = sampleGateway();
  const text = await call("/v1/rooms", json({ name: `${"[".repeat(60)}\\"${"{".repeat(40)}` }));
  assert.equal(text.status, 201);
  const nested = await problemOf(await call("/v1/rooms", json(`{"name":${"[".repeat(31)}${"]".repeat(31)}}`)));
  assert.equal(nested.code, "validation_failed");
});

Deno.test("a body that is no object answers 422", async () => {
  const { call } = sampleGateway();
  for (const body of ["[]", "null", "1", '"x"', "true"]) {
    assert.equal((await problemOf(await call("/v1/rooms", json(body)))).code, "validation_failed");
  }
});

Deno.test("NUL and lone surrogates answer 422 with the pointer", async () => {
  const { call } = sampleGateway();
  const cases = [
    ['{"name":"a\\u0000b"}', "/name"],
    ['{"name":"x","tags":["ok","\\ud800"]}', "/tags/1"],
    ['{"name":"x","a~/\\u0041":"\\udfff"}', "/a~0~1A"],
    ['{"a\\u0000":1}', ""],
  ] as const;
  for (const [body, pointer] of cases) {
    const problem = await problemOf(await call("/v1/rooms", json(body)));
    assert.deepEqual([problem.status, problem.code], [422, "validation_failed"], body);
    assert.deepEqual(problem.errors?.map((error) => error.pointer), [pointer]);
  }
  assert.equal((await call("/v1/rooms", json('{"name":"\\ud83d\\ude00"}'))).status, 201);
  const inQuery = await problemOf(await call("/v1/rooms?since=a%00b"));
  assert.deepEqual([inQuery.status, inQuery.errors?.[0]?.pointer], [422, "/since"]);
  const inPath = await problemOf(await call("/v1/rooms/a%00b"));
  assert.deepEqual([inPath.status, inPath.errors?.[0]?.pointer], [422, "/roomId"]);
});

Deno.test("a body over the limit answers 413, and is not read past it", async () => {
  const { call } = sampleGateway();
  const path = "/v1/rooms/room_1/import";
  const promised = json({ lines: ["x"] }, "PUT", { "Content-Length": "101" });
  assert.equal((await problemOf(await call(path, promised))).code, "payload_too_large");
  let sent = 0;
  let isCancelled = false;
  const endless = new ReadableStream({
    pull(controller) {
      sent += 64;
      controller.enqueue(new Uint8Array(64).fill(0x20));
    },
    cancel() {
      isCancelled = true;
    },
  });
  const response = await call(path, { method: "PUT", headers: { "Content-Type": "application/json" }, body: endless });
  assert.equal((await problemOf(response)).code, "payload_too_large");
  assert.ok(isCancelled);
  assert.ok(sent <= 256, `${sent} bytes were taken for a limit of 100`);
  const big = await call("/v1/rooms", json({ name: "x".repeat(1024 * 1024) }));
  assert.equal(big.status, 413);
  assert.equal((await call(path, json({ lines: ["x"] }, "PUT"))).status, 202);
});

Deno.test("a body that breaks off answers 400", async () => {
  const { call } = sampleGateway();
  const broken = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"name":'));
      controller.error(new TypeError("connection reset"));
    },
  });
  const headers = { "Content-Type": "application/json" };
  const problem = await problemOf(await call("/v1/rooms", { method: "POST", headers, body: broken }));
  assert.equal(problem.code, "bad_request");
});

Deno.test("If-Match fills the version; a malformed one answers 400, another version 412", async () => {
  const { call } = sampleGateway();
  const patch = (ifMatch: string, body: unknown = { name: "New" }) =>
    call("/v1/rooms/room_1", json(body, "PATCH", { "If-Match": ifMatch }));
  for (const malformed of ["3", '"x"', '"3", "4"', '"-1"', '"3', '"9999999999999999"']) {
    assert.equal((await problemOf(await patch(malformed))).code, "bad_request", malformed);
  }
  assert.equal((await problemOf(await patch('"2.abc"'))).code, "version_mismatch");
  assert.equal((await problemOf(await patch('"3"', { version: 2 }))).code, "bad_request");
  assert.equal((await patch('"3.abc"')).status, 200);
  assert.equal((await patch('W/"4.abc"')).status, 200);
  assert.equal((await patch("*")).status, 200);
});

Deno.test("path parameters are decoded, and malformed escapes are no error of ours", async () => {
  const { call } = sampleGateway();
  assert.equal((await call("/v1/rooms/room%5F1")).status, 200);
  for (const path of ["/v1/rooms/%", "/v1/rooms/%zz", "/v1/rooms/%ff%fe", "/v1/rooms/a%2Fb", "/%"]) {
    const response = await call(path);
    assert.ok([404, 422].includes(response.status), `${path} answered ${response.status}`);
    await response.body?.cancel();
  }
});
