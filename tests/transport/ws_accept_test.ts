// Accepting sockets on a real server: buffering of frames, its limit, and the end of sockets.
import assert from "node:assert/strict";
import { Metrics } from "@/core/metrics.ts";
import { type AcceptedSocket, acceptSocket, type SocketSession } from "@/transport/shared/accepted_socket.ts";
import { MemoryGuard } from "@/transport/shared/memory_guard.ts";
import { encodeUpgradeRequest } from "../upgrade_request.ts";
import { until } from "../wait.ts";
import { TEST_LIMITS } from "./ws_harness.ts";

type AcceptFixture = {
  /** Controls the loading of the session. */
  loading: PromiseWithResolvers<SocketSession>;
  received: string[];
  closedCount: number;
  client: WebSocket;
  closes: number[];
  [Symbol.asyncDispose](): Promise<void>;
};

/** A server whose session is loading, and its open client. */
async function openAcceptFixture(): Promise<AcceptFixture> {
  const loading = Promise.withResolvers<SocketSession>();
  const limits = { ...TEST_LIMITS, inboxMaxBytes: 100 };
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    (request) =>
      acceptSocket(request, {
        limits,
        idleTimeout: 0,
        guard: new MemoryGuard({ budgetBytes: Infinity, metrics: new Metrics() }),
        isAuthenticated: () => false,
        serve: () => loading.promise,
        onClosed: () => fixture.closedCount++,
      }),
  );
  const client = new WebSocket(`ws://127.0.0.1:${server.addr.port}`);
  const closed = Promise.withResolvers<void>();
  const fixture: AcceptFixture = {
    loading,
    received: [],
    closedCount: 0,
    client,
    closes: [],
    async [Symbol.asyncDispose]() {
      client.close();
      await closed.promise;
      await server.shutdown();
    },
  };
  client.onclose = ({ code }) => {
    fixture.closes.push(code);
    closed.resolve();
  };
  await new Promise((resolve) => client.onopen = resolve);
  return fixture;
}

function session(fixture: AcceptFixture): SocketSession {
  return {
    receive: (data) => fixture.received.push(String(data)),
    probe() {},
    close() {},
    onSocketClosed: () => fixture.received.push("closed"),
  };
}

Deno.test("frames received while the session loads are delivered afterwards, in order", async () => {
  await using fixture = await openAcceptFixture();
  for (const text of ["one", "two"]) fixture.client.send(text);
  fixture.loading.resolve(session(fixture));
  fixture.client.send("three");
  await until(() => fixture.received.length === 3);
  assert.deepEqual(fixture.received, ["one", "two", "three"]);
  fixture.client.close();
  await until(() => fixture.received.at(-1) === "closed");
  assert.equal(fixture.closedCount, 1);
});

Deno.test("too many frames before the session is loaded close the socket with 3013", async () => {
  await using fixture = await openAcceptFixture();
  for (let count = 0; count < 3; count++) fixture.client.send("x".repeat(40));
  await until(() => fixture.closes.length === 1);
  assert.deepEqual(fixture.closes, [3013]);
  await until(() => fixture.closedCount === 1);
  fixture.loading.resolve(session(fixture));
  await until(() => fixture.received.length > 0);
  assert.deepEqual(fixture.received, ["closed"]);
});

Deno.test("a session that cannot be loaded closes the socket with 3004", async () => {
  await using fixture = await openAcceptFixture();
  fixture.loading.reject(new Error("not loaded"));
  await until(() => fixture.closes.length === 1);
  assert.deepEqual(fixture.closes, [3004]);
  await until(() => fixture.closedCount === 1);
});

Deno.test("a socket shed in the tick of its complete message is closed cleanly", async () => {
  const sockets = new Set<AcceptedSocket>();
  const received: unknown[] = [];
  const serve = (socket: AcceptedSocket): SocketSession => {
    sockets.add(socket);
    const receive = (data: unknown): void => {
      received.push(data);
      for (const other of sockets) if (other !== socket) other.shed();
    };
    return { receive, probe() {}, close: ({ code, reason }) => socket.close(code, reason), onSocketClosed() {} };
  };
  const guard = new MemoryGuard({ budgetBytes: Infinity, metrics: new Metrics() });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    (request) =>
      acceptSocket(request, {
        limits: TEST_LIMITS,
        idleTimeout: 0,
        guard,
        isAuthenticated: () => false,
        serve,
        onClosed() {},
      }),
  );
  const clients = Array.from({ length: 50 }, () => new WebSocket(`ws://127.0.0.1:${server.addr.port}`));
  const isOpen = ({ readyState }: WebSocket) => readyState === WebSocket.OPEN;
  await until(() => sockets.size === clients.length && clients.every(isOpen), "all are open");
  for (const client of clients) client.send("all at once");
  await until(() => received.length > 0 && guard.size <= 1, "all but one are shed");
  assert.deepEqual(received, ["all at once"]);
  for (const client of clients) client.close();
  await until(() => clients.every(({ readyState }) => readyState === WebSocket.CLOSED), "all have ended");
  await server.shutdown();
});

Deno.test("a closed socket counts until its peer has read what was sent, or is lost; what the system takes is as good as read", async () => {
  const closed: string[] = [];
  /** A peer that reads nothing of so many bytes, after which it is closed. */
  const open = async (name: string, bytes: number): Promise<[Deno.TcpConn, Deno.HttpServer]> => {
    const hasOpened = Promise.withResolvers<void>();
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) =>
      acceptSocket(request, {
        limits: { ...TEST_LIMITS, closeTimeoutMs: 5 },
        idleTimeout: 0,
        guard: new MemoryGuard({ budgetBytes: Infinity, metrics: new Metrics() }),
        isAuthenticated: () => false,
        serve(socket) {
          socket.send("x".repeat(bytes));
          socket.close(3008, "slow");
          hasOpened.resolve();
          return { receive() {}, probe() {}, close() {}, onSocketClosed() {} };
        },
        onClosed: () => closed.push(name),
      }));
    const peer = await Deno.connect({ hostname: "127.0.0.1", port: (server.addr as Deno.NetAddr).port });
    await peer.write(encodeUpgradeRequest("/"));
    await hasOpened.promise;
    return [peer, server];
  };
  // More than the system buffers.
  const much = 32 * 1024 * 1024;
  const peers = [await open("reads later", much), await open("is lost", much), await open("little", 10)];
  await until(() => closed.length > 0);
  assert.deepEqual(closed, ["little"]);
  peers[1]?.[0].close();
  await until(() => closed.length === 2);
  assert.equal(closed[1], "is lost");
  const [reader] = peers[0] ?? assert.fail("no peer");
  const buffer = new Uint8Array(1024 * 1024);
  while (await reader.read(buffer).catch(() => null) !== null);
  await until(() => closed.length === 3);
  for (const at of [0, 2]) peers[at]?.[0].close();
  for (const [, server] of peers) await server.shutdown();
});
