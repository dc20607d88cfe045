// Bodies of requests that are answered without them: short ones are read, of long ones no more than is cheap. And those that end early.
import assert from "node:assert/strict";
import { createHttpHandler } from "@/transport/http/server.ts";
import { captureLog } from "../log_capture.ts";
import { until } from "../wait.ts";
import { createSampleGateway } from "./http_sample.ts";

const LONG_BYTES = 256 * 1024 * 1024;
/** More than the buffers of a connection take on any machine. */
const BUFFERS_BYTES = LONG_BYTES / 2;
const CHUNK = new Uint8Array(64 * 1024).fill(0x78);

function serve() {
  const handle = createHttpHandler(createSampleGateway().deps);
  return Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => handle(request, "192.0.2.1"));
}

/** Sends a body until all of it is sent or the server closes the connection, and reads until it does. */
async function send({ port }: Deno.NetAddr, length: number): Promise<{ sent: number; response: string }> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const head = `POST /v1/rooms HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`;
  await connection.write(new TextEncoder().encode(head));
  let sent = 0;
  const sending = (async () => {
    while (sent < length) sent += await connection.write(CHUNK.subarray(0, length - sent));
  })().catch(() => {});
  let response = "";
  const buffer = new Uint8Array(4096);
  for (let count; (count = await connection.read(buffer).catch(() => null)) !== null;) {
    response += new TextDecoder().decode(buffer.subarray(0, count));
  }
  await sending;
  return { sent, response };
}

Deno.test("a long body of a refused request is not read, though its client gets the response", async () => {
  await using server = serve();
  const { sent, response } = await send(server.addr, LONG_BYTES);
  assert.match(response, /^HTTP\/1\.1 401 [^]*"unauthenticated"/);
  assert.ok(sent < BUFFERS_BYTES, `${sent} bytes were read`);
});

Deno.test("bodies of refused requests are read while they are few, so that any client gets the response", async () => {
  await using server = serve();
  const length = 3 * 1024 * 1024;
  for (let n = 0; n < 2; n++) assert.equal((await send(server.addr, length)).sent, length);
  // After that, a client that reads while it sends still gets it.
  const url = `http://127.0.0.1:${server.addr.port}/v1/rooms`;
  const response = await fetch(url, { method: "POST", body: new Uint8Array(length) });
  assert.equal(response.status, 401);
  assert.equal((await response.json()).code, "unauthenticated");
  // Its connection has been closed before this one is.
  assert.match((await send(server.addr, LONG_BYTES)).response, /^HTTP\/1\.1 401 /);
});

Deno.test("a body that its client cuts short is no failure; one that a stop may have broken off can be repeated", async () => {
  let isLeaving = false;
  const handle = createHttpHandler({ ...createSampleGateway().deps, isLeaving: () => isLeaving });
  const responses: Promise<Response>[] = [];
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    const response = handle(request, "192.0.2.1");
    responses.push(response.then((sent) => sent.clone()));
    return response;
  });
  const head = "POST /v1/rooms HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer alice\r\n" +
    "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
  const cut = async (): Promise<Response> => {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
    await connection.write(new TextEncoder().encode(head));
    await until(() => responses.length > 0);
    connection.close();
    return await (responses.pop() ?? assert.fail());
  };
  const records = await captureLog(["gateway", "http"], async () => {
    const { status } = await cut();
    assert.equal(status, 400);
    isLeaving = true;
    const response = await cut();
    assert.deepEqual([response.status, response.headers.get("Retry-After")], [503, "1"]);
  });
  assert.deepEqual(records.filter(({ level }) => level === "warning"), []);
});
