// Metadata of pictures: what goes, what stays, and that no content can make the walkers fail.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "npm:fast-check@4.10.2";
import { orientationOf } from "@/modules/file/picture/exif.ts";
import { stripped } from "@/modules/file/picture/strip.ts";
import {
  bytesOf,
  chunk,
  exif,
  GIF,
  gifExtension,
  ICC,
  JPEG,
  PNG,
  privateGif,
  privateJpeg,
  privatePng,
  privateWebp,
  PROGRESSIVE_JPEG,
  riffChunk,
  SECRET_PLACE,
  segment,
  WEBP,
} from "./file_pictures.ts";
import { download, openFileGateway, sha256, upload } from "./file_rig.ts";
import { ok, people, refused } from "./team.ts";

/** A camera's EXIF reduced to its orientation. */
const minimal = (orientation: number): Uint8Array =>
  bytesOf("MM", [0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0]);
const JFIF_END = 20;
const PNG_HEADER_END = 33;

/** Strips what comes in pieces of these sizes, over and over. */
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
  for await (const piece of stripped(source())) pieces.push(piece);
  assert.ok(isRead, "the source is read to its end");
  return Buffer.concat(pieces);
}

function same(actual: Uint8Array, expected: Uint8Array): void {
  assert.equal(Buffer.from(actual).toString("hex"), Buffer.from(expected).toString("hex"));
}

Deno.test("a JPEG keeps its picture, colours and orientation, and nothing else", async () => {
  for (const picture of [JPEG, PROGRESSIVE_JPEG]) {
    const rest = bytesOf(ICC, picture.subarray(JFIF_END));
    same(await strip(privateJpeg(picture, 1)), bytesOf(picture.subarray(0, JFIF_END), rest));
    const turned = segment(0xe1, "Exif\0\0", minimal(6));
    same(await strip(privateJpeg(picture, 6)), bytesOf(picture.subarray(0, JFIF_END), turned, rest));
  }
});

Deno.test("a PNG keeps its picture, colours and orientation, and nothing else", async () => {
  const profile = privatePng(1).subarray(PNG_HEADER_END, privatePng(1).indexOf(0x65, PNG_HEADER_END + 40));
  const upright = await strip(privatePng(1));
  assert.ok(upright.includes("iCCP") && profile.length > 0);
  const kept = upright.subarray(PNG_HEADER_END, upright.length - (PNG.length - PNG_HEADER_END));
  same(upright, bytesOf(PNG.subarray(0, PNG_HEADER_END), kept, PNG.subarray(PNG_HEADER_END)));
  assert.equal(kept.toString("latin1", 4, 8), "iCCP");
  const turned = bytesOf(
    PNG.subarray(0, PNG_HEADER_END),
    kept,
    chunk("eXIf", minimal(8)),
    PNG.subarray(PNG_HEADER_END),
  );
  same(await strip(privatePng(8)), turned);
});

Deno.test("a WebP keeps its picture, colours, orientation and length, and nothing else", async () => {
  const whole = privateWebp(1);
  const out = await strip(whole);
  assert.equal(out.length, whole.length - SECRET_PLACE.length);
  assert.equal(out.readUInt32LE(4), out.length - 8);
  assert.ok(out.includes(WEBP.subarray(12)) && out.includes(riffChunk("ICCP", "a profile of colours")));
  assert.deepEqual(["EXIF", "XMP ", "ABCD", "Exif"].filter((name) => out.includes(name)), []);
  assert.equal(out[20], 0x28);
  const turned = await strip(privateWebp(3));
  const at = turned.indexOf("EXIF");
  assert.equal(turned.readUInt32LE(at + 4), exif(3).length);
  same(turned.subarray(at + 8, at + 8 + 26), minimal(3));
  assert.ok(turned.subarray(at + 8 + 26, at + 8 + exif(3).length).every((byte) => byte === 0));
});

Deno.test("a GIF keeps its frames and loops without comments and XMP", async () => {
  same(await strip(privateGif()), GIF);
});

Deno.test("nothing of a camera's words is left in any format, however the content is cut up", async () => {
  const pictures = [
    privateJpeg(JPEG, 6),
    privateJpeg(PROGRESSIVE_JPEG, 1),
    privatePng(6),
    privateWebp(6),
    privateGif(),
  ];
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...pictures),
      fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1 }),
      async (picture, sizes) => {
        const out = await strip(picture, sizes);
        assert.ok(!out.includes(SECRET_PLACE));
        same(out, await strip(picture));
      },
    ),
    { numRuns: 150 },
  );
});

const payload = fc.uint8Array({ maxLength: 300 });
const private_ = {
  jpeg: fc.tuple(fc.constantFrom(0xe1, 0xe3, 0xe9, 0xed, 0xef, 0xfe), payload).map(([marker, bytes]) =>
    segment(marker, bytes)
  ),
  png: fc.tuple(fc.constantFrom("tEXt", "zTXt", "iTXt", "tIME", "abCd", "caBX"), payload).map(([type, bytes]) =>
    chunk(type, bytes)
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

Deno.test("whatever is put between the parts of a picture goes, and the picture is what it was", async () => {
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
        let whole: Uint8Array = bytesOf(picture, trailer);
        for (const [at, bytes] of inserts.toSorted(([left], [right]) => right - left)) {
          whole = bytesOf(whole.subarray(0, at), bytes, whole.subarray(at));
        }
        same(await strip(whole), picture);
      }),
      { numRuns: 60 },
    );
  }
});

Deno.test("no content makes a walker throw, loop or write more than it read, and stripping twice is stripping once", async () => {
  const pictures = [privateJpeg(JPEG, 6), privatePng(6), privateWebp(6), privateGif()];
  const starts = [[0xff, 0xd8, 0xff], PNG.subarray(0, 8), WEBP.subarray(0, 12), GIF.subarray(0, 13)];
  const noise = fc.tuple(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 600 }))
    .map(([start, bytes]) => bytesOf(start, bytes));
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
      same(await strip(out), out);
    }),
    { numRuns: 600 },
  );
});

Deno.test("fill bytes of a scan stay, and an orientation in too short a block goes", async () => {
  const filled = bytesOf(JPEG.subarray(0, -2), [0xff, 0xff, 0xd9]);
  for (const sizes of [[1], [filled.length]]) same(await strip(filled, sizes), filled);
  const short = segment(0xe1, "Exif\0\0", exif(6).subarray(0, 4), [
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
  same(await strip(bytesOf(JPEG.subarray(0, 2), short, JPEG.subarray(2))), JPEG);
});

Deno.test("endless segments and lengths that lie are read once, to the end", async () => {
  const many = bytesOf([0xff, 0xd8], ...Array.from({ length: 10_000 }, () => segment(0xfe, "x")), JPEG.subarray(2));
  same(await strip(many, [1000]), JPEG);
  // A million are no picture's: what is left after some of them stays as it came, for the price of being read.
  const absurd = bytesOf([0xff, 0xd8], Buffer.alloc(4_000_000, segment(0xfe)), JPEG.subarray(2));
  const kept = await strip(absurd, [16_384]);
  assert.ok(kept.length < absurd.length);
  same(kept.subarray(2), absurd.subarray(absurd.length - kept.length + 2));
  const huge = bytesOf(PNG.subarray(0, PNG_HEADER_END), [0x7f, 0xff, 0xff, 0xff], "tEXt", SECRET_PLACE);
  same(await strip(huge), PNG.subarray(0, PNG_HEADER_END));
  const impossible = bytesOf(PNG.subarray(0, PNG_HEADER_END), [0xff, 0xff, 0xff, 0xff], "tEXt", SECRET_PLACE);
  same(await strip(impossible), impossible);
  const short = bytesOf([0xff, 0xd8, 0xff, 0xfe, 0, 1], SECRET_PLACE);
  same(await strip(short), short);
  same(await strip(bytesOf("RIFF", [0, 0, 0, 0], WEBP.subarray(8))), bytesOf("RIFF", [0, 0, 0, 0], WEBP.subarray(8)));
});

Deno.test("an orientation is found in either byte order, and none in what is no EXIF", async () => {
  for (const order of ["II", "MM"] as const) {
    for (const value of [1, 2, 3, 4, 5, 6, 7, 8]) assert.equal(orientationOf(exif(value, order)), value);
    for (const value of [0, 9, 700]) assert.equal(orientationOf(exif(value, order)), 1);
  }
  await fc.assert(
    fc.asyncProperty(fc.constantFrom("II", "MM", ""), fc.uint8Array({ maxLength: 200 }), async (order, bytes) => {
      const value = await Promise.resolve(orientationOf(bytesOf(order, bytes)));
      assert.ok(value >= 1 && value <= 8);
    }),
  );
});

Deno.test("file.upload stores a picture without its metadata, and tells size and hash of what it stored", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const sent = privateJpeg(JPEG, 6);
  const stored = await strip(sent);
  const digest = `sha-256=:${sha256(sent, "base64")}:`;
  const answer = await upload(gateway, alice, { name: "me.jpg" }, sent, { "Content-Digest": digest });
  const file = ok(answer);
  assert.deepEqual([file.size, file.sha256], [stored.length, sha256(stored)]);
  assert.deepEqual([file.contentType, file.width, file.height], ["image/jpeg", 24, 16]);
  same((await download(gateway, alice, file.id)).bytes, stored);
  const wrong = { "Content-Digest": `sha-256=:${sha256(stored, "base64")}:` };
  refused(await upload(gateway, alice, { name: "me.jpg" }, sent, wrong), 422, "validation_failed");
  // Its header comes late: after more than what is read ahead.
  const filler = Array.from({ length: 6 }, () => segment(0xe1, new Uint8Array(60_000)));
  const late = bytesOf(JPEG.subarray(0, JFIF_END), ...filler, JPEG.subarray(JFIF_END));
  const found = ok(await upload(gateway, alice, { name: "late.jpg" }, late));
  assert.deepEqual([found.width, found.height, found.size], [24, 16, JPEG.length]);
});
