// Outbound calls: which addresses are called, and that a call is bounded in every way.
import assert from "node:assert/strict";
import { createOutbound, type OutboundDeps } from "@/adapters/outbound/http.ts";
import { isHost } from "@/adapters/outbound/host_list.ts";
import { chargeTo } from "@/core/caller.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { type Outbound, OutboundError, type OutboundErrorCode } from "@/ports/outbound.ts";
import { pause, until } from "../wait.ts";
import { CERTIFICATE, PRIVATE_KEY } from "./test_certificate.ts";

const LOOPBACK = { allow: ["127.0.0.1"] };

type Handler = (request: Request) => Response | Promise<Response>;

/** An HTTP server of a test. */
function serve(
  handler: Handler,
  options: { cert?: string; key?: string; hostname?: string; port?: number } = {},
): Deno.HttpServer & { port: number } {
  const all = { port: 0, hostname: "127.0.0.1", onListen() {}, ...options };
  const server = Deno.serve(all as Deno.ServeTcpOptions, handler);
  return Object.assign(server, { port: (server.addr as Deno.NetAddr).port });
}

async function assertRefused(call: Promise<unknown>, code: OutboundErrorCode, where = ""): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof OutboundError, `${where}: ${error}`);
    assert.equal(error.code, code, where);
    return true;
  });
}

/** Resolves once the caller has left. */
function aborted({ signal }: Request): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
}

/** A response that begins and never ends. The caller has left once it is cancelled: also where the request's signal says nothing. */
function neverEnding(onCancel: () => void): Response {
  return new Response(
    new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(10)), cancel: onCancel }),
  );
}

const CHUNK = new Uint8Array(64 * 1024);

/** A stream of so many chunks, which notes how many were read, and whether it was cancelled. */
function chunkSource(
  chunks: number,
): { state: { sent: number; isCancelled: boolean }; stream: ReadableStream<Uint8Array> } {
  const state = { sent: 0, isCancelled: false };
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.enqueue(CHUNK);
      if (++state.sent === chunks) controller.close();
    },
    cancel: () => void (state.isCancelled = true),
  }, { highWaterMark: 0 });
  return { state, stream };
}

/** Resolves once the sender has stopped, as the buffers of both sides are full. */
async function stopped(state: { sent: number }): Promise<void> {
  await until(async () => {
    const before = state.sent;
    await pause(50);
    return before > 0 && state.sent === before;
  });
}

/** A resolver that must not be asked. */
const never = (name: string): Promise<string[]> => Promise.reject(new Error(`asked for ${name}`));

Deno.test("addresses that are not public are refused, however they are written", async () => {
  const outbound = createOutbound({ allow: [], resolve: never });
  for (
    const host of [
      "127.0.0.1",
      "127.1",
      "2130706433",
      "0x7f000001",
      "0177.0.0.1",
      "127.0.0.1.",
      "0.0.0.0",
      "10.0.0.1",
      "172.16.0.1",
      "192.168.1.1",
      "169.254.169.254",
      "100.64.0.1",
      "198.18.0.1",
      "192.0.2.1",
      "192.0.0.1",
      "224.0.0.1",
      "240.0.0.1",
      "255.255.255.255",
      "１２７.0.0.1",
      "[::]",
      "[::1]",
      "[::ffff:127.0.0.1]",
      "[::ffff:7f00:1]",
      "[::127.0.0.1]",
      "[64:ff9b::7f00:1]",
      "[2002:7f00:1::]",
      "[fc00::1]",
      "[fe80::1]",
      "[fec0::1]",
      "[ff02::1]",
      "[2001:db8::1]",
      "[2001::1]",
      "[100::1]",
    ]
  ) {
    await assertRefused(outbound(`https://${host}/`), "address_not_allowed", host);
    assert.throws(() => outbound.assertAllowed(`https://${host}/`), OutboundError, host);
  }
});

Deno.test("a name is refused if one of its addresses is not public", async () => {
  for (const addresses of [["10.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["2606:4700::1111", "::1"], ["fe80::1%eth0"]]) {
    const outbound = createOutbound({ allow: [], resolve: () => Promise.resolve(addresses) });
    await assertRefused(outbound("https://service.test/"), "address_not_allowed", `${addresses}`);
  }
  const nowhere = createOutbound({ allow: [], resolve: () => Promise.resolve([]) });
  await assertRefused(nowhere("https://service.test/"), "name_not_resolved");
  const unknown = createOutbound({ allow: [], resolve: () => Promise.reject(new Error("ENOTFOUND")) });
  await assertRefused(unknown("https://service.test/"), "name_not_resolved");
});

Deno.test("a name is resolved once: the address that was checked is the one that is called", async () => {
  let hits = 0;
  // This one first: other processes of this machine have ports of this address, but none of the other one.
  await using closed = serve(() => new Response(`private ${++hits}`));
  await using allowed = serve(() => new Response("allowed"), {
    hostname: "127.0.0.2",
    port: closed.port,
    cert: CERTIFICATE,
    key: PRIVATE_KEY,
  });
  const answers = [["127.0.0.2"], ["127.0.0.1"]];
  const asked: string[] = [];
  const resolve = (name: string) => {
    asked.push(name);
    return Promise.resolve(answers.shift() ?? ["127.0.0.1"]);
  };
  const outbound = createOutbound({ allow: ["127.0.0.2"], resolve, ca: CERTIFICATE });
  const url = `https://service.test:${allowed.port}/`;
  assert.equal(await (await outbound(url)).text(), "allowed");
  assert.deepEqual(asked, ["service.test"]);
  await assertRefused(outbound(url), "address_not_allowed");
  assert.equal(hits, 0);
});

Deno.test("http, credentials and other schemes are refused, http to allowed hosts is not", async () => {
  await using server = serve(() => new Response("Hello"));
  const outbound = createOutbound({ ...LOOPBACK, resolve: () => Promise.resolve(["127.0.0.1"]) });
  await assertRefused(outbound("http://example.com/"), "scheme_not_allowed");
  await assertRefused(outbound("http://1.1.1.1/"), "scheme_not_allowed");
  for (const url of ["ftp://127.0.0.1/", "file:///etc/passwd", "data:,x", "ws://127.0.0.1/"]) {
    await assert.rejects(outbound(url), OutboundError, url);
  }
  await assertRefused(outbound("https://user:password@127.0.0.1/"), "address_not_allowed");
  assert.equal(await (await outbound(`http://127.0.0.1:${server.port}/`)).text(), "Hello");
  // The operator may also allow a name, and a caller may allow more for itself.
  const named = createOutbound({ allow: ["Models.internal"], resolve: () => Promise.resolve(["127.0.0.1"]) });
  assert.equal(await (await named(`http://models.internal:${server.port}/`)).text(), "Hello");
  const strict = createOutbound({ allow: [] });
  const options = { allow: ["127.0.0.0/8"] };
  assert.equal(await (await strict(`http://127.0.0.1:${server.port}/`, {}, options)).text(), "Hello");
  await assertRefused(strict(`http://127.0.0.1:${server.port}/`), "address_not_allowed");
});

Deno.test("settings of hosts are names, addresses and networks", () => {
  for (const host of ["models.internal", "ollama", "10.0.0.1", "10.0.0.0/8", "::1", "fd00::/8", "_service.test"]) {
    assert.ok(isHost(host), host);
  }
  for (const host of ["", "http://models", "10.0.0", "10.0.0.0/33", "300.1.1.1", "a b", "models:80", "*.test", "::g"]) {
    assert.ok(!isHost(host), host);
  }
});

Deno.test("the request arrives as it was created, and the response as it was sent", async () => {
  await using server = serve(async (request) => {
    const url = new URL(request.url);
    return Response.json({
      method: request.method,
      path: url.pathname + url.search,
      host: request.headers.get("host"),
      key: request.headers.get("x-key"),
      body: await request.text(),
    }, { status: 201, headers: [["x-one", "1"], ["set-cookie", "a=1"], ["set-cookie", "b=2"]] });
  });
  const outbound = createOutbound(LOOPBACK);
  const response = await outbound(`http://127.0.0.1:${server.port}/path?q=%C3%A4`, {
    method: "POST",
    headers: { "X-Key": "secret", Host: "elsewhere", "Content-Length": "1" },
    body: "Grüße",
  });
  assert.equal(response.status, 201);
  assert.equal(response.headers.get("x-one"), "1");
  assert.deepEqual(response.headers.getSetCookie(), ["a=1", "b=2"]);
  assert.deepEqual(await response.json(), {
    method: "POST",
    path: "/path?q=%C3%A4",
    host: `127.0.0.1:${server.port}`,
    key: "secret",
    body: "Grüße",
  });
});

Deno.test("a response without limits is read no faster than its reader reads", async () => {
  const CHUNKS = 2000;
  const { state, stream } = chunkSource(CHUNKS);
  await using server = serve(() => new Response(stream));
  const bounds = { totalMs: Infinity, bodyMaxBytes: Infinity };
  const response = await createOutbound(LOOPBACK)(`http://127.0.0.1:${server.port}/`, {}, bounds);
  // Nobody reads.
  await stopped(state);
  assert.ok(state.sent < CHUNKS, `${state.sent}`);
  let received = 0;
  for await (const chunk of response.body ?? []) received += chunk.length;
  assert.equal(received, CHUNKS * CHUNK.length);
});

Deno.test("JSON that is too complex to be parsed ends its call, in a body and in each event of a stream", async () => {
  const bodies: Record<string, string> = {
    fine: "data: [1,2]\n\n".repeat(1000),
    deep: `data: [1]\n\ndata: ${"[".repeat(10)}`,
    many: JSON.stringify(Array(100).fill(1)),
    long: JSON.stringify("x".repeat(2000)),
  };
  await using server = serve((request) => new Response(bodies[new URL(request.url).pathname.slice(1)]));
  const outbound = createOutbound(LOOPBACK);
  const json = { bytesMax: 1000, depthMax: 5, valuesMax: 50 };
  const read = async (kind: string) =>
    await (await outbound(`http://127.0.0.1:${server.port}/${kind}`, {}, { json })).text();
  assert.equal(await read("fine"), bodies.fine);
  for (const kind of ["deep", "many", "long"]) await assertRefused(read(kind), "response_too_large");
});

Deno.test("what a response causes is charged to the caller, and is read slowly while that is in debt", async () => {
  const CHUNKS = 50;
  await using server = serve(() => new Response(chunkSource(CHUNKS).stream));
  // No time passes for it: what is owed is not paid back, and others have not been active long ago.
  const budget = new CpuBudget({ percent: 1, now: () => 0 });
  const account = budget.accountOfKey("caller");
  budget.markActive(budget.accountOfKey("other"), budget.now());
  const json = { bytesMax: Infinity, depthMax: Infinity, valuesMax: Infinity };
  const options = { bodyMaxBytes: Infinity, json };
  const call = () => createOutbound(LOOPBACK)(`http://127.0.0.1:${server.port}/`, {}, options);
  const response = await chargeTo(account, call);
  let received = 0;
  const reading = (async () => {
    for await (const chunk of response.body ?? []) {
      if (received === 0) {
        // To parse it takes long.
        const startedAt = performance.now();
        while (performance.now() - startedAt < 10);
        setImmediate(() => account.consume(3000));
      }
      received += chunk.length;
    }
  })();
  await until(() => account.consumedMs >= 3010);
  // Without a pause, all of it would be here by now.
  await pause(300);
  assert.ok(received < CHUNKS * CHUNK.length, `${received}`);
  account.consume(-3000);
  await reading;
  assert.equal(received, CHUNKS * CHUNK.length);
});

Deno.test("a body that is a stream is sent as it is read, and cancelled when the call ends before it", async () => {
  const CHUNKS = 2000;
  const start = Promise.withResolvers<void>();
  await using server = serve(async (request) => {
    await start.promise;
    let received = 0;
    // The body of a call that has ended cannot be read.
    if (request.url.endsWith("/whole")) {
      for await (const chunk of request.body ?? []) received += chunk.length;
    }
    return new Response(`${received} ${request.headers.get("content-length")}`);
  });
  const url = `http://127.0.0.1:${server.port}/`;
  const outbound = createOutbound(LOOPBACK);
  const whole = chunkSource(CHUNKS);
  const calling = outbound(`${url}whole`, { method: "PUT", body: whole.stream }, { totalMs: Infinity });
  // Nobody reads.
  await stopped(whole.state);
  assert.ok(whole.state.sent < CHUNKS, `${whole.state.sent}`);
  const cut = chunkSource(CHUNKS);
  const ending = new AbortController();
  const ended = outbound(`${url}aborted`, { method: "PUT", body: cut.stream, signal: ending.signal });
  await until(() => cut.state.sent > 0);
  ending.abort(new Error("over"));
  await assert.rejects(ended, /over/);
  await until(() => cut.state.isCancelled);
  start.resolve();
  assert.equal(await (await calling).text(), `${CHUNKS * CHUNK.length} null`);
  const refused = chunkSource(CHUNKS);
  await assertRefused(outbound("https://10.0.0.1/", { method: "PUT", body: refused.stream }), "address_not_allowed");
  assert.ok(refused.state.isCancelled);
});

Deno.test("calls are counted by their outcome", async () => {
  const outcomes: string[] = [];
  await using server = serve(() => new Response(null, { status: 503 }));
  const outbound = createOutbound({ ...LOOPBACK, count: (outcome) => outcomes.push(outcome) });
  const url = `http://127.0.0.1:${server.port}/`;
  await outbound(url);
  await assertRefused(outbound("https://10.0.0.1/"), "address_not_allowed");
  await assert.rejects(outbound(url, { signal: AbortSignal.abort(new Error("over")) }), /over/);
  assert.deepEqual(outcomes, ["responded", "address_not_allowed", "cancelled"]);
});

Deno.test("redirects are returned, not followed", async () => {
  let hits = 0;
  await using server = serve((request) => {
    hits++;
    return new URL(request.url).pathname === "/secret"
      ? new Response("secret")
      : new Response(null, { status: 302, headers: { location: "/secret" } });
  });
  const response = await createOutbound(LOOPBACK)(`http://127.0.0.1:${server.port}/`);
  assert.equal(response.status, 302);
  assert.equal(await response.text(), "");
  assert.equal(hits, 1);
});

Deno.test("a response that is too long is refused, with a length and without", async () => {
  let sent = 0;
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  await using server = serve((request) => {
    if (new URL(request.url).pathname === "/known") return new Response("x".repeat(2000));
    return new Response(
      new ReadableStream({
        pull(controller) {
          sent++;
          controller.enqueue(new Uint8Array(100));
        },
        cancel: leave,
      }),
    );
  });
  const outbound = createOutbound(LOOPBACK);
  const options = { bodyMaxBytes: 1000 };
  await assertRefused(outbound(`http://127.0.0.1:${server.port}/known`, {}, options), "response_too_large");
  const response = await outbound(`http://127.0.0.1:${server.port}/endless`, {}, options);
  await assertRefused(response.text(), "response_too_large");
  assert.ok(sent >= 10);
  await left;
});

Deno.test("a server that sends without end, but no body, is left at once", async () => {
  const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const cases: [head: string, part: string, code: OutboundErrorCode][] = [
    ["", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "response_too_large"],
    [chunked, "0", "response_too_large"],
    [`${chunked}1;`, "extension", "response_too_large"],
    [chunked, "1\r\nx\r\n", "response_too_large"],
    ["HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "x", "connection_failed"],
  ];
  for (const [head, part, code] of cases) {
    const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
    const serving = (async () => {
      using connection = await listener.accept();
      await connection.read(new Uint8Array(1024));
      await connection.write(new TextEncoder().encode(head));
      const parts = new TextEncoder().encode(part.repeat(1000));
      try {
        while (true) await connection.write(parts);
      } catch { /* The caller has left. */ }
    })();
    const call = async () => await (await createOutbound(LOOPBACK)(`http://127.0.0.1:${listener.addr.port}/`)).text();
    await assertRefused(call(), code, part);
    await serving;
    listener.close();
  }
});

Deno.test("a server that says nothing, or not all, is left", async () => {
  let [begun, ended] = [0, 0];
  await using server = serve(async (request) => {
    begun++;
    if (new URL(request.url).pathname === "/silent") await aborted(request);
    return neverEnding(() => ended++);
  });
  const outbound = createOutbound(LOOPBACK);
  await assertRefused(outbound(`http://127.0.0.1:${server.port}/silent`, {}, { totalMs: 50 }), "timed_out");
  const read = async () => await (await outbound(`http://127.0.0.1:${server.port}/half`, {}, { totalMs: 200 })).text();
  await assertRefused(read(), "timed_out");
  await until(() => ended === begun);
});

Deno.test("the parts of a response arrive as they are sent", async () => {
  const parts: ReadableStreamDefaultController<Uint8Array>[] = [];
  await using server = serve(() => new Response(new ReadableStream({ start: (opened) => void parts.push(opened) })));
  const calling = createOutbound(LOOPBACK)(`http://127.0.0.1:${server.port}/`);
  await until(() => parts.length === 1);
  const send = (text: string) => parts[0]?.enqueue(new TextEncoder().encode(text));
  send("one");
  const reader = (await calling).body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.equal((await reader?.read())?.value, "one");
  send("two");
  assert.equal((await reader?.read())?.value, "two");
  parts[0]?.close();
  assert.equal((await reader?.read())?.done, true);
});

Deno.test("the small parts of a stream are read together", async () => {
  const EVENTS = 300;
  const event = "data: [1]\n\n";
  await using server = serve(({ signal }) => {
    let said = 0;
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      await pause(1);
      controller.enqueue(new TextEncoder().encode(event));
      if (++said === EVENTS || signal.aborted) controller.close();
    };
    return new Response(new ReadableStream({ pull }));
  });
  const outbound = createOutbound(LOOPBACK);
  const json = { bytesMax: 1000, depthMax: 5, valuesMax: 50 };
  const { body } = await outbound(`http://127.0.0.1:${server.port}/`, {}, { json });
  let [text, pieces] = ["", 0];
  for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece;
    pieces++;
  }
  assert.equal(text, event.repeat(EVENTS));
  assert.ok(pieces < EVENTS / 4, `${pieces}`);
});

Deno.test("a call that is aborted or whose body is cancelled ends the connection", async () => {
  let [begun, ended] = [0, 0];
  await using server = serve(async (request) => {
    begun++;
    if (new URL(request.url).pathname === "/silent") await aborted(request);
    return neverEnding(() => ended++);
  });
  const outbound = createOutbound(LOOPBACK);
  const before = new AbortController();
  const silent = outbound(`http://127.0.0.1:${server.port}/silent`, { signal: before.signal });
  await until(() => begun === 1);
  before.abort(new Error("enough"));
  await assert.rejects(silent, /enough/);
  await until(() => ended === 1);
  const during = new AbortController();
  const half = await outbound(`http://127.0.0.1:${server.port}/half`, { signal: during.signal });
  during.abort(new Error("enough"));
  await assert.rejects(half.text(), /enough/);
  await until(() => ended === 2);
  await (await outbound(`http://127.0.0.1:${server.port}/half`)).body?.cancel();
  await until(() => ended === 3);
  await assert.rejects(outbound(`http://127.0.0.1:${server.port}/`, { signal: AbortSignal.abort() }));
  assert.equal(begun, 3);
});

Deno.test("a response that is cut off fails, also when its length was not given", async () => {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const { port } = listener.addr;
  const heads = ["Content-Length: 100\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"];
  const serving = (async () => {
    for (const head of heads) {
      using connection = await listener.accept();
      await connection.read(new Uint8Array(1024));
      await connection.write(new TextEncoder().encode(`HTTP/1.1 200 OK\r\n${head}`));
    }
  })();
  for (const head of heads) {
    const response = await createOutbound(LOOPBACK)(`http://127.0.0.1:${port}/`);
    await assertRefused(response.text(), "connection_failed", head);
  }
  await serving;
  listener.close();
  await assertRefused(createOutbound(LOOPBACK)(`http://127.0.0.1:${port}/`), "connection_failed");
});

Deno.test("the certificate must be of the name, although an address is called", async () => {
  await using server = serve((request) => new Response(new URL(request.url).host), {
    cert: CERTIFICATE,
    key: PRIVATE_KEY,
  });
  const call = (host: string, deps: Partial<OutboundDeps>): ReturnType<Outbound> =>
    createOutbound({ allow: ["127.0.0.1"], resolve: () => Promise.resolve(["127.0.0.1"]), ...deps })(
      `https://${host}:${server.port}/`,
    );
  assert.equal(await (await call("service.test", { ca: CERTIFICATE })).text(), `service.test:${server.port}`);
  await assertRefused(call("service.test", {}), "connection_failed", "unknown issuer");
  await assertRefused(call("other.test", { ca: CERTIFICATE }), "connection_failed", "another name");
});

Deno.test("another address of a name is tried when one cannot be reached", async () => {
  await using server = serve(() => new Response("reached"));
  const unreachable = Deno.listen({ port: 0, hostname: "127.0.0.2" });
  unreachable.close();
  const resolve = () => Promise.resolve(["127.0.0.2", "127.0.0.1"]);
  const outbound = createOutbound({ allow: ["service.test"], resolve });
  assert.equal(await (await outbound(`http://service.test:${server.port}/`)).text(), "reached");
});

Deno.test("another address of a name is tried when the first one does not answer", async () => {
  // It accepts connections and says nothing. Its port is taken first: others on this machine have ports of this address, too.
  const silent = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  await using server = serve(() => new Response("there"), {
    cert: CERTIFICATE,
    key: PRIVATE_KEY,
    hostname: "127.0.0.2",
    port: silent.addr.port,
  });
  const resolve = () => Promise.resolve(["127.0.0.1", "127.0.0.2"]);
  const outbound = createOutbound({ allow: ["127.0.0.0/8"], resolve, ca: CERTIFICATE, connectMs: 60_000 });
  try {
    const response = await outbound(`https://service.test:${server.port}/`, {}, { totalMs: 60_000 });
    assert.equal(await response.text(), "there");
  } finally {
    silent.close();
  }
});
