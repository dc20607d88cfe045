// The faults of the runtime that `src/runtime/` works around, each as small as can be: a test that says "is no longer needed"
// fails when the fault is fixed, and then the file it names is to be deleted. The other tests check what the workarounds do.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import process from "node:process";
import { setImmediate } from "node:timers";
import { deflateRawSync } from "node:zlib";
import { readPieces } from "@/runtime/byte_pieces.ts";
import { closeSocket } from "@/runtime/close_socket.ts";
import { dropSocket } from "@/runtime/drop_socket.ts";
import { inflateInPieces, NativeDecompressionStream } from "@/runtime/inflate_pieces.ts";
import { inThisContext } from "@/runtime/root_context.ts";
import { withoutPipelines } from "@/runtime/sent_ahead.ts";
import { runWithTimeout } from "@/runtime/stuck_thread.ts";
import { upgradeWebSocket } from "@/runtime/upgrade.ts";
import { replace } from "./replace.ts";
import { encodeUpgradeRequest } from "./upgrade_request.ts";
import { nextTick } from "@/core/time/clock.ts";
import { until } from "./wait.ts";

/** A masked text message of one letter. */
const TEXT = new Uint8Array([0x81, 0x81, 0, 0, 0, 0, 0x61]);
/** A close frame without a code. */
const CLOSE = new Uint8Array([0x88, 0x80, 0, 0, 0, 0]);
const CLOSE_OPCODE = 0x88;
const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

type Pair = {
  socket: WebSocket;
  peer: Deno.TcpConn;
  /** What the socket received. */
  events: string[];
  /** What the peer was sent, upgrade included. */
  received: number[];
  /** The peer knows that nothing more comes. */
  hasEnded: () => boolean;
  [Symbol.asyncDispose](): Promise<void>;
};

/** A socket of the runtime, and the bare connection at its other end. */
async function pair(): Promise<Pair> {
  const opened = Promise.withResolvers<WebSocket>();
  const events: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 0 });
    socket.onopen = () => opened.resolve(socket);
    for (const name of ["message", "close", "error"]) socket.addEventListener(name, () => events.push(name));
    return response;
  });
  const peer = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  await peer.write(encodeUpgradeRequest("/"));
  const socket = await opened.promise;
  const received: number[] = [];
  let hasEnded = false;
  const reading = (async () => {
    const buffer = new Uint8Array(1000);
    for (let count; (count = await peer.read(buffer).catch(() => null)) !== null;) {
      received.push(...buffer.subarray(0, count));
    }
    hasEnded = true;
  })();
  return {
    socket,
    peer,
    events,
    received,
    hasEnded: () => hasEnded,
    async [Symbol.asyncDispose]() {
      dropSocket(socket);
      await reading;
      peer.close();
      await server.shutdown();
    },
  };
}

Deno.test("dropSocket ends the connection of a peer that does not answer", async () => {
  await using all = await pair();
  dropSocket(all.socket);
  await until(all.hasEnded);
});

Deno.test("a socket that was dropped can be used, without an effect, before and after the runtime has noticed", async () => {
  await using all = await pair();
  dropSocket(all.socket);
  // Otherwise each of these would end the process.
  assert.equal(all.socket.bufferedAmount, 0);
  all.socket.send("late");
  await until(() => all.events.includes("close"));
  all.socket.send("later");
  all.socket.close();
  await until(all.hasEnded);
  assert.equal(new TextDecoder().decode(new Uint8Array(all.received)).includes("late"), false);
});

Deno.test("dropSocket is no longer needed when sockets can be terminated", async () => {
  await using all = await pair();
  assert.equal("terminate" in all.socket, false);
  assert.equal("destroy" in all.socket, false);
});

Deno.test("closeSocket is no longer needed when a message after close() does not end the socket", async () => {
  await using all = await pair();
  all.socket.close(3000, "shutdown");
  await until(() => all.received.includes(CLOSE_OPCODE));
  await all.peer.write(TEXT);
  await until(() => all.events.includes("close"), "the fault: closed by a message, without a close frame of the peer");
});

Deno.test("closeSocket reads on until the peer has closed as well", async () => {
  await using all = await pair();
  closeSocket(all.socket, 3000, "shutdown");
  await until(() => all.received.includes(CLOSE_OPCODE));
  await all.peer.write(TEXT);
  await all.peer.write(TEXT);
  await until(() => all.events.length === 2);
  assert.deepEqual(all.events, ["message", "message"]);
  assert.equal(all.hasEnded(), false);
  await all.peer.write(CLOSE);
  await until(() => all.events.includes("close"));
});

// What leaks is what the fault is about.
const LEAKS = { sanitizeOps: false, sanitizeResources: false };

Deno.test("upgrade is no longer needed when a socket is closed whose client left before it", LEAKS, async () => {
  const events: string[] = [];
  const arrived = Promise.withResolvers<void>();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const isLate = new URL(request.url).pathname === "/late";
    if (isLate) {
      arrived.resolve();
      await new Promise((resolve) => request.signal.onabort = resolve);
    }
    const { socket, response } = Deno.upgradeWebSocket(request);
    if (isLate) {
      for (const name of ["open", "close", "error"]) {
        socket.addEventListener(name, () => events.push(name));
      }
    } else socket.onopen = () => socket.close();
    return response;
  });
  const client = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  await client.write(encodeUpgradeRequest("/late"));
  await arrived.promise;
  client.close();
  // Long after it, others come and go.
  for (let count = 0; count < 20; count++) {
    const other = new WebSocket(`ws://127.0.0.1:${server.addr.port}`);
    await new Promise((resolve) => other.onclose = resolve);
  }
  assert.deepEqual(events, [], "the fault: not told of anything");
});

Deno.test("upgrade reports once that a socket has opened, and when it has closed", async () => {
  const events: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    const { response } = upgradeWebSocket(request, {
      openTimeoutMs: 60_000,
      onOpen: () => events.push("open"),
      onEnd: () => events.push("end"),
    });
    return response;
  });
  const client = new WebSocket(`ws://127.0.0.1:${server.addr.port}`);
  await new Promise((resolve) => client.onopen = resolve);
  await until(() => events.length === 1);
  client.close();
  await until(() => events.length === 2);
  assert.deepEqual(events, ["open", "end"]);
  await server.shutdown();
});

Deno.test("upgrade reports a socket that does not open in time", LEAKS, async () => {
  const ended = Promise.withResolvers<void>();
  const request = Promise.withResolvers<Request>();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (given) => {
    request.resolve(given);
    const never = Promise.withResolvers<Response>();
    upgradeWebSocket(given, { openTimeoutMs: 1, onOpen() {}, onEnd: () => ended.resolve() });
    return never.promise;
  });
  const client = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  await client.write(encodeUpgradeRequest("/"));
  // Its own timer keeps nothing alive.
  const alive = setInterval(() => {}, 1000);
  await ended.promise;
  clearInterval(alive);
  client.close();
});

Deno.test("mayStartWorker is no longer needed when terminate() ends the thread of a worker that computes", async () => {
  // In a process of its own: the thread computes until the process ends.
  const script = `
    const worker = new Worker("data:text/javascript,postMessage(0);for(;;);", { type: "module" });
    await new Promise((resolve) => worker.onmessage = resolve);
    worker.terminate();
    const { user } = process.cpuUsage();
    while (process.cpuUsage().user - user < 300_000) await new Promise((resolve) => setTimeout(resolve, 10));
    Deno.exit(0);`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", `import process from "node:process";${script}`],
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
  const { code } = await child.status;
  clearTimeout(timer);
  assert.equal(code, 0, "the fault: its thread has worked on for 300 ms");
});

Deno.test({
  name: "DescriptorReserve is no longer needed when a worker that has no descriptors throws",
  // Elsewhere an event loop may need others.
  ignore: Deno.build.os !== "linux",
}, async () => {
  const script = `
    const opened = [];
    try { for (;;) opened.push(Deno.listen({ port: 0 })); } catch { /* There are none left. */ }
    try { new Worker("data:text/javascript,", { type: "module" }); } catch { /* As it should be. */ }
    Deno.exit(0);`;
  const limited = 'ulimit -n 40; exec "$0" eval "$1"';
  const { code, stderr } = await new Deno.Command("sh", {
    args: ["-c", limited, Deno.execPath(), script],
    stdin: "null",
  }).output();
  assert.match(new TextDecoder().decode(stderr), /panicked.*[^]*Too many open files/);
  assert.notEqual(code, 0, "the fault: the process has ended");
});

Deno.test("closeUnread is no longer needed when an unread body is not read", async () => {
  const length = 64 * 1024 * 1024;
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    () => new Response(null, { status: 401 }),
  );
  using client = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  await client.write(new TextEncoder().encode(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`));
  const chunk = new Uint8Array(64 * 1024);
  for (let sent = 0; sent < length;) sent += await client.write(chunk);
  // The fault: all of it was sent.
});

Deno.test("withoutPipelines is no longer needed when what is sent ahead waits in the buffers of its connection", async () => {
  const { promise: end, resolve } = Promise.withResolvers<void>();
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async () => {
    await end;
    return new Response();
  });
  using client = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  const requests = new TextEncoder().encode(REQUEST.repeat(2000));
  for (let sent = 0; sent < 64 * 1024 * 1024;) sent += await client.write(requests);
  // The fault: all of it was sent.
  resolve();
});

/** The responses to so many requests that are sent without reading, until the end or all of them. */
async function sendAhead(server: Deno.HttpServer<Deno.NetAddr>, count: number): Promise<string[]> {
  using client = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  await client.write(new TextEncoder().encode(REQUEST.repeat(count)));
  const buffer = new Uint8Array(64 * 1024);
  const responses: string[] = [];
  for (let text = ""; responses.length < count;) {
    const read = await client.read(buffer).catch(() => null);
    if (read === null) break;
    text += new TextDecoder().decode(buffer.subarray(0, read));
    responses.splice(0, Infinity, ...text.split("HTTP/1.1 ").slice(1));
  }
  return responses;
}

Deno.test("withoutPipelines closes a connection that keeps sending ahead, after a response that announces it", async () => {
  let handled = 0;
  const handler = withoutPipelines(async () => {
    handled++;
    await nextTick();
    return new Response("x");
  });
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, handler);
  assert.equal((await sendAhead(server, 10)).length, 10, "few are served");
  handled = 0;
  await sendAhead(server, 5000);
  assert.ok(handled < 500, `${handled} were handled`);
  const responses = await sendAhead(server, 21);
  assert.equal(responses.filter((response) => /connection: close/i.test(response)).length, 1);
});

/** What a server of the runtime makes of a body that is sent in chunks of one byte. */
async function readChunks(
  chunks: number,
  read: (body: ReadableStream<Uint8Array<ArrayBuffer>>) => Promise<Uint8Array[]>,
) {
  const result = Promise.withResolvers<Uint8Array[]>();
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async ({ body }) => {
    assert.ok(body !== null);
    await read(body).then(result.resolve, result.reject);
    return new Response();
  });
  using client = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  const head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
  await client.write(new TextEncoder().encode(`${head}${"1\r\nx\r\n".repeat(chunks)}0\r\n\r\n`));
  return await result.promise;
}

Deno.test("readPieces is no longer needed when a chunk retains little more than its bytes", async () => {
  const chunks = await readChunks(1000, (body) => Array.fromAsync(body));
  // The fault: each has 64 KiB.
  assert.ok(chunks.some(({ length, buffer }) => buffer.byteLength > 1000 * length));
});

Deno.test("readPieces takes all chunks into one piece", async () => {
  let read = 0;
  const onRead = (bytes: number): undefined => void (read += bytes);
  const pieces = await readChunks(1000, (body) => Array.fromAsync(readPieces(body, { onRead })));
  assert.deepEqual(pieces.map(({ length }) => length), [1000]);
  assert.equal(read, 1000);
});

/** Reads once what 64 KB of compressed zeros become. */
async function firstOfBomb(Stream: typeof DecompressionStream): Promise<{ length: number; rest(): Promise<number> }> {
  const zeros = new Uint8Array(64 * 2 ** 20);
  const bomb = new Blob([new Uint8Array(deflateRawSync(zeros))]);
  const reader = bomb.stream().pipeThrough(new Stream("deflate-raw")).getReader();
  const { value } = await reader.read();
  return {
    length: value?.length ?? 0,
    async rest() {
      let bytes = 0;
      for (let next = await reader.read(); !next.done; next = await reader.read()) bytes += next.value.length;
      return bytes;
    },
  };
}

Deno.test("inflateInPieces is no longer needed when a read returns a part of a chunk", async () => {
  const { length } = await firstOfBomb(NativeDecompressionStream);
  assert.ok(length > 32 * 2 ** 20, `${length}`);
});

Deno.test("inflateInPieces inflates as much as is read, and all that is read", async () => {
  using _restored = replace(globalThis, "DecompressionStream", DecompressionStream);
  inflateInPieces();
  const { length, rest } = await firstOfBomb(globalThis.DecompressionStream);
  assert.ok(length <= 2 * 2 ** 20, `${length}`);
  assert.equal(length + await rest(), 64 * 2 ** 20);
  const broken = new Blob(["no deflate"]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  await assert.rejects(new Response(broken).bytes(), TypeError);
});

Deno.test("runWithTimeout stops what computes for too long, not what the processor was withheld from", () => {
  assert.equal(runWithTimeout(() => 7, 60_000), 7);
  assert.throws(() => runWithTimeout(() => spin(), 10), { code: "ERR_SCRIPT_EXECUTION_TIMEOUT" });
  // As in a process that was stopped meanwhile.
  using _replaced = replace(process, "threadCpuUsage", () => ({ user: 0, system: 0 }));
  let runs = 0;
  assert.equal(runWithTimeout(() => runs++ === 0 ? spin() : 7, 10), 7);
});

function spin(): never {
  for (;;);
}

Deno.test("inThisContext is no longer needed when a request begins in the context in which its server was started", async () => {
  // In a process of its own: what is current there is what its main module left.
  const script = `
    const storage = new AsyncLocalStorage();
    const handler = (_request, _info) => new Response(String(storage.getStore()));
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, handler);
    console.log(server.addr.port);
    storage.enterWith("of another");`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", `import { AsyncLocalStorage } from "node:async_hooks";${script}`],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const { value: port } = await output.read();
  const response = await fetch(`http://127.0.0.1:${Number(port)}`);
  const text = await response.text();
  child.kill("SIGKILL");
  await child.status;
  await output.cancel();
  assert.equal(text, "of another", "the fault: it begins in the context that is current");
});

Deno.test("inThisContext calls in the context in which it was created", () => {
  const storage = new AsyncLocalStorage<string>();
  const outside = inThisContext((prefix: string) => prefix + storage.getStore());
  const inside = storage.run("first", () => inThisContext((prefix: string) => prefix + storage.getStore()));
  const seen = storage.run("second", () => [outside("a "), inside("b "), storage.getStore()]);
  assert.deepEqual(seen, ["a undefined", "b first", "second"]);
});

/** How many ticks of 4 ms pass until a server in this thread has answered. */
async function ticksUntilServed(
  handler: Deno.ServeHandler<Deno.NetAddr>,
  onNextTick: (callback: () => void) => void,
): Promise<number> {
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
  let isServed = false;
  const request = fetch(`http://127.0.0.1:${server.addr.port}`).then((response) => response.text()).finally(() =>
    isServed = true
  );
  let ticks = 0;
  for (; !isServed; ticks++) {
    const startedAt = performance.now();
    while (performance.now() - startedAt < 4);
    await new Promise<void>(onNextTick);
  }
  await request;
  return ticks;
}

Deno.test("onNextTick is no longer needed when the runtime looks for input in each tick", async () => {
  const ticks = await ticksUntilServed(() => new Response("x"), setImmediate);
  assert.ok(ticks > 61, `${ticks}`);
});

Deno.test("onNextTick makes the runtime look for input when it has not done so for some ticks", async () => {
  // Its own, so that the other tests run as in a process that does not serve.
  const path: string = "@/runtime/input_tick.ts?own";
  const { noticingRequests, onNextTick }: typeof import("@/runtime/input_tick.ts") = await import(path);
  const ticks = await ticksUntilServed(noticingRequests(() => new Response("x")), onNextTick);
  assert.ok(ticks < 61, `${ticks}`);
});
