// Small pictures: what they look like, how they are served, who gets them, and what hostile ones cost.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { deflateSync } from "node:zlib";
import { initPhoton, PhotonImage } from "@cf-wasm/photon/others";
import { Fault } from "@/core/fault.ts";
import { Thumbnails } from "@/modules/file/picture/thumbnails.ts";
import { turned } from "@/modules/file/picture/turn.ts";
import { withMemoryCap } from "@/modules/file/picture/wasm.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Caller, Harness } from "../harness.ts";
import { bytesOf, chunk, GIF, JPEG, privateJpeg, privatePng, privateWebp, PROGRESSIVE_JPEG } from "./file_pictures.ts";
import { download, FILES, filesIn, openFileGateway, sha256, upload } from "./file_rig.ts";
import { ok, people, refused, roomOf, say } from "./team.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type Small = { status: number; headers: Headers; bytes: Uint8Array };

const u32 = (...values: number[]): Bytes =>
  bytesOf(...values.map((value) => [value >>> 24, value >> 16, value >> 8, value]));

/** A PNG of one colour, with what its header says; `rows` as many as there are. */
function png(width: number, height: number, rgba: number[], rows = height): Bytes {
  const row = bytesOf([0], ...Array.from({ length: width }, () => rgba));
  const data = deflateSync(Buffer.concat(Array.from({ length: rows }, () => row)));
  return bytesOf(
    [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a],
    chunk("IHDR", u32(width, height), [8, 6, 0, 0, 0]),
    chunk("IDAT", data),
    chunk("IEND"),
  );
}

/** A stored picture, as far as thumbnails look at it. */
const PICTURE = {
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

async function uploaded(gateway: Harness, who: Caller, bytes: Bytes, name = "picture"): Promise<string> {
  return ok(await upload(gateway, who, { name }, bytes)).id;
}

function thumbnail(
  gateway: Harness,
  who: Caller,
  id: string,
  box: number,
  headers = {},
  method = "GET",
): Promise<Small> {
  return download(gateway, who, id, headers, method, `?thumbnail=${box}`);
}

let photon: Promise<unknown> | undefined;

/** Decoded: the sides, and the colour at a place. */
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

/** Nearly this colour: JPEG is not exact. */
function near(actual: number[], expected: number[]): void {
  const isNear = expected.every((value, at) => Math.abs(value - (actual[at] ?? NaN)) < 60);
  assert.ok(isNear, `${actual} is not near ${expected}`);
}

const [RED, GREEN, BLUE] = [[220, 0, 0, 255], [0, 200, 0, 255], [0, 0, 220, 255]];

Deno.test("a thumbnail fits into its box, is never larger than the picture, and keeps what shines through", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const cases: [Bytes, number, string, number, number][] = [
    [png(300, 150, BLUE), 64, "image/jpeg", 64, 32],
    [png(300, 150, BLUE), 160, "image/jpeg", 160, 80],
    [png(300, 150, BLUE), 640, "image/jpeg", 300, 150],
    [png(90, 900, [0, 0, 220, 100]), 320, "image/png", 32, 320],
    [png(1, 2000, BLUE), 64, "image/jpeg", 1, 64],
    [JPEG, 320, "image/jpeg", 24, 16],
    [PROGRESSIVE_JPEG, 320, "image/jpeg", 24, 16],
    [privateWebp(1), 320, "image/jpeg", 24, 16],
    [GIF, 64, "image/jpeg", 1, 1],
  ];
  for (const [bytes, box, type, width, height] of cases) {
    const small = await thumbnail(gateway, alice, await uploaded(gateway, alice, bytes), box);
    assert.deepEqual([small.status, small.headers.get("content-type")], [200, type]);
    const picture = await decoded(small.bytes);
    assert.deepEqual([picture.width, picture.height], [width, height]);
    if (type === "image/png") assert.equal(picture.at(0, 0)[3], 100);
  }
});

Deno.test("a thumbnail is the right way up", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  for (const turnedPicture of [privateJpeg(JPEG, 6), privatePng(6), privateWebp(6)]) {
    const small = await thumbnail(gateway, alice, await uploaded(gateway, alice, turnedPicture), 64);
    const picture = await decoded(small.bytes);
    assert.deepEqual([picture.width, picture.height], [16, 24]);
    near(picture.at(13, 2), GREEN);
    near(picture.at(2, 2), RED);
    near(picture.at(8, 21), BLUE);
  }
});

Deno.test("each orientation of EXIF is turned as it says", () => {
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
    const { pixels: out, width } = turned({ pixels: Uint8Array.from(four), width: 2, height: 3 }, at + 1);
    assert.equal(String.fromCharCode(...out.filter((_, place) => place % 4 === 0)), letters, String(at + 1));
    assert.equal(width, at < 4 ? 2 : 3);
  }
});

Deno.test("file.content serves a thumbnail like any content: conditions, ranges, HEAD, safe headers", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const id = await uploaded(gateway, alice, privateWebp(1), "Größe 1.webp");
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

Deno.test("file.content refuses other sizes, other parameters and what is no picture", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { alice } = await people(gateway, "alice");
  const [picture, text] = [await uploaded(gateway, alice, JPEG), await uploaded(gateway, alice, bytesOf("just text"))];
  for (const box of ["100", "", "0", "64.0", "-64", "1e2", "big"]) {
    refused(await alice.get(`${FILES}/${picture}/content?thumbnail=${box}`), 422, "validation_failed");
  }
  refused(await alice.get(`${FILES}/${picture}/content?thumbnail=64&thumbnail=64`), 400, "unknown_parameter");
  refused(await alice.get(`${FILES}/${picture}/content?size=64`), 400, "unknown_parameter");
  const none = await alice.get(`${FILES}/${text}/content?thumbnail=64`);
  refused(none, 422, "validation_failed");
  assert.deepEqual(none.body.errors.map((error: { code: string }) => error.code), ["no_thumbnail"]);
  assert.equal((await filesIn(folder)).length, 2);
});

Deno.test("what cannot be decoded is tried once, and costs little", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { alice } = await people(gateway, "alice");
  const scan = PROGRESSIVE_JPEG.subarray(PROGRESSIVE_JPEG.lastIndexOf(0xda) - 1, PROGRESSIVE_JPEG.length - 2);
  const hostile = [
    JPEG.slice(0, -30),
    bytesOf(PROGRESSIVE_JPEG.subarray(0, -2), ...Array.from({ length: 500 }, () => scan), [0xff, 0xd9]),
    png(3000, 3000, BLUE, 1),
  ];
  for (const bytes of hostile) {
    const id = await uploaded(gateway, alice, bytes);
    const [first, again] = [await alice.get(`${FILES}/${id}/content?thumbnail=64`), performance.now()];
    refused(first, 422, "validation_failed");
    refused(await alice.get(`${FILES}/${id}/content?thumbnail=64`), 422, "validation_failed");
    assert.ok(performance.now() - again < 5000);
  }
  // What its header says, or does not say, is enough.
  const plain = [png(5001, 5000, BLUE, 0), JPEG.slice(0, 60)];
  for (const bytes of plain) {
    const id = await uploaded(gateway, alice, bytes);
    refused(await alice.get(`${FILES}/${id}/content?thumbnail=64`), 422, "validation_failed");
  }
  assert.equal((await filesIn(folder)).length, 2 * hostile.length + plain.length);
});

Deno.test("a thumbnail is read by those who read the file, and goes with it", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { alice, bob, eve } = await people(gateway, "alice", "bob", "eve");
  const roomId = await roomOf(alice, ["bob"]);
  const id = await uploaded(gateway, alice, JPEG);
  const statusFor = async (who: Caller): Promise<number> => (await thumbnail(gateway, who, id, 64)).status;
  assert.deepEqual([await statusFor(alice), await statusFor(bob), await statusFor(eve)], [200, 404, 404]);
  await say(alice, roomId, "look", { fileIds: [id] });
  assert.deepEqual([await statusFor(bob), await statusFor(eve)], [200, 404]);
  assert.equal((await thumbnail(gateway, bob, id, 160)).status, 200);
  assert.equal((await filesIn(folder)).length, 3);
  await alice.delete(`/v1/rooms/${roomId}/members/bob`);
  assert.equal(await statusFor(bob), 404);
  assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
  assert.equal(await statusFor(alice), 410);
  await gateway.runJobs();
  assert.deepEqual(await filesIn(folder), []);
});

Deno.test("a thumbnail that is made while its file goes is not left behind, and one asked for often is made once", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { alice } = await people(gateway, "alice");
  const often = await uploaded(gateway, alice, JPEG);
  const answers = await Promise.all(Array.from({ length: 20 }, () => thumbnail(gateway, alice, often, 64)));
  assert.deepEqual([...new Set(answers.map(({ status, bytes }) => `${status} ${sha256(bytes)}`))].length, 1);
  assert.equal((await filesIn(folder)).length, 2);
  assert.equal((await alice.delete(`${FILES}/${often}`)).status, 204);
  const id = await uploaded(gateway, alice, png(800, 800, RED));
  const making = thumbnail(gateway, alice, id, 64);
  assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
  await gateway.runJobs();
  assert.ok([200, 404, 410].includes((await making).status));
  assert.deepEqual(await filesIn(folder), []);
});

Deno.test("a decoder that takes too long is stopped, and the next picture is made", async () => {
  const contents = new Map<string, Bytes>([["file_slow", png(5000, 5000, BLUE)], ["file_fine", JPEG]]);
  const blobs: Blobs = {
    get: (key) => Promise.resolve(contents.has(key) ? new Response(contents.get(key)).body ?? undefined : undefined),
    put: async (key, content) => void contents.set(key, await new Response(ReadableStream.from(content)).bytes()),
    delete: () => Promise.resolve(),
  };
  const thumbnails = new Thumbnails(blobs, 150);
  const read = (id: string, side: number): Promise<Bytes> =>
    thumbnails.read({
      file: { ...PICTURE, id, width: side, height: side },
      box: 64,
      isThere: () => Promise.resolve(true),
    });
  const slow = assert.rejects(
    read("file_slow", 5000),
    (error) => error instanceof Fault && /cannot be decoded/.test(error.message),
  );
  assert.equal((await decoded(await read("file_fine", 24))).width, 24);
  await slow;
  assert.equal(contents.get("file_slow_64")?.length, 0);
});

Deno.test("beyond what may wait, callers are told to come again", async () => {
  const stopped = Promise.withResolvers<undefined>();
  const blobs: Blobs = {
    get: (key) => key.endsWith("_64") ? Promise.resolve(undefined) : stopped.promise,
    put: () => Promise.resolve(),
    delete: () => Promise.resolve(),
  };
  const thumbnails = new Thumbnails(blobs);
  const read = (id: string): Promise<string> => {
    const file = { ...PICTURE, id };
    return thumbnails.read({ file, box: 64, isThere: () => Promise.resolve(true) }).then(() => "made", (error) => {
      assert.ok(error instanceof Fault);
      return `${error.code} ${error.retryAfterMs ?? ""}`;
    });
  };
  const waiting = Array.from({ length: 20 }, (_, at) => read(`file_${at}`));
  assert.equal(await read("file_one_more"), "unavailable 2000");
  stopped.resolve(undefined);
  assert.deepEqual([...new Set(await Promise.all(waiting))], ["gone "]);
});

Deno.test("a module's memory grows no further than it may", async () => {
  // (module (memory (export "m") 1))
  const code = bytesOf([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 5, 3, 1, 0, 1, 7, 5, 1, 1, 0x6d, 2, 0]);
  const { instance } = await WebAssembly.instantiate(withMemoryCap(code, 200 * 65_536));
  const memory = instance.exports["m"];
  assert.ok(memory instanceof WebAssembly.Memory);
  assert.equal(memory.grow(199), 1);
  assert.throws(() => memory.grow(1), RangeError);
  assert.throws(() => withMemoryCap(code.subarray(0, 8), 65_536), TypeError);
});
