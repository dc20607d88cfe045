// What an S3 store that fails, and those who upload slowly, cost: no acknowledged content, and little memory.
// Runs alone: it measures the memory of its thread.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Fault } from "@/core/fault.ts";
import { S3Blobs } from "@/adapters/blob/s3.ts";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { until } from "../wait.ts";
import { openS3Blobs, S3_OPTIONS } from "./s3.ts";

const MIB = 1024 * 1024;

/** A server that reads each request, and responds with this. */
function answering(answer: (request: Request, body: Uint8Array) => Response) {
  return Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    async (request) => answer(request, await request.bytes()),
  );
}

function isUnavailable(error: unknown): boolean {
  return error instanceof Fault && error.code === "unavailable";
}

Deno.test("uploads that have not arrived take no memory, however many they are", async () => {
  const stored = new Map<string, number>();
  const server = answering(({ method, url }, { length }) => {
    const { pathname, search } = new URL(url);
    if (method === "PUT") stored.set(`${pathname}${search}`, length);
    const isStart = url.endsWith("?uploads");
    return new Response(isStart ? "<UploadId>1</UploadId>" : "<ETag>e</ETag>", { headers: { ETag: '"e"' } });
  });
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`);
  const { promise: rest, resolve: release } = Promise.withResolvers<void>();
  const chunk = randomBytes(64 * 1024);
  let waiting = 0;
  async function* slow(size: number): AsyncGenerator<Uint8Array> {
    // Each chunk has memory of its own, as those of a request.
    for (let sent = 0; sent < size; sent += chunk.length) yield new Uint8Array(chunk);
    waiting++;
    await rest;
    yield chunk;
  }
  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");
  collectGarbage();
  const before = Deno.memoryUsage().external;
  const puts = Array.from({ length: 40 }, (_, n) => blobs.put(`slow_${n}`, slow(7 * MIB)));
  await until(() => waiting === puts.length);
  collectGarbage();
  const held = Deno.memoryUsage().external - before;
  release();
  await Promise.all(puts);
  assert.ok(held < 100 * MIB, `${puts.length} uploads of 7 MiB hold ${Math.round(held / MIB)} MiB`);
  assert.deepEqual(new Set(stored.values()), new Set([7 * MIB + chunk.length]));
  await server.shutdown();
});

Deno.test("what is larger than a part arrives in the order in which it was sent", async () => {
  const parts: Uint8Array[] = [];
  const server = answering(({ method, url }, body) => {
    if (method === "PUT") parts[Number(new URL(url).searchParams.get("partNumber")) - 1] = body;
    const isStart = url.endsWith("?uploads");
    return new Response(isStart ? "<UploadId>1</UploadId>" : "<ETag>e</ETag>", { headers: { ETag: '"e"' } });
  });
  const content = randomBytes(20 * MIB + 1);
  const source = (async function* () {
    for (let at = 0; at < content.length; at += 77_777) yield content.subarray(at, at + 77_777);
  })();
  await openS3Blobs(`http://127.0.0.1:${server.addr.port}`).put("large", source);
  assert.ok(new Blob(parts as BlobPart[]).size === content.length && parts.length === 3);
  assert.ok(content.equals(new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer())));
  await server.shutdown();
});

Deno.test("a response of 200 without an ETag means that nothing was stored", async () => {
  const server = answering(() => new Response("<html>Please sign in</html>"));
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`);
  await assert.rejects(blobs.put("x", chunksOf(10)), isUnavailable);
  await assert.rejects(blobs.put("x", chunksOf(9 * MIB)), isUnavailable);
  await server.shutdown();
});

Deno.test("a 404 that is not the store's own is no content that is missing", async () => {
  let body = "<html>no backend</html>";
  const server = answering(() => new Response(body, { status: 404 }));
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`);
  await assert.rejects(async () => await blobs.get("x"), isUnavailable);
  await assert.rejects(blobs.delete("x"), isUnavailable);
  body = "<Error><Code>NoSuchKey</Code></Error>";
  assert.equal(await blobs.get("x"), undefined);
  await blobs.delete("x");
  await server.shutdown();
});

Deno.test("a request whose connection is lost is repeated, a few times", async () => {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  let [asked, lost] = [0, 2];
  const serving = (async () => {
    for await (const connection of listener) {
      await connection.read(new Uint8Array(4096));
      const response = 'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 0\r\n\r\n';
      if (++asked > lost) await connection.write(new TextEncoder().encode(response));
      connection.close();
    }
  })();
  const blobs = openS3Blobs(`http://127.0.0.1:${listener.addr.port}`);
  // Without a content, all of the request is read before the connection ends.
  await blobs.put("x", chunksOf(0));
  assert.equal(asked, 3);
  [asked, lost] = [0, 100];
  await assert.rejects(blobs.put("x", chunksOf(0)), isUnavailable);
  assert.equal(asked, 4);
  listener.close();
  await serving;
});

Deno.test("a range of which only a part is sent is unavailable, not shorter", async () => {
  const server = answering(() => new Response("01234", { status: 206 }));
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`);
  const read = async (end: number) => await new Response(await blobs.get("x", { start: 0, end })).text();
  assert.equal(await read(5), "01234");
  await assert.rejects(read(6), isUnavailable);
  await server.shutdown();
});

Deno.test("where parts cannot wait, a large upload fails and a small one does not", async () => {
  const file = await Deno.makeTempFile();
  const server = answering(() => new Response(null, { headers: { ETag: '"e"' } }));
  const blobs = new S3Blobs(createOutbound({ allow: [] }), {
    endpoint: `http://127.0.0.1:${server.addr.port}`,
    ...S3_OPTIONS,
  }, { folder: file });
  await blobs.put("small", chunksOf(100_000));
  await assert.rejects(blobs.put("large", chunksOf(MIB)), isUnavailable);
  await Deno.remove(file);
  await server.shutdown();
});

async function* chunksOf(size: number): AsyncGenerator<Uint8Array> {
  for (let left = size; left > 0; left -= 50_000) yield randomBytes(Math.min(left, 50_000));
}
