// Thumbnails: content, responses, access, and the cost of hostile images.
import assert from "node:assert/strict";
import { initPhoton, PhotonImage } from "@cf-wasm/photon/others";
import { Fault } from "@/core/fault.ts";
import { Thumbnails } from "@/modules/file/image/thumbnails.ts";
import { applyOrientation } from "@/modules/file/image/render.ts";
import { withMemoryCap } from "@/modules/file/image/wasm.ts";
import type { Blobs } from "@/ports/blob.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { eventually, until, WAIT_MS } from "../../wait.ts";
import {
  concatBytes,
  GIF,
  JPEG,
  jpegWithMetadata,
  png,
  pngWithMetadata,
  PROGRESSIVE_JPEG,
  webpWithMetadata,
} from "./file_images.ts";
import { download, FILES, listFiles, sha256, untilCreated, upload } from "./file_harness.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type ThumbnailResponse = { status: number; headers: Headers; bytes: Uint8Array };

/** The properties of a stored image that thumbnails need. */
const IMAGE = {
  name: "x",
  contentType: "image/jpeg",
  size: 9,
  sha256: "",
  width: 9,
  height: 9,
  state: "linked",
  uploaderId: "alice",
  roomId: null,
  createdAt: "2026-03-01T12:00:00.000Z",
} as const;

async function uploadImage(gateway: Harness, who: Caller, bytes: Bytes, name = "picture"): Promise<string> {
  return ok(await upload(gateway, who, { name }, bytes)).id;
}

function thumbnail(
  gateway: Harness,
  who: Caller,
  id: string,
  box: number,
  headers = {},
  method = "GET",
): Promise<ThumbnailResponse> {
  return untilCreated(() => download(gateway, who, id, headers, method, `?thumbnail=${box}`));
}

let photon: Promise<unknown> | undefined;

/** A decoded image: its dimensions, and the color at a position. */
async function decoded(
  bytes: Uint8Array,
): Promise<{ width: number; height: number; at(x: number, y: number): number[] }> {
  await (photon ??= initPhoton({
    module_or_path: Deno.readFile(new URL(import.meta.resolve("@cf-wasm/photon/photon.wasm"))),
  }));
  const image = PhotonImage.new_from_byteslice(bytes);
  const [width, height, pixels] = [image.get_width(), image.get_height(), image.get_raw_pixels()];
  return { width, height, at: (x, y) => [...pixels.subarray((y * width + x) * 4, (y * width + x) * 4 + 4)] };
}

/** Approximately this color, because JPEG is lossy. */
function assertNear(actual: number[], expected: number[]): void {
  const isNear = expected.every((value, at) => Math.abs(value - (actual[at] ?? NaN)) < 60);
  assert.ok(isNear, `${actual} is not near ${expected}`);
}

const [RED, GREEN, BLUE] = [[220, 0, 0, 255], [0, 200, 0, 255], [0, 0, 220, 255]];

Deno.test("a thumbnail has the maximum side length, is never larger than the image, and preserves transparency", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const cases: [Bytes, number, string, number, number][] = [
    [png(300, 150, BLUE), 64, "image/jpeg", 64, 32],
    [png(300, 150, BLUE), 160, "image/jpeg", 160, 80],
    [png(300, 150, BLUE), 640, "image/jpeg", 300, 150],
    [png(90, 900, [0, 0, 220, 100]), 320, "image/png", 32, 320],
    [png(1, 2000, BLUE), 64, "image/jpeg", 1, 64],
    [JPEG, 320, "image/jpeg", 24, 16],
    [PROGRESSIVE_JPEG, 320, "image/jpeg", 24, 16],
    [webpWithMetadata(1), 320, "image/jpeg", 24, 16],
    [GIF, 64, "image/jpeg", 1, 1],
  ];
  for (const [bytes, box, type, width, height] of cases) {
    const small = await thumbnail(gateway, alice, await uploadImage(gateway, alice, bytes), box);
    assert.deepEqual([small.status, small.headers.get("content-type")], [200, type]);
    const picture = await decoded(small.bytes);
    assert.deepEqual([picture.width, picture.height], [width, height]);
    if (type === "image/png") assert.equal(picture.at(0, 0)[3], 100);
  }
});

Deno.test("a thumbnail is upright", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  for (const turnedPicture of [jpegWithMetadata(JPEG, 6), pngWithMetadata(6), webpWithMetadata(6)]) {
    const small = await thumbnail(gateway, alice, await uploadImage(gateway, alice, turnedPicture), 64);
    const picture = await decoded(small.bytes);
    assert.deepEqual([picture.width, picture.height], [16, 24]);
    assertNear(picture.at(13, 2), GREEN);
    assertNear(picture.at(2, 2), RED);
    assertNear(picture.at(8, 21), BLUE);
  }
});

Deno.test("applyOrientation applies every EXIF orientation", () => {
  // a b
  // c d
  // e f
  const pixels = Uint8Array.from("abcdef", (letter) => letter.charCodeAt(0));
  const four = Uint8Array.from(pixels, (byte) => byte).reduce<number[]>(
    (all, byte) => [...all, byte, byte, byte, byte],
    [],
  );
  const expected = ["abcdef", "badcfe", "fedcba", "efcdab", "acebdf", "ecafdb", "fdbeca", "bdface"];
  for (const [at, letters] of expected.entries()) {
    const { pixels: out, width } = applyOrientation({ pixels: Uint8Array.from(four), width: 2, height: 3 }, at + 1);
    assert.equal(String.fromCharCode(...out.filter((_, place) => place % 4 === 0)), letters, String(at + 1));
    assert.equal(width, at < 4 ? 2 : 3);
  }
});

Deno.test("file.content serves a thumbnail like any content: conditions, ranges, HEAD, safe headers", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const id = await uploadImage(gateway, alice, webpWithMetadata(1), "Größe 1.webp");
  const { status, headers, bytes } = await thumbnail(gateway, alice, id, 64);
  const etag = headers.get("etag") ?? "";
  assert.deepEqual([status, etag, headers.get("content-length")], [200, `"${sha256(bytes)}"`, String(bytes.length)]);
  assert.equal(headers.get("repr-digest"), `sha-256=:${sha256(bytes, "base64")}:`);
  assert.match(headers.get("content-disposition") ?? "", /^inline; filename="Gr__e 1.jpg"/);
  assert.equal(headers.get("x-content-type-options"), "nosniff");
  assert.equal(headers.get("cache-control"), "private, no-cache");
  assert.equal((await thumbnail(gateway, alice, id, 64, { "If-None-Match": etag })).status, 304);
  const part = await thumbnail(gateway, alice, id, 64, { Range: "bytes=2-5" });
  assert.deepEqual([part.status, part.bytes], [206, bytes.subarray(2, 6)]);
  const head = await thumbnail(gateway, alice, id, 64, {}, "HEAD");
  assert.deepEqual([head.status, head.bytes.length, head.headers.get("etag")], [200, 0, etag]);
});

Deno.test("file.content refuses other thumbnail sizes, unknown parameters and files that are not images", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const [picture, text] = [
    await uploadImage(gateway, alice, JPEG),
    await uploadImage(gateway, alice, concatBytes("just text")),
  ];
  for (const box of ["100", "", "0", "64.0", "-64", "1e2", "big"]) {
    assertProblem(await alice.get(`${FILES}/${picture}/content?thumbnail=${box}`), 422, "validation_failed");
  }
  assertProblem(await alice.get(`${FILES}/${picture}/content?thumbnail=64&thumbnail=64`), 400, "unknown_parameter");
  assertProblem(await alice.get(`${FILES}/${picture}/content?size=64`), 400, "unknown_parameter");
  const none = await alice.get(`${FILES}/${text}/content?thumbnail=64`);
  assertProblem(none, 422, "validation_failed");
  assert.deepEqual(none.body.errors.map((error: { code: string }) => error.code), ["no_thumbnail"]);
  assert.equal((await listFiles(gateway.folder)).length, 2);
});

Deno.test("an undecodable image is tried once, at little cost", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const scan = PROGRESSIVE_JPEG.subarray(PROGRESSIVE_JPEG.lastIndexOf(0xda) - 1, PROGRESSIVE_JPEG.length - 2);
  const hostile = [
    JPEG.slice(0, -30),
    concatBytes(PROGRESSIVE_JPEG.subarray(0, -2), ...Array.from({ length: 500 }, () => scan), [0xff, 0xd9]),
    png(3000, 3000, BLUE, 1),
  ];
  for (const bytes of hostile) {
    const id = await uploadImage(gateway, alice, bytes);
    const ask = () => alice.get(`${FILES}/${id}/content?thumbnail=64`);
    assertProblem(await untilCreated(ask), 422, "validation_failed");
    const tried = await writtenAt(gateway.folder);
    assertProblem(await ask(), 422, "validation_failed");
    assert.deepEqual(await writtenAt(gateway.folder), tried, "what came of it is not written again");
  }
  // Its header is enough to refuse it.
  const plain = [png(5001, 5000, BLUE, 0), JPEG.slice(0, 60)];
  for (const bytes of plain) {
    const id = await uploadImage(gateway, alice, bytes);
    assertProblem(await alice.get(`${FILES}/${id}/content?thumbnail=64`), 422, "validation_failed");
  }
  assert.equal((await listFiles(gateway.folder)).length, 2 * hostile.length + plain.length);
});

Deno.test("a thumbnail has the access of its file and is deleted with it", async () => {
  await using gateway = await openGateway();
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"]);
  const id = await uploadImage(gateway, alice, JPEG);
  const statusFor = async (who: Caller): Promise<number> => (await thumbnail(gateway, who, id, 64)).status;
  assert.deepEqual([await statusFor(alice), await statusFor(bob), await statusFor(eve)], [200, 404, 404]);
  await sendMessage(alice, roomId, "look", { fileIds: [id] });
  assert.deepEqual([await statusFor(bob), await statusFor(eve)], [200, 404]);
  assert.equal((await thumbnail(gateway, bob, id, 160)).status, 200);
  assert.equal((await listFiles(gateway.folder)).length, 3);
  await alice.delete(`/v1/rooms/${roomId}/members/bob`);
  assert.equal(await statusFor(bob), 404);
  assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
  assert.equal(await statusFor(alice), 410);
  await gateway.runJobs();
  assert.deepEqual(await listFiles(gateway.folder), []);
});

Deno.test("a thumbnail created during the deletion of its file is deleted, and concurrent requests create one", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const often = await uploadImage(gateway, alice, JPEG);
  const answers = await Promise.all(Array.from({ length: 20 }, () => thumbnail(gateway, alice, often, 64)));
  assert.deepEqual([...new Set(answers.map(({ status, bytes }) => `${status} ${sha256(bytes)}`))].length, 1);
  assert.equal((await listFiles(gateway.folder)).length, 2);
  assert.equal((await alice.delete(`${FILES}/${often}`)).status, 204);
  const id = await uploadImage(gateway, alice, png(800, 800, RED));
  const making = thumbnail(gateway, alice, id, 64);
  assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
  await gateway.runJobs();
  assert.ok([200, 404, 410].includes((await making).status));
  // What a request has stopped waiting for is still created, and deleted then.
  await eventually(async () => assert.deepEqual(await listFiles(gateway.folder), []));
});

Deno.test("a decoder that takes too long is terminated, and the next thumbnail is created", async () => {
  const contents = new Map<string, Bytes>([["file_slow", png(5000, 5000, BLUE)], ["file_fine", JPEG]]);
  const blobs: Blobs = {
    get: (key) => Promise.resolve(contents.has(key) ? new Response(contents.get(key)).body ?? undefined : undefined),
    put: async (key, content) => void contents.set(key, await new Response(ReadableStream.from(content)).bytes()),
    delete: () => Promise.resolve(),
  };
  const isUndecodable = (error: unknown): boolean => error instanceof Fault && /cannot be decoded/.test(error.message);
  const read = async (thumbnails: Thumbnails, id: string, side: number): Promise<Bytes> => {
    const file = { ...IMAGE, id, width: side, height: side };
    return await thumbnails.read("default/alice", { file, maxSide: 64, fileExists: () => Promise.resolve(true) });
  };
  // On a slow machine the small image may take too long as well, but never as long as the large one.
  let fine: Bytes | undefined;
  for (let renderMs = 150; fine === undefined; renderMs *= 2) {
    for (const key of ["file_slow_64", "file_fine_64"]) contents.delete(key);
    const thumbnails = new Thumbnails(blobs, { renderMs, waitMs: WAIT_MS });
    const slow = assert.rejects(read(thumbnails, "file_slow", 5000), isUndecodable);
    fine = await read(thumbnails, "file_fine", 24).catch((error) => {
      if (!isUndecodable(error)) throw error;
      return undefined;
    });
    await slow;
  }
  assert.equal((await decoded(fine)).width, 24);
  assert.equal(contents.get("file_slow_64")?.length, 0);
});

/** Thumbnails of images whose contents cannot be read before `open`, and are then deleted; what was read, in order. */
function closedThumbnails(): {
  read: (owner: string, id: string) => Promise<string>;
  opened: string[];
  open: () => void;
} {
  const stopped = Promise.withResolvers<undefined>();
  const opened: string[] = [];
  const blobs: Blobs = {
    get: (key) => {
      if (key.endsWith("_64")) return Promise.resolve(undefined);
      opened.push(key);
      return stopped.promise;
    },
    put: () => Promise.resolve(),
    delete: () => Promise.resolve(),
  };
  const thumbnails = new Thumbnails(blobs, { waitMs: WAIT_MS });
  const read = (owner: string, id: string): Promise<string> => {
    const file = { ...IMAGE, id };
    return thumbnails.read(owner, { file, maxSide: 64, fileExists: () => Promise.resolve(true) }).then(
      () => "made",
      (error) => {
        assert.ok(error instanceof Fault);
        return `${error.code} ${error.retryAfterMs ?? ""}`;
      },
    );
  };
  return { read, opened, open: () => stopped.resolve(undefined) };
}

Deno.test("requests beyond the queue limit fail with unavailable and a retry time, those beyond its owner's part before", async () => {
  const { read, open } = closedThumbnails();
  const waiting = Array.from({ length: 20 }, (_, at) => read("default/mallory", `file_${at}`));
  assert.equal(await read("default/mallory", "file_one_more"), "rate_limited 2000");
  for (const owner of ["default/alice", "default/bob", "default/carol", "other/mallory"]) {
    waiting.push(...Array.from({ length: 20 }, (_, at) => read(owner, `file_${owner}_${at}`)));
  }
  // Who has none in the queue is not refused for theirs, but for a second one.
  waiting.push(read("default/eve", "file_one_more"));
  assert.equal(await read("default/eve", "file_and_another"), "unavailable 2000");
  open();
  assert.deepEqual([...new Set(await Promise.all(waiting))], ["gone "]);
});

Deno.test("a thumbnail does not wait for those that another asked for, not even for the same one", async () => {
  const { read, opened, open } = closedThumbnails();
  const waiting = Array.from({ length: 20 }, (_, at) => read("default/mallory", `file_${at}`));
  waiting.push(read("default/alice", "file_19"), read("default/bob", "file_new"), read("default/alice", "file_own"));
  await until(() => opened.length > 0);
  open();
  assert.deepEqual([...new Set(await Promise.all(waiting))], ["gone "]);
  assert.deepEqual(opened.slice(0, 4), ["file_0", "file_19", "file_new", "file_1"]);
  assert.deepEqual([opened.length, opened.indexOf("file_own")], [22, 4], "each once");
});

Deno.test("withMemoryCap limits the memory of a module", async () => {
  // (module (memory (export "m") 1))
  const code = concatBytes([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 5, 3, 1, 0, 1, 7, 5, 1, 1, 0x6d, 2, 0]);
  const { instance } = await WebAssembly.instantiate(withMemoryCap(code, 200 * 65_536));
  const memory = instance.exports["m"];
  assert.ok(memory instanceof WebAssembly.Memory);
  assert.equal(memory.grow(199), 1);
  assert.throws(() => memory.grow(1), RangeError);
  assert.throws(() => withMemoryCap(code.subarray(0, 8), 65_536), TypeError);
});

/** Modification times of the files in a directory. */
async function writtenAt(folder: string): Promise<Map<string, number | undefined>> {
  const files = await listFiles(folder);
  return new Map(files.map((name) => [name, Deno.statSync(name).mtime?.getTime()]));
}
