// Small images and the metadata that cameras put into them; all are 24 × 16: green in the upper left, else red to the left
// and blue to the right.
import { Buffer } from "node:buffer";
import { crc32, deflateSync } from "node:zlib";

type Bytes = Uint8Array<ArrayBuffer>;

/** Is in every piece of metadata created here, and nowhere else. */
export const SECRET_LOCATION = "N52.5163 E13.3777";

const decodeBase64 = (base64: string): Bytes => Uint8Array.fromBase64(base64);

export const JPEG = decodeBase64(
  "/9j/4AAQSkZJRgABAQAAAQABAAD/2wCEAAYEBQYFBAYGBQYHBwYIChAKCgkJChQODwwQFxQYGBcUFhYaHSUfGhsjHBYWICwgIyYnKSopGR8tMC0oMCUoKSgBBwcHCggKEwoKEygaFhooKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKP/AABEIABAAGAMBIQACEQEDEQH/xABeAAACAwAAAAAAAAAAAAAAAAAABQQGBxABAAMBAAAAAAAAAAAAAAAAAAZEgsEBAQEBAQAAAAAAAAAAAAAAAAcFAAgRAAEEAgMAAAAAAAAAAAAAAAACAzWyBoIFB4P/2gAMAwEAAhEDEQA/AIDIJLW1xO66m2tqKJWEw/J+NlCQOjzF2JJLW1wA4TNsbUUN2Xw72tkiQH4ET//Z",
);
export const PROGRESSIVE_JPEG = decodeBase64(
  "/9j/4AAQSkZJRgABAQAAAQABAAD/2wCEAAYEBQYFBAYGBQYHBwYIChAKCgkJChQODwwQFxQYGBcUFhYaHSUfGhsjHBYWICwgIyYnKSopGR8tMC0oMCUoKSgBBwcHCggKEwoKEygaFhooKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKP/CABEIABAAGAMBIQACEQEDEQH/xAAtAAACAwAAAAAAAAAAAAAAAAAABQQGBwEBAQEBAAAAAAAAAAAAAAAABwUBCP/aAAwDAQACEAMQAAAAgZBOkpDo/bskAW5IPwj/AP/EABkQAAIDAQAAAAAAAAAAAAAAAAYQRILBAP/aAAgBAQABPwDiWNbGSxrYv//EABsRAAAHAQAAAAAAAAAAAAAAAAIDBhA1grIH/9oACAECAQE/AOdTZVsCZEzZFsCb/8QAHBEAAAYDAAAAAAAAAAAAAAAAAgMGEDWyBYKD/9oACAEDAQE/AETD5PjYTK+HO1sFv//Z",
);
export const PNG = decodeBase64(
  "iVBORw0KGgoAAAANSUhEUgAAABgAAAAQCAYAAAAMJL+VAAABbElEQVR4Ae3gAZAkSZIkSRKLqpm7R0REZmZmVlVVVVV3d3d3d/fMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMdHd3d3dXV1VVVVVmZkZGRIS7m5kKz0xmV3d1d3dPz8zMzMxMovhjzAvxlFfmOTycp/CvgPhjzAvxlFfmOTycp/CvgPhjzAvxlFfmOTycp/CvgPhjzAvxlFfmOTycp/CvgPhjzAvxlFfmOTycp/CvgPhjzAvxlFfmOTycp/CvgPhjzAvxlFfmOTycp/CvgPhjzAvxlFfmOTycp/CvgJ4C5l/h4TyFfwX0FDD/Cg/nKfwroKeA+Vd4OE/hXwE9Bcy/wsN5Cv8K6Clg/hUezlP4V0BPAfOv8HCewr8CegqYf4WH8xT+FdBTwPwrPJyn8K/APwKwfDXBw2qKzwAAAABJRU5ErkJggg==",
);
export const WEBP = decodeBase64(
  "UklGRmAAAABXRUJQVlA4IFQAAAAQBACdASoYABAAPrVInkmnJCKhMAgA4BaJQBdl0AoAH2AV//uAAHMUAAD+7h//1dv2//t7757+p/8WeqtKwMRRGXpO//mCaXAY/f/BJc4LGNJ9mAA=",
);
/** Two frames, one pixel of two colours each. */
export const GIF = concatBytes(
  "GIF89a",
  [1, 0, 1, 0, 0x80, 0, 0, 255, 0, 0, 0, 0, 255],
  gifExtension(0xff, "NETSCAPE2.0", [1, 0, 0]),
  [0x21, 0xf9, 4, 4, 10, 0, 0, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0],
  [0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x4c, 1, 0, 0x3b],
);

export function concatBytes(...parts: (string | ArrayLike<number>)[]): Bytes {
  return new Uint8Array(
    Buffer.concat(parts.map((part) => typeof part === "string" ? Buffer.from(part, "latin1") : Uint8Array.from(part))),
  );
}

/** EXIF as a camera writes it, with a place and a thumbnail; as TIFF. */
export function exif(orientation: number, order: "II" | "MM" = "II"): Bytes {
  const short = (value: number): number[] => order === "II" ? [value & 255, value >> 8] : [value >> 8, value & 255];
  const long = (value: number): number[] => order === "II" ? [...short(value), 0, 0] : [0, 0, ...short(value)];
  const text = concatBytes(SECRET_LOCATION, [0]);
  return concatBytes(
    order,
    short(42),
    long(8),
    short(2),
    [...short(0x010e), ...short(2), ...long(text.length), ...long(38)],
    [...short(0x0112), ...short(3), ...long(1), ...short(orientation), 0, 0],
    long(0),
    text,
    JPEG,
  );
}

export function jpegSegment(marker: number, ...parts: (string | ArrayLike<number>)[]): Bytes {
  const payload = concatBytes(...parts);
  return concatBytes([0xff, marker, (payload.length + 2) >> 8, (payload.length + 2) & 255], payload);
}

export function pngChunk(type: string, ...parts: (string | ArrayLike<number>)[]): Bytes {
  const body = concatBytes(type, ...parts);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(body.length - 4);
  check.writeUInt32BE(crc32(body));
  return concatBytes(length, body, check);
}

export function riffChunk(type: string, ...parts: (string | ArrayLike<number>)[]): Bytes {
  const payload = concatBytes(...parts);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(payload.length);
  return concatBytes(type, length, payload, payload.length % 2 === 1 ? [0] : []);
}

export function gifExtension(label: number, ...blocks: (string | ArrayLike<number>)[]): Bytes {
  const parts = blocks.map((block) => concatBytes(block));
  return concatBytes([0x21, label], ...parts.map((part) => concatBytes([part.length], part)), [0]);
}

export const ICC = jpegSegment(0xe2, "ICC_PROFILE\0", [1, 1], "a profile of colours");

/** A JPEG with all that phones add, before, between and after what makes the picture. */
export function jpegWithMetadata(picture: Bytes, orientation: number): Bytes {
  const jfif = 20;
  return concatBytes(
    picture.subarray(0, 2),
    jpegSegment(0xe0, "JFIF\0", [1, 1, 0, 0, 1, 0, 1, 2, 1, 1, 2, 3, 4, 5, 6]),
    jpegSegment(0xe1, "Exif\0\0", exif(orientation)),
    jpegSegment(0xe1, "http://ns.adobe.com/xap/1.0/\0", SECRET_LOCATION),
    jpegSegment(0xe1, "Exif\0\0", exif(3)),
    ICC,
    jpegSegment(0xe2, "MPF\0", SECRET_LOCATION),
    jpegSegment(0xed, "Photoshop 3.0\x008BIM", SECRET_LOCATION),
    jpegSegment(0xeb, "JP", SECRET_LOCATION),
    jpegSegment(0xfe, SECRET_LOCATION),
    [0xff, 0xff],
    picture.subarray(jfif),
    picture,
    SECRET_LOCATION,
  );
}

export function pngWithMetadata(orientation: number): Bytes {
  const header = 33;
  const end = PNG.length - 12;
  return concatBytes(
    PNG.subarray(0, header),
    pngChunk("iCCP", "p\0\0", deflateSync("a profile of colours")),
    pngChunk("eXIf", exif(orientation, "MM")),
    pngChunk("tEXt", "Comment\0", SECRET_LOCATION),
    pngChunk("iTXt", "XML:com.adobe.xmp\0\0\0\0\0", SECRET_LOCATION),
    PNG.subarray(header, end),
    pngChunk("tIME", [7, 230, 1, 1, 1, 1, 1]),
    pngChunk("prVW", SECRET_LOCATION),
    PNG.subarray(end),
    SECRET_LOCATION,
  );
}

export function webpWithMetadata(orientation: number): Bytes {
  const body = concatBytes(
    riffChunk("VP8X", [0x2c, 0, 0, 0, 23, 0, 0, 15, 0, 0]),
    riffChunk("ICCP", "a profile of colours"),
    WEBP.subarray(12),
    riffChunk("EXIF", exif(orientation)),
    riffChunk("XMP ", SECRET_LOCATION),
    riffChunk("ABCD", SECRET_LOCATION),
  );
  const length = Buffer.alloc(4);
  length.writeUInt32LE(body.length + 4);
  return concatBytes("RIFF", length, "WEBP", body, SECRET_LOCATION);
}

export function gifWithMetadata(): Bytes {
  const frames = 38;
  return concatBytes(
    GIF.subarray(0, frames),
    gifExtension(0xfe, SECRET_LOCATION),
    gifExtension(0xff, "XMP DataXMP", SECRET_LOCATION),
    GIF.subarray(frames),
    SECRET_LOCATION,
  );
}

function u32(...values: number[]): Bytes {
  return concatBytes(...values.map((value) => [value >>> 24, value >> 16, value >> 8, value]));
}

/** A PNG of one color with the dimensions in its header, but `rows` rows. */
export function png(width: number, height: number, rgba: number[], rows = height): Bytes {
  const row = concatBytes([0], ...Array.from({ length: width }, () => rgba));
  const data = deflateSync(Buffer.concat(Array.from({ length: rows }, () => row)));
  return concatBytes(
    [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a],
    pngChunk("IHDR", u32(width, height), [8, 6, 0, 0, 0]),
    pngChunk("IDAT", data),
    pngChunk("IEND"),
  );
}
