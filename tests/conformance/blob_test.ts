// Every blob store keeps the contract of `ports/blob.ts`: the disk, and S3 against a local server.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { DiskBlobs } from "@/adapters/blob/disk.ts";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { Fault } from "@/core/fault.ts";
import type { Blobs } from "@/ports/blob.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { replace } from "../replace.ts";
import { eventually, pause } from "../wait.ts";
import { openS3Blobs, startS3Server } from "./s3.ts";
import { slowTest } from "../tier.ts";

type Opened = {
  blobs: Blobs; /** Names of everything stored, half-done work included. */
  stored(): Promise<string[]>;
  close(): Promise<void>;
};

async function openDisk(): Promise<Opened> {
  const folder = await Deno.makeTempDir({ prefix: "blob-disk-" });
  return {
    blobs: new DiskBlobs(`${folder}/files`),
    stored: () => namesIn(folder),
    close: () => Deno.remove(folder, { recursive: true }),
  };
}

async function openS3(): Promise<Opened> {
  const { endpoint, folder, close } = await startS3Server();
  return {
    blobs: openS3Blobs(endpoint),
    // The server keeps a content and what it knows of it in files beside each other, and does not know how to end an
    // upload in parts; that it is asked to is a test of its own.
    stored: async () =>
      (await namesIn(`${folder}/files`)).filter((name) => !/_dummy|_metadata|\.md5$|_uploads\//.test(name)),
    close,
  };
}

for (const [name, open] of [["disk", openDisk], ["s3", openS3]] as const) {
  Deno.test(`blobs on ${name} keep the contract`, async (t) => {
    const opened = await open();
    const { blobs, stored } = opened;
    try {
      await t.step("what was put is read back whole, at every size that is a boundary somewhere", async () => {
        const MIB = 1024 * 1024;
        for (const size of [0, 1, 65_536, 65_537, 8 * MIB, 8 * MIB + 1, 20 * MIB]) {
          const key = `size_${size}`;
          const hash = createHash("sha256");
          await blobs.put(key, noise(size, hash));
          assert.equal(await hashOf(await blobs.get(key)), hash.digest("hex"), `${size}`);
          await blobs.delete(key);
        }
      });

      await t.step("a range is those bytes and no others", async () => {
        const bytes = randomBytes(200_000);
        await blobs.put("range", chunksOf(bytes));
        for (
          const [start, end] of [[0, 2], [0, 200_000], [65_535, 65_537], [100, 150_000], [199_999, 200_000]] as const
        ) {
          assert.deepEqual(
            await bytesOf(await blobs.get("range", { start, end })),
            new Uint8Array(bytes.subarray(start, end)),
          );
        }
      });

      await t.step("what is absent is undefined, and deleting it is fine", async () => {
        assert.equal(await blobs.get("absent"), undefined);
        assert.equal(await blobs.get("absent", { start: 0, end: 2 }), undefined);
        await blobs.delete("absent");
        await blobs.put("gone", chunksOf(randomBytes(10)));
        await blobs.delete("gone");
        assert.equal(await blobs.get("gone"), undefined);
      });

      await t.step("a content is seen only once it is whole", async () => {
        const { promise: held, resolve: release } = Promise.withResolvers<void>();
        const put = blobs.put(
          "slow",
          (async function* () {
            yield randomBytes(100_000);
            await held;
            yield randomBytes(100_000);
          })(),
        );
        await pause(50);
        assert.equal(await blobs.get("slow"), undefined);
        release();
        await put;
        assert.equal((await bytesOf(await blobs.get("slow"))).length, 200_000);
      });

      await t.step("a content that breaks off passes its error on and leaves nothing, small or in parts", async () => {
        const before = await stored();
        for (const size of [10, 100_000, 18 * 1024 * 1024]) {
          const error = new Fault("bad_request", "broke off");
          const put = blobs.put(
            "broken",
            (async function* () {
              yield* noise(size, createHash("sha256"));
              throw error;
            })(),
          );
          await assert.rejects(put, (thrown) => thrown === error);
          assert.equal(await blobs.get("broken"), undefined);
        }
        assert.deepEqual(await stored(), before);
      });

      await t.step("a reader that stops early releases its file", async () => {
        const reader = (await blobs.get("slow"))?.getReader();
        await reader?.read();
        await reader?.cancel();
      });

      await t.step("many at once do not mix", async () => {
        const contents = Array.from({ length: 20 }, (_, at) => randomBytes(10_000 + at));
        await Promise.all(contents.map((bytes, at) => blobs.put(`many_${at}`, chunksOf(bytes))));
        for (const [at, bytes] of contents.entries()) {
          assert.deepEqual(await bytesOf(await blobs.get(`many_${at}`)), new Uint8Array(bytes));
        }
      });

      await t.step("a key that could be a path is a mistake of the program", async () => {
        for (const key of ["", "../x", "a/b", "a.b", "x".repeat(129)]) {
          await assert.rejects(async () => await blobs.put(key, chunksOf(new Uint8Array())), TypeError);
          await assert.rejects(async () => await blobs.get(key), TypeError);
          await assert.rejects(async () => await blobs.delete(key), TypeError);
        }
      });
    } finally {
      await opened.close();
    }
  });
}

Deno.test("what a process that died left unfinished is deleted a day later, also while its store runs", async () => {
  await using folder = await createTemporaryFolder();
  const { now } = Date;
  const blobs = new DiskBlobs(folder.path);
  await blobs.put("first", chunksOf(randomBytes(10)));
  await Deno.writeTextFile(`${folder.path}/incoming/left`, "half");
  await blobs.put("second", chunksOf(randomBytes(10)));
  assert.equal((await namesIn(`${folder.path}/incoming`)).length, 1);
  using _later = replace(Date, "now", () => now() + 25 * 3_600_000);
  await blobs.put("third", chunksOf(randomBytes(10)));
  assert.deepEqual(await namesIn(`${folder.path}/incoming`), []);
});

Deno.test("an S3 store that is down or refuses the credentials is unavailable, and its response is only logged", async () => {
  const away = openS3Blobs("http://127.0.0.1:9");
  await assert.rejects(async () => await away.put("x", chunksOf(new Uint8Array(1))), isUnavailable);
  const opened = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    () => new Response("secret", { status: 403 }),
  );
  const refusing = openS3Blobs(`http://127.0.0.1:${opened.addr.port}`);
  for (const ask of [() => refusing.get("x"), () => refusing.delete("x")]) {
    await assert.rejects(async () => await ask(), isUnavailable);
  }
  await opened.shutdown();
});

Deno.test("an upload to S3 that breaks off after its first parts is ended there", async () => {
  const asked: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    await request.bytes();
    const { pathname, search } = new URL(request.url);
    asked.push(`${request.method} ${pathname}${search}`);
    const xml = "<InitiateMultipartUploadResult><UploadId>u 1</UploadId></InitiateMultipartUploadResult>";
    return new Response(request.method === "POST" ? xml : null, { headers: { ETag: '"e"' } });
  });
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`);
  const broken = blobs.put(
    "broken",
    (async function* () {
      yield* noise(17 * 1024 * 1024, createHash("sha256"));
      throw new Fault("bad_request", "broke off");
    })(),
  );
  await assert.rejects(broken, { code: "bad_request" });
  assert.deepEqual(asked, [
    "POST /files/broken?uploads",
    "PUT /files/broken?partNumber=1&uploadId=u%201",
    "PUT /files/broken?partNumber=2&uploadId=u%201",
    "DELETE /files/broken?uploadId=u%201",
  ]);
  // A store that responds 200 to the last call without having the content is not believed.
  await assert.rejects(blobs.put("unfinished", noise(9 * 1024 * 1024, createHash("sha256"))), isUnavailable);
  assert.equal(asked.at(-1), "DELETE /files/unfinished?uploadId=u%201");
  await server.shutdown();
});

slowTest("an S3 store that never responds, or stops in the middle of a response, is unavailable", async () => {
  const ends = Promise.withResolvers<void>();
  const silent = async (): Promise<Response> => {
    await ends.promise;
    return new Response();
  };
  const halting = (): Response =>
    new Response(
      new ReadableStream({
        async pull(controller) {
          controller.enqueue(new Uint8Array(10));
          await ends.promise;
          controller.close();
        },
      }),
      { headers: { ETag: '"e"' } },
    );
  let answer: () => Response | Promise<Response> = silent;
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    await request.bytes();
    return answer();
  });
  const endpoint = `http://127.0.0.1:${server.addr.port}`;
  const blobs = openS3Blobs(endpoint, { responseTimeoutMs: 50 });
  const large = () => noise(9 * 1024 * 1024, createHash("sha256"));
  for (
    const ask of [() => blobs.get("x"), () => blobs.put("x", chunksOf(new Uint8Array(1))), () => blobs.delete("x")]
  ) {
    await assert.rejects(async () => await ask(), isUnavailable);
  }
  answer = halting;
  await assert.rejects(blobs.put("x", large()), isUnavailable, "no upload id comes");
  // The response must have begun in time, also on a busy machine.
  const patient = openS3Blobs(endpoint, { responseTimeoutMs: 3000 });
  const content = await eventually(() => patient.get("x"));
  await assert.rejects(bytesOf(content), isUnavailable);
  ends.resolve();
  await server.shutdown();
});

Deno.test("a truncated response of S3 is unavailable, and a content that cannot be uploaded is released", async () => {
  let status = 0;
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const serving = (async () => {
    for await (const connection of listener) {
      await connection.read(new Uint8Array(4096));
      const answer = `HTTP/1.1 ${status} Well\r\nContent-Length: 99\r\n\r\n<UploadId>`;
      await connection.write(new TextEncoder().encode(answer));
      connection.close();
    }
  })();
  const blobs = openS3Blobs(`http://127.0.0.1:${listener.addr.port}`);
  for (status of [200, 403]) {
    let isLetGo = false;
    const put = blobs.put(
      "x",
      (async function* () {
        try {
          yield* noise(17 * 1024 * 1024, createHash("sha256"));
        } finally {
          isLetGo = true;
        }
      })(),
    );
    await assert.rejects(put, isUnavailable);
    assert.ok(isLetGo);
  }
  listener.close();
  await serving;
});

Deno.test("an S3 store is called through the outbound port only: its own host is allowed, and no other", async () => {
  let asked = 0;
  const counted: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    asked++;
    await request.bytes();
    const isStart = request.url.endsWith("?uploads");
    return new Response(isStart ? "<UploadId>1</UploadId>" : "<ETag>e</ETag>", { headers: { ETag: '"e"' } });
  });
  const door = createOutbound({ allow: [], count: (outcome) => counted.push(outcome) });
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`, { door });
  await blobs.put("small", chunksOf(new Uint8Array(1)));
  await blobs.put("large", noise(9 * 1024 * 1024, createHash("sha256")));
  await bytesOf(await blobs.get("small"));
  await blobs.delete("small");
  assert.equal(asked, 7);
  assert.deepEqual(counted, Array.from({ length: asked }, () => "responded"));
  await assert.rejects(door(`http://127.0.0.2:${server.addr.port}/`), { code: "address_not_allowed" });
  await server.shutdown();
});

Deno.test("a bucket that is not there is no content that is not there", async () => {
  const { endpoint, close } = await startS3Server();
  const blobs = openS3Blobs(endpoint, { bucket: "another" });
  await assert.rejects(async () => await blobs.get("x"), isUnavailable);
  await assert.rejects(blobs.delete("x"), isUnavailable);
  await assert.rejects(blobs.put("x", chunksOf(new Uint8Array(1))), isUnavailable);
  await close();
});

Deno.test("an S3 store that is busy is asked again, and no answer of it is left unread", async () => {
  let [asked, busy] = [0, 3];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    assert.equal((await request.bytes()).length, 10);
    return asked++ < busy
      ? new Response("slow down ".repeat(100_000), { status: 503 })
      : new Response(null, { headers: { ETag: '"e"' } });
  });
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`);
  await blobs.put("x", chunksOf(new Uint8Array(10)));
  [asked, busy] = [0, 4];
  await assert.rejects(blobs.put("x", chunksOf(new Uint8Array(10))), isUnavailable);
  await server.shutdown();
});

Deno.test("an S3 store that redirects, or sends the whole for a range, is unavailable: that is not the content", async () => {
  const asked: string[] = [];
  let answer = (): Response => new Response();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    await request.bytes();
    const { pathname } = new URL(request.url);
    asked.push(`${request.method} ${pathname}`);
    return pathname === "/elsewhere" ? new Response("somebody else's") : answer();
  });
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`);
  for (const status of [301, 302, 303, 307, 308]) {
    answer = () => new Response(null, { status, headers: { Location: "/elsewhere" } });
    await assert.rejects(async () => await bytesOf(await blobs.get("x")), isUnavailable);
    await assert.rejects(blobs.put("x", chunksOf(new Uint8Array(1))), isUnavailable);
    await assert.rejects(blobs.delete("x"), isUnavailable);
  }
  assert.deepEqual(new Set(asked), new Set(["GET /files/x", "PUT /files/x", "DELETE /files/x"]));
  answer = () => new Response("0123456789");
  await assert.rejects(async () => await bytesOf(await blobs.get("x", { start: 2, end: 4 })), isUnavailable);
  await server.shutdown();
});

Deno.test("of an error of S3 that does not end only the start is read", async () => {
  let sent = 0;
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => {
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(new Uint8Array(65_536));
        if (++sent === 500) controller.close();
      },
    });
    return new Response(endless, { status: 403 });
  });
  const blobs = openS3Blobs(`http://127.0.0.1:${server.addr.port}`);
  await assert.rejects(async () => await blobs.get("x"), isUnavailable);
  assert.ok(sent < 500, `${sent} pieces were taken`);
  await server.shutdown();
});

Deno.test("a disk that could not be prepared is tried again", async () => {
  await using folder = await createTemporaryFolder();
  await Deno.writeTextFile(`${folder.path}/files`, "in the way");
  const blobs = new DiskBlobs(`${folder.path}/files`);
  await assert.rejects(blobs.put("x", chunksOf(new Uint8Array(1))), isUnavailable);
  await Deno.remove(`${folder.path}/files`);
  await blobs.put("x", chunksOf(new Uint8Array(1)));
  assert.equal((await bytesOf(await blobs.get("x"))).length, 1);
});

function isUnavailable(error: unknown): boolean {
  return error instanceof Fault && error.code === "unavailable" && !error.message.includes("secret");
}

Deno.test("part files that a dead process left are cleared, those of the living are not", async () => {
  await using folder = await createTemporaryFolder();
  await Deno.mkdir(`${folder.path}/incoming`);
  for (const name of ["dead", "alive"]) await Deno.writeTextFile(`${folder.path}/incoming/${name}`, "x");
  const longAgo = new Date(Date.now() - 2 * 86_400_000);
  await Deno.utime(`${folder.path}/incoming/dead`, longAgo, longAgo);
  await new DiskBlobs(folder.path).put("key", chunksOf(new Uint8Array(1)));
  assert.deepEqual((await namesIn(folder.path)).map((path) => path.slice(folder.path.length)), [
    "/ey/key",
    "/incoming/alive",
  ]);
});

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 30_000) yield bytes.subarray(at, at + 30_000);
}

/** `size` random bytes in odd chunks, never all at once. */
async function* noise(size: number, hash: { update(bytes: Uint8Array): unknown }): AsyncGenerator<Uint8Array> {
  for (let left = size; left > 0;) {
    const chunk = randomBytes(Math.min(left, 77_777));
    hash.update(chunk);
    left -= chunk.length;
    yield chunk;
  }
}

async function bytesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>> | undefined): Promise<Uint8Array> {
  assert.ok(stream !== undefined);
  return await new Response(stream).bytes();
}

async function hashOf(stream: ReadableStream<Uint8Array> | undefined): Promise<string> {
  assert.ok(stream !== undefined);
  const hash = createHash("sha256");
  for await (const chunk of stream) hash.update(chunk);
  return hash.digest("hex");
}

async function namesIn(folder: string): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(folder)) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory) names.push(...await namesIn(path));
    else names.push(path);
  }
  return names.sort();
}
