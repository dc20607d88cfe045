// Metadata of images: what is removed and retained, and that no content makes the parsers fail.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "npm:fast-check@4.10.2";
import { chargeTo } from "@/core/caller.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { orientationOf } from "@/modules/file/image/exif.ts";
import { stripMetadata } from "@/modules/file/image/strip_metadata.ts";
import {
  concatBytes,
  exif,
  GIF,
  gifExtension,
  gifWithMetadata,
  ICC,
  JPEG,
  jpegSegment,
  jpegWithMetadata,
  PNG,
  pngChunk,
  pngWithMetadata,
  PROGRESSIVE_JPEG,
  riffChunk,
  SECRET_LOCATION,
  WEBP,
  webpWithMetadata,
} from "./file_images.ts";
import { openGateway } from "../../harness.ts";
import { replace } from "../../replace.ts";
import { download, sha256, upload } from "./file_harness.ts";
import { assertProblem, createCallers, ok } from "../fixtures.ts";

/** A camera's EXIF reduced to its orientation. */
const minimal = (orientation: number): Uint8Array =>
  concatBytes("MM", [0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0]);
const JFIF_END = 20;
const PNG_HEADER_END = 33;

/** Strips data in pieces of these sizes, over and over. */
async function strip(bytes: Uint8Array, sizes: readonly number[] = [bytes.length]): Promise<Buffer> {
  let isRead = false;
  async function* source(): AsyncGenerator<Uint8Array> {
    for (let at = 0, turn = 0; at < bytes.length; turn++) {
      const size = sizes[turn % sizes.length] ?? 1;
      yield await Promise.resolve(bytes.subarray(at, at + size));
      at += size;
    }
    isRead = true;
  }
  const pieces: Uint8Array[] = [];
  for await (const piece of stripMetadata(source())) pieces.push(piece);
  assert.ok(isRead, "the source is read to its end");
  return Buffer.concat(pieces);
}

function assertSameBytes(actual: Uint8Array, expected: Uint8Array): void {
  assert.equal(Buffer.from(actual).toString("hex"), Buffer.from(expected).toString("hex"));
}

Deno.test("stripMetadata retains the image, colors and orientation of a JPEG only", async () => {
  for (const picture of [JPEG, PROGRESSIVE_JPEG]) {
    const rest = concatBytes(ICC, picture.subarray(JFIF_END));
    assertSameBytes(await strip(jpegWithMetadata(picture, 1)), concatBytes(picture.subarray(0, JFIF_END), rest));
    const turned = jpegSegment(0xe1, "Exif\0\0", minimal(6));
    assertSameBytes(
      await strip(jpegWithMetadata(picture, 6)),
      concatBytes(picture.subarray(0, JFIF_END), turned, rest),
    );
  }
});

Deno.test("stripMetadata retains the image, colors and orientation of a PNG only", async () => {
  const profile = pngWithMetadata(1).subarray(PNG_HEADER_END, pngWithMetadata(1).indexOf(0x65, PNG_HEADER_END + 40));
  const upright = await strip(pngWithMetadata(1));
  assert.ok(upright.includes("iCCP") && profile.length > 0);
  const kept = upright.subarray(PNG_HEADER_END, upright.length - (PNG.length - PNG_HEADER_END));
  assertSameBytes(upright, concatBytes(PNG.subarray(0, PNG_HEADER_END), kept, PNG.subarray(PNG_HEADER_END)));
  assert.equal(kept.toString("latin1", 4, 8), "iCCP");
  const turned = concatBytes(
    PNG.subarray(0, PNG_HEADER_END),
    kept,
    pngChunk("eXIf", minimal(8)),
    PNG.subarray(PNG_HEADER_END),
  );
  assertSameBytes(await strip(pngWithMetadata(8)), turned);
});

Deno.test("stripMetadata retains the image, colors, orientation and length of a WebP only", async () => {
  const whole = webpWithMetadata(1);
  const out = await strip(whole);
  assert.equal(out.length, whole.length - SECRET_LOCATION.length);
  assert.equal(out.readUInt32LE(4), out.length - 8);
  assert.ok(out.includes(WEBP.subarray(12)) && out.includes(riffChunk("ICCP", "a profile of colours")));
  assert.deepEqual(["EXIF", "XMP ", "ABCD", "Exif"].filter((name) => out.includes(name)), []);
  assert.equal(out[20], 0x28);
  const turned = await strip(webpWithMetadata(3));
  const at = turned.indexOf("EXIF");
  assert.equal(turned.readUInt32LE(at + 4), exif(3).length);
  assertSameBytes(turned.subarray(at + 8, at + 8 + 26), minimal(3));
  assert.ok(turned.subarray(at + 8 + 26, at + 8 + exif(3).length).every((byte) => byte === 0));
});

Deno.test("stripMetadata retains frames and loops of a GIF, without comments and XMP", async () => {
  assertSameBytes(await strip(gifWithMetadata()), GIF);
});

Deno.test("stripMetadata leaves no metadata in any format, for any chunking of the content", async () => {
  const pictures = [
    jpegWithMetadata(JPEG, 6),
    jpegWithMetadata(PROGRESSIVE_JPEG, 1),
    pngWithMetadata(6),
    webpWithMetadata(6),
    gifWithMetadata(),
  ];
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...pictures),
      fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1 }),
      async (picture, sizes) => {
        const out = await strip(picture, sizes);
        assert.ok(!out.includes(SECRET_LOCATION));
        assertSameBytes(out, await strip(picture));
      },
    ),
    { numRuns: 150 },
  );
});

const payload = fc.uint8Array({ maxLength: 300 });
const private_ = {
  jpeg: fc.tuple(fc.constantFrom(0xe1, 0xe3, 0xe9, 0xed, 0xef, 0xfe), payload).map(([marker, bytes]) =>
    jpegSegment(marker, bytes)
  ),
  png: fc.tuple(fc.constantFrom("tEXt", "zTXt", "iTXt", "tIME", "abCd", "caBX"), payload).map(([type, bytes]) =>
    pngChunk(type, bytes)
  ),
  gif: payload.map((bytes) => gifExtension(0xfe, bytes.subarray(0, 255))).filter((bytes) => bytes[2] !== 0),
};

/** Where something may be put in between: at the marks of a JPEG before its scan, at the chunks of a PNG. */
function jpegSeams(picture: Uint8Array): number[] {
  const seams: number[] = [];
  for (let at = 2; picture[at + 1] !== 0xda; at += 2 + ((picture[at + 2] ?? 0) << 8) + (picture[at + 3] ?? 0)) {
    seams.push(at);
  }
  return [...seams, picture.length - 2];
}

function pngSeams(picture: Uint8Array): number[] {
  const seams: number[] = [];
  for (let at = 8; at < picture.length; at += 12 + Buffer.from(picture).readUInt32BE(at)) seams.push(at);
  return seams;
}

Deno.test("stripMetadata removes inserted blocks and does not change the image", async () => {
  const cases = [
    { picture: JPEG, seams: jpegSeams(JPEG), parts: private_.jpeg },
    { picture: PROGRESSIVE_JPEG, seams: jpegSeams(PROGRESSIVE_JPEG), parts: private_.jpeg },
    { picture: PNG, seams: pngSeams(PNG), parts: private_.png },
    { picture: GIF, seams: [19, 38, GIF.length - 1], parts: private_.gif },
  ];
  for (const { picture, seams, parts } of cases) {
    const inserted = fc.array(fc.tuple(fc.constantFrom(...seams), parts), { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(inserted, payload, async (inserts, trailer) => {
        let whole: Uint8Array = concatBytes(picture, trailer);
        for (const [at, bytes] of inserts.toSorted(([left], [right]) => right - left)) {
          whole = concatBytes(whole.subarray(0, at), bytes, whole.subarray(at));
        }
        assertSameBytes(await strip(whole), picture);
      }),
      { numRuns: 60 },
    );
  }
});

Deno.test("stripMetadata never throws, loops or grows for any content, and is idempotent", async () => {
  const pictures = [jpegWithMetadata(JPEG, 6), pngWithMetadata(6), webpWithMetadata(6), gifWithMetadata()];
  const starts = [[0xff, 0xd8, 0xff], PNG.subarray(0, 8), WEBP.subarray(0, 12), GIF.subarray(0, 13)];
  const noise = fc.tuple(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 600 }))
    .map(([start, bytes]) => concatBytes(start, bytes));
  const broken = fc.tuple(
    fc.constantFrom(...pictures),
    fc.array(fc.tuple(fc.nat(2000), fc.nat(255)), { maxLength: 8 }),
    fc.nat(2000),
  ).map(([picture, changes, length]) => {
    const bytes = picture.slice(0, Math.max(12, length));
    for (const [at, byte] of changes) if (at >= 12) bytes[at % bytes.length] = byte;
    return bytes;
  });
  await fc.assert(
    fc.asyncProperty(fc.oneof(noise, broken, fc.uint8Array()), fc.integer({ min: 1, max: 99 }), async (bytes, size) => {
      const out = await strip(bytes, [size]);
      assert.ok(out.length <= bytes.length);
      assertSameBytes(await strip(out), out);
    }),
    { numRuns: 600 },
  );
});

Deno.test("stripMetadata retains fill bytes of a scan, and drops an orientation in too short a block", async () => {
  const filled = concatBytes(JPEG.subarray(0, -2), [0xff, 0xff, 0xd9]);
  for (const sizes of [[1], [filled.length]]) assertSameBytes(await strip(filled, sizes), filled);
  const short = jpegSegment(0xe1, "Exif\0\0", exif(6).subarray(0, 4), [
    8,
    0,
    0,
    0,
    1,
    0,
    0x12,
    1,
    3,
    0,
    1,
    0,
    0,
    0,
    6,
    0,
    0,
    0,
  ]);
  assert.equal(orientationOf(short.subarray(4)), 6);
  assertSameBytes(await strip(concatBytes(JPEG.subarray(0, 2), short, JPEG.subarray(2))), JPEG);
});

Deno.test("stripMetadata reads very many segments and wrong lengths once, to the end", async () => {
  const many = concatBytes(
    [0xff, 0xd8],
    ...Array.from({ length: 3000 }, () => jpegSegment(0xfe, "x")),
    JPEG.subarray(2),
  );
  assertSameBytes(await strip(many, [1000]), JPEG);
  // A million are no picture's: what is left after some of them stays as it came, for the price of being read.
  const absurd = concatBytes([0xff, 0xd8], Buffer.alloc(4_000_000, jpegSegment(0xfe)), JPEG.subarray(2));
  const kept = await strip(absurd, [16_384]);
  assert.ok(kept.length < absurd.length);
  assertSameBytes(kept.subarray(2), absurd.subarray(absurd.length - kept.length + 2));
  const huge = concatBytes(PNG.subarray(0, PNG_HEADER_END), [0x7f, 0xff, 0xff, 0xff], "tEXt", SECRET_LOCATION);
  assertSameBytes(await strip(huge), PNG.subarray(0, PNG_HEADER_END));
  const impossible = concatBytes(PNG.subarray(0, PNG_HEADER_END), [0xff, 0xff, 0xff, 0xff], "tEXt", SECRET_LOCATION);
  assertSameBytes(await strip(impossible), impossible);
  const short = concatBytes([0xff, 0xd8, 0xff, 0xfe, 0, 1], SECRET_LOCATION);
  assertSameBytes(await strip(short), short);
  assertSameBytes(
    await strip(concatBytes("RIFF", [0, 0, 0, 0], WEBP.subarray(8))),
    concatBytes("RIFF", [0, 0, 0, 0], WEBP.subarray(8)),
  );
});

Deno.test("stripMetadata yields to others in content of tiny segments, for a bounded number of charged steps", async () => {
  const absurd = concatBytes([0xff, 0xd8], Buffer.alloc(4_000_000, jpegSegment(0xe1)), JPEG.subarray(2));
  const account = new CpuBudget({ percent: undefined }).accountOfKey("default/mallory");
  let [timeMs, ticks, isOver] = [0, 0, false];
  // A slice of time passes with every step.
  using _clock = replace(performance, "now", () => timeMs += 4);
  const stripping = chargeTo(account, () => strip(absurd, [65_536])).finally(() => isOver = true);
  for (; !isOver; ticks++) await new Promise((resolve) => setImmediate(resolve));
  assert.ok((await stripping).length < absurd.length);
  const steps = account.consumedMs / 4;
  assert.ok(steps > 1000 && steps < 15_000, `${steps} steps`);
  assert.ok(ticks >= steps, `${ticks} ticks for ${steps} steps`);
});

Deno.test("orientationOf reads both byte orders, and finds none in other blocks", async () => {
  for (const order of ["II", "MM"] as const) {
    for (const value of [1, 2, 3, 4, 5, 6, 7, 8]) assert.equal(orientationOf(exif(value, order)), value);
    for (const value of [0, 9, 700]) assert.equal(orientationOf(exif(value, order)), 1);
  }
  await fc.assert(
    fc.asyncProperty(fc.constantFrom("II", "MM", ""), fc.uint8Array({ maxLength: 200 }), async (order, bytes) => {
      const value = await Promise.resolve(orientationOf(concatBytes(order, bytes)));
      assert.ok(value >= 1 && value <= 8);
    }),
  );
});

Deno.test("file.upload stores an image without metadata, with the size and hash of the stored content", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const sent = jpegWithMetadata(JPEG, 6);
  const stored = await strip(sent);
  const digest = `sha-256=:${sha256(sent, "base64")}:`;
  const answer = await upload(gateway, alice, { name: "me.jpg" }, sent, { "Content-Digest": digest });
  const file = ok(answer);
  assert.deepEqual([file.size, file.sha256], [stored.length, sha256(stored)]);
  assert.deepEqual([file.contentType, file.width, file.height], ["image/jpeg", 24, 16]);
  assertSameBytes((await download(gateway, alice, file.id)).bytes, stored);
  const wrong = { "Content-Digest": `sha-256=:${sha256(stored, "base64")}:` };
  assertProblem(await upload(gateway, alice, { name: "me.jpg" }, sent, wrong), 422, "validation_failed");
  // Its header comes late: after more than what is read ahead.
  const filler = Array.from({ length: 6 }, () => jpegSegment(0xe1, new Uint8Array(60_000)));
  const late = concatBytes(JPEG.subarray(0, JFIF_END), ...filler, JPEG.subarray(JFIF_END));
  const found = ok(await upload(gateway, alice, { name: "late.jpg" }, late));
  assert.deepEqual([found.width, found.height, found.size], [24, 16, JPEG.length]);
});
