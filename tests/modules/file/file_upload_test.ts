// Uploads: what is accepted and refused, with which codes, and that refused uploads leave nothing behind.
// Runs alone: it measures the memory of its thread.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { enforceMinimumRate } from "@/modules/file/mod.ts";
import { peekStream } from "@/modules/file/stream.ts";
import { deflateRawSync, gzipSync } from "node:zlib";
import { cpuTimeMs } from "../../cpu_time.ts";
import { allEnded, until, WAIT_MS } from "../../wait.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { download, FILES, formOf, listFiles, pngHeader, sha256, upload, uploadForm } from "./file_harness.ts";
import { assertProblem, createCallers, createRoom, ok } from "../fixtures.ts";

Deno.test("file.upload stores a raw body with its type, size and hash, and publishes to the uploader", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const answer = await upload(gateway, alice, { name: "Größe 1.png" }, pngHeader(640, 480), {
    "content-type": "image/png",
  });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  assert.equal(answer.headers.get("location"), `/v1/collaboration/files/${answer.body.id}`);
  const { id, createdAt: _, ...file } = answer.body;
  assert.deepEqual(file, {
    name: "Größe 1.png",
    contentType: "image/png",
    size: 64,
    sha256: sha256(pngHeader(640, 480)),
    width: 640,
    height: 480,
    state: "unlinked",
    uploaderId: "alice",
    roomId: null,
  });
  assert.deepEqual(ok(await alice.get(`/v1/collaboration/files/${id}`)), answer.body);
  assert.deepEqual(ok(await alice.get("/v1/collaboration/files")).items, [answer.body]);
  const events = await gateway.app.store.log.read("default", "principal:alice", 0, 100);
  const created = events.find((event) => event.type === "file.created");
  assert.deepEqual(JSON.parse(created?.json ?? "{}").data, { file: answer.body });
});

Deno.test("file.upload stores the single file of a form, with fields before it or after it", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const bytes = crypto.getRandomValues(new Uint8Array(65_000));
  const file = ok(await uploadForm(gateway, alice, formOf(["file", new File([bytes], "noise.bin")])));
  assert.deepEqual([file.name, file.size, file.contentType], ["noise.bin", 65_000, "application/octet-stream"]);
  assert.deepEqual((await download(gateway, alice, file.id)).bytes, bytes);
  const roomId = await createRoom(alice, []);
  const fields: [string, string][] = [["name", "Notes.txt"], ["roomId", roomId]];
  const content: [string, File] = ["file", new File(["hello"], "x.txt", { type: "text/plain" })];
  for (const form of [formOf(...fields, content), formOf(content, ...fields)]) {
    const notes = ok(await uploadForm(gateway, alice, form));
    assert.deepEqual([notes.name, notes.contentType, notes.roomId], ["Notes.txt", "text/plain", roomId]);
  }
});

Deno.test("file.upload refuses malformed forms and leaves nothing behind", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const file = (size = 100_000): File => new File([new Uint8Array(size).fill(65)], "a.txt");
  assertProblem(await uploadForm(gateway, alice, formOf(["name", "a.txt"])), 422, "validation_failed");
  assertProblem(await uploadForm(gateway, alice, formOf(["file", file()], ["name", "../b"])), 422, "validation_failed");
  assertProblem(await uploadForm(gateway, alice, formOf(["file", file()], ["roomId", "room_1"])), 404, "not_found");
  assertProblem(await uploadForm(gateway, alice, formOf(["file", file()], ["surprise", "1"])), 422, "unknown_field");
  assertProblem(await uploadForm(gateway, alice, formOf(["file", file()], ["file", file()])), 422, "validation_failed");
  assert.match((await uploadForm(gateway, alice, formOf(["file", "text"]))).body.detail, /^\/file: .* filename$/);
  assertProblem(await uploadForm(gateway, alice, formOf(["surprise", "1"], ["file", file()])), 422, "unknown_field");
  const twice = await uploadForm(gateway, alice, formOf(["name", "a"], ["name", "b"], ["file", file()]));
  assertProblem(twice, 422, "validation_failed");
  assert.equal(twice.body.errors[0].pointer, "/name");
  assertProblem(await uploadForm(gateway, alice, formOf(["file", file()]), 20), 400, "bad_request");
  assertProblem(await uploadForm(gateway, alice, formOf(["file", file(10)]), 150), 400, "bad_request");
  assertProblem(await upload(gateway, alice, {}, "x", { "content-type": "multipart/form-data" }), 400, "bad_request");
  assertProblem(
    await upload(gateway, alice, {}, "x", { "content-type": "multipart/form-data; boundary=y" }),
    400,
    "bad_request",
  );
  assert.deepEqual(await listFiles(gateway.folder), []);
  assert.deepEqual(ok(await alice.get("/v1/collaboration/files")).items, []);
});

Deno.test("file.upload refuses a contradicting content type with 415, naming both", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const html = "<html><script>alert(1)</script></html>";
  const cases: [string | Uint8Array<ArrayBuffer>, string, RegExp][] = [
    [pngHeader(1, 1), "image/jpeg", /is image\/png, expected image\/jpeg/],
    [pngHeader(1, 1), "text/plain", /is image\/png, expected text\/plain/],
    [pngHeader(1, 1), "application/x-own", /is image\/png, expected application\/x-own/],
    [html, "image/png", /is text\/plain, expected image\/png/],
    [html, "application/pdf", /is text\/plain, expected application\/pdf/],
    ["MZ\x00\x01\x00binary\x00", "text/csv", /expected text\/csv/],
    [new Uint8Array([0, 1, 2, 3, 4, 5]), "video/mp4", /is application\/octet-stream, expected video\/mp4/],
    ["", "image/png", /expected image\/png/],
    ["x", "nonsense", /not a media type/],
  ];
  for (const [body, type, detail] of cases) {
    const answer = await upload(gateway, alice, { name: "x" }, body, { "content-type": type });
    assertProblem(answer, 415, "unsupported_media_type");
    assert.match(answer.body.detail, detail);
  }
  assert.deepEqual(await listFiles(gateway.folder), []);
});

Deno.test("what was read ahead of a content follows in one piece, however it was sent", async () => {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < 1000; at++) yield new Uint8Array([at % 256]);
  }
  const { head, content } = await peekStream(bytes(), 900);
  const pieces = await Array.fromAsync(content);
  assert.deepEqual([head.length, pieces.length, pieces[0]?.length], [900, 101, 900]);
  assert.deepEqual(Buffer.concat(pieces), Buffer.concat(await Array.fromAsync(bytes())));
});

Deno.test("file.upload ends the request body of an upload refused for its first bytes", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  let isLetGo = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(100_000)),
    cancel: () => void (isLetGo = true),
  });
  const headers = { "content-type": "image/jpeg", "content-length": "20000000" };
  assertProblem(await upload(gateway, alice, { name: "x" }, body, headers), 415, "unsupported_media_type");
  assert.ok(isLetGo);
});

Deno.test("file.upload accepts types that match the content, and detects undeclared ones", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const cases: [string | Uint8Array<ArrayBuffer>, string | undefined, string][] = [
    [pngHeader(1, 1), undefined, "image/png"],
    [pngHeader(1, 1), "application/octet-stream", "image/png"],
    ["# Title", "text/markdown; charset=utf-8", "text/markdown"],
    ["<p>hi</p>", undefined, "text/plain"],
    ["{}", "application/json", "application/json"],
    ["<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "image/svg+xml"],
    [new Uint8Array([0xff, 0xfe, 0x68, 0, 0x69, 0]), "text/plain", "text/plain"],
    [new Uint8Array([0x47, 0x72, 0xf6, 0xdf, 0x65]), "text/csv", "text/csv"],
    [new Uint8Array([0, 1, 2, 3]), "application/x-own", "application/x-own"],
    [zip("note.txt", new Uint8Array(10)), "application/x-zip-compressed", "application/zip"],
    [zip("note.txt", new Uint8Array(10)), "application/vnd.etsi.asic-e+zip", "application/vnd.etsi.asic-e+zip"],
    ["", undefined, "text/plain"],
  ];
  for (const [body, type, expected] of cases) {
    // A text body has a content type of its own, which none of these wants.
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const answer = await upload(
      gateway,
      alice,
      { name: "x" },
      bytes,
      type === undefined ? {} : { "content-type": type },
    );
    assert.equal(ok(answer).contentType, expected, String(type));
  }
});

Deno.test("file.upload refuses names with a path, control characters or two dots, each with its reason", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const names = [
    "",
    " ",
    "a/b.txt",
    "/etc/passwd",
    "..",
    "../x",
    "..\\x",
    "C:\\x",
    "a\nb",
    "a\x00b",
    "a\u202egpj.exe",
    ".",
  ];
  for (const name of [...names, "ü".repeat(128), "x..y"]) {
    const answer = await upload(gateway, alice, { name }, "x");
    assertProblem(answer, 422, "validation_failed");
    assert.deepEqual(answer.body.errors.map((error: { pointer: string }) => error.pointer), ["/name"], name);
  }
  const form = new FormData();
  form.append("file", new File(["x"], "../../etc/cron.d/job"));
  const answer = await uploadForm(gateway, alice, form);
  assertProblem(answer, 422, "validation_failed");
  assert.match(answer.body.detail, /must not contain \/ or/);
  assert.deepEqual(await listFiles(gateway.folder), []);
});

Deno.test("file.upload verifies every sha-256 digest header", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const [right, wrong] = [sha256("hello", "base64"), sha256("hullo", "base64")];
  for (
    const [name, of] of [["Digest", (v: string) => v], ["Content-Digest", (v: string) => `:${v}:`], [
      "Repr-Digest",
      (v: string) => `:${v}:`,
    ]] as const
  ) {
    const bad = await upload(gateway, alice, { name: "x" }, "hello", { [name]: `md5=abc, sha-256=${of(wrong)}` });
    assertProblem(bad, 422, "validation_failed");
    assert.match(bad.body.detail, new RegExp(name));
    assertProblem(await upload(gateway, alice, { name: "x" }, "hello", { [name]: "sha-256=abc" }), 400, "bad_request");
  }
  assert.deepEqual(await listFiles(gateway.folder), []);
  ok(
    await upload(gateway, alice, { name: "x" }, "hello", {
      Digest: `SHA-256=${right}`,
      "Repr-Digest": `sha-256=:${right}:`,
    }),
  );
  assert.equal((await listFiles(gateway.folder)).length, 1);
});

Deno.test("file.upload requires a Content-Length, verifies it, and refuses large or compressed bodies", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_FILE_BYTES: "1000" });
  const { alice } = await createCallers(gateway, "alice");
  const stream = (size: number) => ReadableStream.from([new Uint8Array(size).fill(65)]);
  assertProblem(await upload(gateway, alice, { name: "x" }, stream(5)), 411, "length_required");
  assertProblem(await upload(gateway, alice, { name: "x" }, new Uint8Array(1001)), 413, "payload_too_large");
  assertProblem(
    await upload(gateway, alice, { name: "x" }, stream(20), { "content-length": "10" }),
    400,
    "bad_request",
  );
  assertProblem(await upload(gateway, alice, { name: "x" }, stream(5), { "content-length": "10" }), 400, "bad_request");
  assertProblem(
    await upload(gateway, alice, { name: "x" }, stream(5), { "content-length": "ten" }),
    400,
    "bad_request",
  );
  const form = new FormData();
  form.append("file", new File([new Uint8Array(1001)], "x"));
  assertProblem(await uploadForm(gateway, alice, form), 413, "payload_too_large");
  const packed = new Uint8Array(gzipSync("hello"));
  assertProblem(
    await upload(gateway, alice, { name: "x" }, packed, { "content-encoding": "gzip" }),
    415,
    "unsupported_media_type",
  );
  assertProblem(await upload(gateway, alice, { name: "x", size: "5" }, "x"), 400, "unknown_parameter");
  assert.deepEqual(await listFiles(gateway.folder), []);
  ok(await upload(gateway, alice, { name: "x" }, new Uint8Array(1000)));
});

Deno.test("an aborted upload leaves neither a file nor used quota behind", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_TENANT_FILE_BYTES: "2000000" });
  const { alice } = await createCallers(gateway, "alice");
  for (let round = 0; round < 3; round++) {
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ < 10) controller.enqueue(new Uint8Array(100_000).fill(65));
        else controller.error(new Error("the client went away"));
      },
    });
    assertProblem(
      await upload(gateway, alice, { name: "x" }, body, { "content-length": "1900000" }),
      400,
      "bad_request",
    );
  }
  assert.deepEqual(await listFiles(gateway.folder), []);
  // All of the quota is free again.
  ok(await upload(gateway, alice, { name: "x" }, new Uint8Array(2_000_000)));
});

Deno.test("file.upload refuses an image with too large dimensions by its header", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  for (const [width, height] of [[50_000, 50_000], [20_000, 1], [16_000, 16_000]] as const) {
    const answer = await upload(gateway, alice, { name: "bomb.png" }, pngHeader(width, height));
    assertProblem(answer, 422, "validation_failed");
    assert.equal(answer.body.errors[0].code, "image_too_large");
  }
});

/** What this file's tests keep, beside those of others that run in the same program. */
function retainedBytes(): number {
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}

Deno.test("file.upload never unpacks an archive: a zip bomb costs its compressed size", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  // The entry that a type sniffer would like to read, 200 MiB of it in 200 KiB.
  const bomb = zip("[Content_Types].xml", new Uint8Array(200 * 1024 * 1024));
  assert.ok(bomb.length < 250_000);
  const [before, startedAt] = [retainedBytes(), cpuTimeMs()];
  const answer = await upload(gateway, alice, { name: "bomb.docx" }, bomb);
  const [grown, ms] = [retainedBytes() - before, cpuTimeMs() - startedAt];
  assert.equal(ok(answer).contentType, "application/zip");
  assert.ok(grown < 64 * 1024 * 1024, `${grown} bytes more`);
  assert.ok(ms < 2000, `${ms} ms`);
  // Nor one that says nothing of its size: what the sniffer reads of it is unpacked, not all of what it was given.
  const lying = new Uint8Array(bomb).fill(0, 22, 26);
  assert.equal(ok(await upload(gateway, alice, { name: "bomb.docx" }, lying)).contentType, "application/zip");
  const unpacked = new Blob([new Uint8Array(deflateRawSync(new Uint8Array(16 * 1024 * 1024)))]).stream()
    .pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = unpacked.getReader();
  const { value } = await reader.read();
  assert.ok(value !== undefined && value.length < 2 * 1024 * 1024, `${value?.length} bytes at once`);
  await reader.cancel();
});

Deno.test("concurrent uploads do not exceed the tenant's quota, and deleting releases it", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_TENANT_FILE_BYTES: "5000" });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const answers = await Promise.all(
    Array.from(
      { length: 20 },
      (_, at) => upload(gateway, at % 2 ? alice : bob, { name: `${at}` }, new Uint8Array(1000)),
    ),
  );
  const made = answers.filter((answer) => answer.status === 201);
  assert.equal(made.length, 5);
  const over = answers.find((answer) => answer.status !== 201);
  assert.ok(over !== undefined);
  assertProblem(over, 429, "quota_exceeded");
  assert.ok(Number(over.headers.get("retry-after")) > 0);
  assert.equal((await listFiles(gateway.folder)).length, 5);
  const stranger = await gateway.as("alice", { tenant: "elsewhere" });
  ok(await upload(gateway, stranger, { name: "x" }, new Uint8Array(1000)));
  const mine = ok(await alice.get("/v1/collaboration/files")).items;
  const id = (mine[0] ?? ok(await bob.get("/v1/collaboration/files")).items[0]).id;
  assert.equal((await (mine.length > 0 ? alice : bob).delete(`/v1/collaboration/files/${id}`)).status, 204);
  await gateway.runJobs();
  assert.equal((await listFiles(gateway.folder)).length, 5);
  ok(await upload(gateway, alice, { name: "x" }, new Uint8Array(1000)));
  assertProblem(await upload(gateway, alice, { name: "x" }, new Uint8Array(1)), 429, "quota_exceeded");
});

/** A zip of one deflated entry; its checksum is left out, as nobody gets to compare it. */
function zip(name: string, content: Uint8Array): Uint8Array<ArrayBuffer> {
  const packed = deflateRawSync(content, { level: 9 });
  const label = new TextEncoder().encode(name);
  const local = new DataView(new ArrayBuffer(30));
  local.setUint32(0, 0x504b0304);
  local.setUint16(4, 20, true);
  local.setUint16(8, 8, true);
  local.setUint32(18, packed.length, true);
  local.setUint32(22, content.length, true);
  local.setUint16(26, label.length, true);
  return new Uint8Array(Buffer.concat([new Uint8Array(local.buffer), label, packed]));
}

Deno.test("an upload below the minimum rate is aborted, and one that is only slow is not", async () => {
  let [isLetGo, time] = [false, 0];
  const sender = (bytes: number, everyMs: number, count: number): ReadableStream<Uint8Array<ArrayBuffer>> =>
    new ReadableStream({
      pull(controller) {
        if (count-- <= 0) return controller.close();
        time += everyMs;
        controller.enqueue(new Uint8Array(bytes));
      },
      cancel() {
        isLetGo = true;
      },
    }, { highWaterMark: 0 });
  const taken = async (body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<number> => {
    let size = 0;
    const rate = { silentMs: WAIT_MS, bytesPerMs: 4 };
    for await (const chunk of enforceMinimumRate(body, rate, () => time)) size += chunk.length;
    return size;
  };
  assert.equal(await taken(sender(1000, 240, 300)), 300_000);
  await assert.rejects(taken(sender(1000, 260, 10_000)), { code: "bad_request", message: /slower than 4 kB a second/ });
  assert.ok(isLetGo);
});

Deno.test("an owner has a bounded number of uploads at the same time, of which some wait, and others have theirs", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  let started = 0;
  const rest = Promise.withResolvers<void>();
  const uploads = sendSlowly(gateway, alice, { count: 32, onStart: () => started++, rest: rest.promise });
  await until(() => started === 8, "some are read");
  const refused = await upload(gateway, alice, { name: "more.bin" }, "content");
  assertProblem(refused, 429, "rate_limited");
  assert.equal((await upload(gateway, bob, { name: "other.bin" }, "content")).status, 201);
  assert.equal(started, 8);
  rest.resolve();
  assert.ok((await allEnded(uploads)).every(({ status }) => status === 201));
  assert.equal((await upload(gateway, alice, { name: "more.bin" }, "content")).status, 201);
});

Deno.test("uploads of a tenant are bounded, and who has none is not refused for those of a few", async () => {
  await using gateway = await openGateway();
  const senders = await Promise.all(Array.from({ length: 8 }, (_, n) => gateway.as(`sender${n}`)));
  const { bob, carol } = await createCallers(gateway, "bob", "carol");
  let started = 0;
  const rest = Promise.withResolvers<void>();
  const waiting = { onStart: () => started++, rest: rest.promise };
  const uploads = senders.flatMap((sender) => sendSlowly(gateway, sender, { count: 32, ...waiting }));
  await until(() => started === 64, "some of each are read");
  uploads.push(...sendSlowly(gateway, bob, { count: 1, ...waiting }));
  await until(() => started === 65);
  assertProblem(await upload(gateway, bob, { name: "more.bin" }, "content"), 429, "rate_limited");
  assert.equal((await upload(gateway, carol, { name: "first.bin" }, "content")).status, 201);
  rest.resolve();
  assert.ok((await allEnded(uploads)).every(({ status }) => status === 201));
});

type SlowUploads = { count: number; onStart: () => void; rest: Promise<void> };

/** Uploads of two bytes, the second of which is sent when `rest` resolves. */
function sendSlowly(
  gateway: Harness,
  caller: Caller,
  { count, onStart, rest }: SlowUploads,
): ReturnType<typeof upload>[] {
  return Array.from({ length: count }, () => {
    let isStarted = false;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        if (isStarted) await rest;
        else onStart();
        controller.enqueue(new Uint8Array(1));
        if (isStarted) controller.close();
        isStarted = true;
      },
    }, { highWaterMark: 0 });
    return upload(gateway, caller, { name: "slow.bin" }, body, { "content-length": "2" });
  });
}

Deno.test("file.upload with an Idempotency-Key stores a file once, also if the response is lost", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const key = { "idempotency-key": "once" };
  const first = await upload(gateway, alice, { name: "a.txt" }, "content", key);
  const again = await upload(gateway, alice, { name: "a.txt" }, "content", key);
  assert.deepEqual(ok(again), ok(first));
  assert.deepEqual([again.status, again.headers.get("idempotency-replayed")], [201, "true"]);
  assertProblem(await upload(gateway, alice, { name: "a.txt" }, "another", key), 422, "idempotency_key_reused");
  assert.notEqual(ok(await upload(gateway, bob, { name: "a.txt" }, "content", key)).id, first.body.id);
  assert.deepEqual(ok(await alice.get(FILES)).items.map(({ id }: { id: string }) => id), [first.body.id]);
  assert.equal((await listFiles(`${gateway.folder}/files`)).length, 2);
  const used = await gateway.app.store.db.selectFrom("file_usage").select("bytes").executeTakeFirstOrThrow();
  assert.equal(Number(used.bytes), 2 * "content".length);
});
