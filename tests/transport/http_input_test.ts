// The input of a request: path, query, body, If-Match.
import assert from "node:assert/strict";
import { createHttpHandler } from "@/transport/http/server.ts";
import { createSampleGateway, jsonRequest } from "./http_sample.ts";
import { createClientResolver } from "@/transport/shared/client_address.ts";
import { openGateway } from "../harness.ts";
import { upload } from "../modules/file/file_harness.ts";

type Problem = { status: number; code: string; detail: string; errors?: { pointer: string; code: string }[] };

async function problemOf(response: Response): Promise<Problem> {
  assert.equal(response.headers.get("Content-Type"), "application/problem+json");
  const problem = await response.json();
  assert.equal(problem.status, response.status);
  return problem;
}

Deno.test("query values are converted to the numbers, booleans and lists of the schema", async () => {
  const { call, sample } = createSampleGateway();
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

Deno.test("a numeric string stays a string in a union with strings", async () => {
  const { call, sample } = createSampleGateway();
  assert.equal((await call("/v1/rooms?since=17")).status, 200);
  assert.deepEqual(sample.inputs, [{ limit: 50, since: "17" }]);
});

Deno.test("an unknown query parameter returns 400 with its name", async () => {
  const { call } = createSampleGateway();
  for (const path of ["/v1/rooms?foo=1", "/v1/rooms/room_1?roomId=x", "/v1/rooms?__proto__=1"]) {
    const problem = await problemOf(await call(path));
    assert.equal(problem.code, "unknown_parameter");
    const name = path.split("?")[1]?.split("=")[0];
    assert.deepEqual(problem.errors?.map(({ pointer }) => pointer), [`/${name}`]);
  }
});

Deno.test("a repeated single value returns 400", async () => {
  const { call } = createSampleGateway();
  const problem = await problemOf(await call("/v1/rooms?limit=1&limit=2"));
  assert.equal(problem.code, "bad_request");
  assert.equal(problem.errors?.[0]?.pointer, "/limit");
});

Deno.test("a query of more than 500 parameters returns 400 before it is read, also from a stranger", async () => {
  const { call, sample } = createSampleGateway();
  const queryOf = (count: number): string => Array.from({ length: count }, () => "ids=a").join("&");
  for (const path of ["/v1/rooms", "/openapi.json", "/ws", "/unknown"]) {
    const problem = await problemOf(await call(`${path}?${queryOf(501)}`));
    assert.deepEqual([problem.code, problem.detail], ["bad_request", "Expected at most 500 query parameters"]);
  }
  assert.deepEqual(sample.inputs, []);
  assert.equal((await call(`/v1/rooms?${queryOf(500)}`)).status, 200);
});

Deno.test("a query value of the wrong kind returns 422 with its pointer", async () => {
  const { call } = createSampleGateway();
  for (const [query, pointer] of [["limit=ten", "/limit"], ["limit=500", "/limit"], ["isArchived=1", "/isArchived"]]) {
    const problem = await problemOf(await call(`/v1/rooms?${query}`));
    assert.equal(problem.status, 422);
    assert.equal(problem.code, "validation_failed");
    assert.equal(problem.errors?.[0]?.pointer, pointer);
  }
});

Deno.test("a query on a method with a body sets declared fields only", async () => {
  const { call, sample } = createSampleGateway();
  assert.equal((await call("/v1/rooms?isDraft=true", jsonRequest({ name: "x" }))).status, 201);
  assert.deepEqual(sample.inputs, [{ name: "x", kind: "public", tags: [], isDraft: true }]);
  assert.equal((await problemOf(await call("/v1/rooms?foo=1", jsonRequest({ name: "x" })))).code, "unknown_parameter");
  assert.equal((await problemOf(await call("/v1/rooms?name=y", jsonRequest({ name: "x" })))).code, "unknown_parameter");
});

Deno.test("an unknown body field, or one of the path, returns 422 unknown_field", async () => {
  const { call } = createSampleGateway();
  const extra = await problemOf(await call("/v1/rooms", jsonRequest({ name: "x", owner: "me" })));
  assert.deepEqual([extra.status, extra.code, extra.errors?.[0]?.pointer], [422, "unknown_field", "/owner"]);
  const path = await problemOf(await call("/v1/rooms/room_1", jsonRequest({ roomId: "room_2" }, "PATCH")));
  assert.deepEqual([path.status, path.code, path.errors?.[0]?.pointer], [422, "unknown_field", "/roomId"]);
  const proto = await problemOf(await call("/v1/rooms", jsonRequest('{"name":"x","__proto__":{"a":1}}')));
  assert.deepEqual([proto.status, proto.code], [422, "unknown_field"]);
});

Deno.test("a body that is not JSON returns 415 before it is read", async () => {
  const { call } = createSampleGateway();
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"]) {
    const problem = await problemOf(
      await call("/v1/rooms", { method: "POST", headers: { "Content-Type": type }, body: '{"name":"x"}' }),
    );
    assert.equal(problem.code, "unsupported_media_type", type);
  }
  const untyped = { method: "POST", body: new TextEncoder().encode('{"name":"x"}') };
  assert.equal((await call("/v1/rooms", untyped)).status, 415);
  const packed = jsonRequest({ name: "x" }, "POST", { "Content-Encoding": "gzip" });
  assert.equal((await call("/v1/rooms", packed)).status, 415);
});

Deno.test("a JSON body may declare its charset", async () => {
  const { call } = createSampleGateway();
  for (const type of ['Application/JSON; charset="UTF-8"', "application/json;charset=utf8"]) {
    const headers = { "Content-Type": type };
    assert.equal((await call("/v1/rooms", { method: "POST", headers, body: '{"name":"x"}' })).status, 201, type);
  }
});

Deno.test("an absent body is an empty input", async () => {
  const { call } = createSampleGateway();
  assert.equal((await call("/v1/rooms/room_1", { method: "PATCH" })).status, 200);
  const problem = await problemOf(await call("/v1/rooms", { method: "POST" }));
  assert.deepEqual([problem.code, problem.errors?.[0]?.pointer], ["validation_failed", "/name"]);
});

Deno.test("a body on DELETE returns 400, since it would be ignored", async () => {
  const { call, deps } = createSampleGateway();
  const handle = createHttpHandler(deps);
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => handle(request, "::1"),
  );
  const url = `http://127.0.0.1:${server.addr.port}/v1/rooms/room_1`;
  const headers = { Authorization: "Bearer alice", "Content-Type": "application/json" };
  const statusOf = async (body?: BodyInit): Promise<number> => {
    const response = await fetch(url, { method: "DELETE", headers, ...(body === undefined ? {} : { body }) });
    await response.body?.cancel();
    return response.status;
  };
  assert.equal(await statusOf('{"only":"this"}'), 400);
  assert.equal(await statusOf(new Blob(['{"only":"this"}']).stream()), 400);
  // As over HTTP/2, where headers need not announce a body.
  const stream = new Blob(['{"only":"this"}']).stream();
  assert.equal((await call("/v1/rooms/room_1", { method: "DELETE", body: stream })).status, 400);
  // On a real server, where a request without a body has a stream as well.
  assert.equal(await statusOf(), 204);
  assert.equal(await statusOf(""), 404);
});

Deno.test("malformed JSON, bad UTF-8 and deep nesting return 400 invalid_json", async () => {
  const { call } = createSampleGateway();
  const bad = [
    "{",
    "{'name':1}",
    '{"name":"\u0000"}',
    "nope",
    `{"name":${"[".repeat(40)}${"]".repeat(40)}}`,
    "[".repeat(200_000),
    new Uint8Array([0x22, 0xff, 0xfe, 0x22]),
  ];
  for (const body of bad) {
    const response = await call("/v1/rooms", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    assert.equal((await problemOf(response)).code, "invalid_json");
  }
});

Deno.test("32 levels of nesting are allowed, and brackets in strings do not count", async () => {
  const { call } = createSampleGateway();
  const text = await call("/v1/rooms", jsonRequest({ name: `${"[".repeat(60)}\\"${"{".repeat(40)}` }));
  assert.equal(text.status, 201);
  const nested = await problemOf(await call("/v1/rooms", jsonRequest(`{"name":${"[".repeat(31)}${"]".repeat(31)}}`)));
  assert.equal(nested.code, "validation_failed");
});

Deno.test("a body that is not an object returns 422", async () => {
  const { call } = createSampleGateway();
  for (const body of ["[]", "null", "1", '"x"', "true"]) {
    assert.equal((await problemOf(await call("/v1/rooms", jsonRequest(body)))).code, "validation_failed");
  }
});

Deno.test("NUL and lone surrogates return 422 with the pointer", async () => {
  const { call } = createSampleGateway();
  const cases = [
    ['{"name":"a\\u0000b"}', "/name"],
    ['{"name":"x","tags":["ok","\\ud800"]}', "/tags/1"],
    ['{"name":"x","a~/\\u0041":"\\udfff"}', "/a~0~1A"],
    ['{"a\\u0000":1}', ""],
  ] as const;
  for (const [body, pointer] of cases) {
    const problem = await problemOf(await call("/v1/rooms", jsonRequest(body)));
    assert.deepEqual([problem.status, problem.code], [422, "validation_failed"], body);
    assert.deepEqual(problem.errors?.map((error) => error.pointer), [pointer]);
  }
  assert.equal((await call("/v1/rooms", jsonRequest('{"name":"\\ud83d\\ude00"}'))).status, 201);
  const inQuery = await problemOf(await call("/v1/rooms?since=a%00b"));
  assert.deepEqual([inQuery.status, inQuery.errors?.[0]?.pointer], [422, "/since"]);
  const inPath = await problemOf(await call("/v1/rooms/a%00b"));
  assert.deepEqual([inPath.status, inPath.errors?.[0]?.pointer], [422, "/roomId"]);
});

Deno.test("a body over the limit returns 413, and is not read further", async () => {
  const { call } = createSampleGateway();
  const path = "/v1/rooms/room_1/import";
  const promised = jsonRequest({ lines: ["x"] }, "PUT", { "Content-Length": "101" });
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
  assert.ok(sent <= 256, `${sent} bytes were read for a limit of 100`);
  const big = await call("/v1/rooms", jsonRequest({ name: "x".repeat(256 * 1024) }));
  assert.match((await problemOf(big)).detail ?? "", /larger than 262144 bytes/);
  assert.equal((await call(path, jsonRequest({ lines: ["x"] }, "PUT"))).status, 202);
});

Deno.test("an aborted body returns 400", async () => {
  const { call } = createSampleGateway();
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

Deno.test("If-Match sets the version; a malformed one returns 400, another version 412", async () => {
  const { call } = createSampleGateway();
  const patch = (ifMatch: string, body: unknown = { name: "New" }) =>
    call("/v1/rooms/room_1", jsonRequest(body, "PATCH", { "If-Match": ifMatch }));
  for (const malformed of ["3", '"x"', '"3", "4"', '"-1"', '"3', '"9999999999999999"']) {
    assert.equal((await problemOf(await patch(malformed))).code, "bad_request", malformed);
  }
  assert.equal((await problemOf(await patch('"2.abc"'))).code, "version_mismatch");
  assert.equal((await problemOf(await patch('"3"', { version: 2 }))).code, "bad_request");
  assert.equal((await patch('"3.abc"')).status, 200);
  assert.equal((await patch('W/"4.abc"')).status, 200);
  assert.equal((await patch("*")).status, 200);
});

Deno.test("If-Match is refused where it would not be checked, and nothing is changed", async () => {
  const { call, sample } = createSampleGateway();
  const headers = { "If-Match": '"3"' };
  const problem = await problemOf(await call("/v1/rooms/room_1", { method: "DELETE", headers }));
  assert.equal(problem.code, "bad_request");
  assert.match(problem.detail, /^room\.delete does not support If-Match$/);
  assert.equal((await problemOf(await call("/v1/rooms", jsonRequest({ name: "New" }, "POST", headers)))).status, 400);
  assert.deepEqual(sample.inputs, []);
  assert.equal((await call("/v1/rooms/room_1", { headers })).status, 200);
  assert.equal((await call("/v1/rooms/room_1", { method: "DELETE", headers: { "If-Match": "*" } })).status, 204);
});

Deno.test("no write takes If-None-Match, with which a client creates only what does not exist", async () => {
  const { call, sample } = createSampleGateway();
  for (const condition of ["*", '"3"']) {
    const headers = { "If-None-Match": condition };
    for (const request of [jsonRequest({ name: "New" }, "PATCH", headers), { method: "DELETE", headers }]) {
      const problem = await problemOf(await call("/v1/rooms/room_1", request));
      assert.equal(problem.code, "bad_request");
      assert.match(problem.detail, /^room\.(?:update|delete) does not support If-None-Match$/);
    }
  }
  assert.deepEqual(sample.inputs, []);
});

Deno.test("path parameters are decoded, and malformed escapes are not an internal error", async () => {
  const { call } = createSampleGateway();
  assert.equal((await call("/v1/rooms/room%5F1")).status, 200);
  for (const path of ["/v1/rooms/%", "/v1/rooms/%zz", "/v1/rooms/%ff%fe", "/v1/rooms/a%2Fb", "/%"]) {
    const response = await call(path);
    assert.ok([404, 422].includes(response.status), `${path} returned ${response.status}`);
    await response.body?.cancel();
  }
});

Deno.test("a path of many malformed escapes is decoded once", async () => {
  const { call } = createSampleGateway();
  const own = { decodeURI, decodeURIComponent };
  let calls = 0;
  const counted = (decode: (text: string) => string) => (text: string) => {
    calls++;
    return decode(text);
  };
  Object.assign(globalThis, { decodeURI: counted(decodeURI), decodeURIComponent: counted(decodeURIComponent) });
  try {
    const { code, status } = await problemOf(await call(`/v1/rooms/${"%FFa".repeat(1000)}`));
    assert.deepEqual([status, code, calls], [404, "route_not_found", 1]);
  } finally {
    Object.assign(globalThis, own);
  }
});

Deno.test("a body of more than 20,000 values returns 413 before it is parsed; commas in texts do not count", async () => {
  const { call } = createSampleGateway();
  const headers = { "Content-Type": "application/json" };
  const post = (body: string) => call("/v1/rooms", { method: "POST", headers, body });
  const many = Array.from({ length: 20_001 }, (_, n) => `"key${n}":0`).join(",");
  const zeros = `{"name":[${",0".repeat(20_001).slice(1)}]}`;
  const nested = `{"name":[${"[[]],".repeat(9000)}0]}`;
  for (const body of [`{"name":"x","metadata":{${many}}}`, `{${many}}`, zeros, nested]) {
    const problem = await problemOf(await post(body));
    assert.deepEqual([problem.status, problem.code], [413, "payload_too_large"]);
    assert.match(problem.detail ?? "", /more than 20000 values/);
  }
  // The schema rejects the long name, so its commas did not count as values.
  const text = `\\",`.repeat(20_001);
  assert.equal((await problemOf(await post(`{"name":"${text}"}`))).code, "validation_failed");
});

Deno.test("an empty list item in a query is an item, which the schema rejects", async () => {
  const { call } = createSampleGateway();
  for (const query of ["ids=", "ids=&ids=", "ids=a,"]) {
    const problem = await problemOf(await call(`/v1/rooms?${query}`));
    assert.equal(problem.code, "validation_failed");
    assert.match(problem.errors?.[0]?.pointer ?? "", /^\/ids\/[01]$/);
  }
});

const LONG = `${"x=1, ".repeat(12_000)}sha-256=`;

Deno.test("a list header longer than 1,024 characters is rejected by name", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "Room" });
  const cases: [string, () => Promise<{ status: number; body: { detail: string } }>][] = [
    ["Accept", () => alice.get("/v1/rooms", { Accept: LONG })],
    ["Accept", () => alice.get("/", { Accept: LONG })],
    ["If-None-Match", () => alice.get(`/v1/rooms/${room.id}`, { "If-None-Match": LONG })],
    ["Accept-Encoding", () => alice.get("/openapi.json", { "Accept-Encoding": LONG })],
    ["If-None-Match", () => alice.get("/openapi.json", { "If-None-Match": LONG })],
    ...["Digest", "Content-Digest", "Repr-Digest"].map((name): (typeof cases)[number] => [
      name,
      () => upload(gateway, alice, { name: "a.txt" }, new Uint8Array([97]), { [name]: LONG }),
    ]),
  ];
  for (const [name, send] of cases) {
    const { status, body } = await send();
    assert.deepEqual([status, body.detail], [400, `${name} has ${LONG.length} characters; expected at most 1024`]);
  }
});

Deno.test("a path longer than 4,096 characters is not routed", async () => {
  const { call } = createSampleGateway();
  const detailOf = async (path: string): Promise<string | undefined> => (await problemOf(await call(path))).detail;
  assert.match(await detailOf(`/v1/${"a/".repeat(2045)}ab`) ?? "", /see \/docs/);
  assert.match(await detailOf(`/v1/${"a/".repeat(2045)}abc`) ?? "", /the path is longer than 4096 characters/);
});

Deno.test("only the end of a long X-Forwarded-For is read", () => {
  const clientOf = createClientResolver(["10.0.0.0/8"]);
  const headers = {
    "X-Forwarded-For": `${"10.0.0.7, ".repeat(6000)}192.0.2.7, 10.0.0.1`,
    "X-Forwarded-Proto": "https",
  };
  const client = clientOf(new Request("http://gateway.test/", { headers }), "10.0.0.2");
  assert.deepEqual(client, { ip: "192.0.2.7", isHttps: true });
});
