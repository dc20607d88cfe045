// An orderly stop: readiness first, everything served for a while longer, and then the same end for every client.
import assert from "node:assert/strict";
import { WebSocket } from "npm:ws@8.23.0";
import { openTarget } from "../e2e/target.ts";
import { eventually, pause } from "../wait.ts";

const CLIENTS = 80;
/** The first is long enough for a few calls, unless the machine is too busy: then they are made in a longer one. */
const WINDOWS_SECONDS = [20, 60, 180];
const READY = "/v1/collaboration/ready";

Deno.test("after SIGTERM readiness is red while clients still connect, and then each of them is notified", async () => {
  let isShown = false;
  for (const seconds of WINDOWS_SECONDS) isShown ||= await stopInOrder(seconds);
  assert.ok(isShown, "calls are answered before the window ends");
});

/** Resolves to whether all calls of the window were answered before its end. */
async function stopInOrder(windowSeconds: number): Promise<boolean> {
  await using target = await openTarget({ isOwn: true, environment: { SVC_DRAIN_SECONDS: String(windowSeconds) } });
  const { process, baseUrl } = target;
  assert.ok(process);
  const token = await target.token({ sub: "ann" });
  const room = await target.call(token, "POST", "/v1/rooms", { name: "drain" });
  const busy = async (client: Client): Promise<void> => {
    while (client.closed === undefined) {
      const { heard } = client;
      client.send({ rpc: { method: "room.get", data: { roomId: room.id } } });
      // One after the other: calls arrive at any time, and none pile up.
      await heard;
      await pause(50);
    }
  };
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => Client.open(target.wsUrl, token)));
  const working = clients.filter((_, at) => at % 2 === 0).map(busy);

  const startedAt = performance.now();
  const isInWindow = (): boolean => performance.now() - startedAt < windowSeconds * 1000;
  Deno.kill(process.pid, "SIGTERM");
  try {
    await eventually(async () => {
      const response = await fetch(`${baseUrl}${READY}`);
      const { checks } = await response.json();
      assert.deepEqual([response.status, checks.draining], [503, true]);
    });
    clients.push(await Client.open(target.wsUrl, token));
    assert.equal((await target.call(token, "GET", `/v1/rooms/${room.id}`)).id, room.id);
    assert.ok(clients.every(({ closed }) => closed === undefined), "nobody was sent away yet");
  } catch (error) {
    if (isInWindow()) throw error;
  }
  const isShown = isInWindow();

  assert.equal((await process.waitForExit())?.code, 0);
  await Promise.all(working);
  await eventually(() => assert.ok(clients.every(({ closed }) => closed !== undefined)));
  if (isShown) { for (const { closed } of clients) assert.equal(closed, "3001 shutdown"); }
  await assert.rejects(fetch(`${baseUrl}${READY}`));
  return isShown;
}

Deno.test("a request whose body is arriving at SIGTERM is served", async () => {
  await using target = await openTarget({ isOwn: true });
  const { process, baseUrl } = target;
  assert.ok(process);
  const token = await target.token({ sub: "ann" });
  const room = await target.call(token, "POST", "/v1/rooms", { name: "drain" });
  const body = JSON.stringify({ roomId: room.id, text: "in two parts" });
  const { hostname, port } = new URL(baseUrl);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const send = (text: string) => connection.write(new TextEncoder().encode(text));
  await send(
    `POST /v1/messages HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 20)}`,
  );
  // By then the first part has been read.
  await target.call(token, "GET", `/v1/rooms/${room.id}`);
  Deno.kill(process.pid, "SIGTERM");
  await eventually(() => assert.match(process.log, /"stopping"/));
  await pause(500);
  await send(body.slice(20));
  const response = await new Response(connection.readable).text();
  assert.match(response, /^HTTP\/1.1 201 /);
  assert.equal((await process.waitForExit())?.code, 0);
});

Deno.test("a second SIGTERM ends the window at once", async () => {
  await using target = await openTarget({ isOwn: true, environment: { SVC_DRAIN_SECONDS: "300" } });
  const { process } = target;
  assert.ok(process);
  Deno.kill(process.pid, "SIGTERM");
  await eventually(() => assert.match(process.log, /"stopping"/));
  await pause(400); // One that follows sooner is taken for the echo of the first.
  Deno.kill(process.pid, "SIGTERM");
  assert.equal((await process.waitForExit())?.code, 143);
});

/** A client without the reconnecting of an SDK. */
class Client {
  closed: string | undefined;
  /** Resolves with the next frame, or with the end. */
  heard: Promise<void>;
  readonly #socket: WebSocket;
  #id = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    let { promise, resolve } = Promise.withResolvers<void>();
    this.heard = promise;
    const hear = (): void => {
      resolve();
      ({ promise, resolve } = Promise.withResolvers<void>());
      this.heard = promise;
    };
    socket.on("message", hear);
    socket.on("error", () => {}); // It closes.
    socket.on("close", (code: number, reason: Uint8Array) => {
      this.closed = `${code} ${new TextDecoder().decode(reason)}`;
      hear();
    });
  }

  static async open(url: string, token: string): Promise<Client> {
    const client = new Client(new WebSocket(url));
    await new Promise((resolve) => client.#socket.once("open", resolve).once("close", resolve));
    const { heard } = client;
    client.send({ connect: { token } });
    if (client.closed === undefined) await heard;
    return client;
  }

  send(command: Record<string, unknown>): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ id: ++this.#id, ...command }));
  }
}
