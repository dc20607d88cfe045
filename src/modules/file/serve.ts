// A content as an HTTP answer: ranges, conditions, and headers that keep a browser from running what people upload.
import { createHash } from "node:crypto";
import { Fault } from "@/core/fault.ts";
import { dispositionOf } from "@/core/route.ts";
import type { ByteRange } from "@/ports/blob.ts";
import type { StoredFile } from "./schema.ts";

/** What a browser may show by itself. No HTML, no SVG, no PDF: they are programs. */
const SHOWN = new Set([
  "image/png",
  "image/apng",
  "image/jpeg",
  "image/gif",
  "image/webp",
  "image/avif",
  "image/bmp",
  "audio/mpeg",
  "audio/mp4",
  "audio/aac",
  "audio/ogg",
  "audio/wav",
  "audio/flac",
  "audio/webm",
  "video/mp4",
  "video/webm",
  "video/ogg",
  "text/plain",
  "text/csv",
  "text/markdown",
]);

const JPEG_START = 0xff;

/** What is told of a content in the headers of the answer. */
export type Served = Pick<StoredFile, "name" | "contentType" | "size" | "sha256" | "createdAt">;

/** How to answer a request for a content: 200, 206 or 304, and which bytes. */
export type Serving = { status: 200 | 206 | 304; headers: Record<string, string>; range: ByteRange | undefined };

/** A small picture of a file as a content of its own. */
export function asThumbnail({ name, createdAt }: Served, bytes: Uint8Array): Served {
  const [contentType, ending] = bytes[0] === JPEG_START ? ["image/jpeg", "jpg"] : ["image/png", "png"];
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { name: `${name.replace(/\.[^.]*$/, "")}.${ending}`, contentType, size: bytes.length, sha256, createdAt };
}

/** Decides by the request's conditions; throws `range_not_satisfiable` after setting `refusal`'s Content-Range. */
export function serve(file: Served, request: Headers, refusal: Record<string, string>): Serving {
  const etag = `"${file.sha256}"`;
  const modified = new Date(file.createdAt).toUTCString();
  const headers: Record<string, string> = {
    "Content-Type": file.contentType.startsWith("text/") ? `${file.contentType}; charset=utf-8` : file.contentType,
    "Content-Disposition": dispositionOf(SHOWN.has(file.contentType) ? "inline" : "attachment", file.name),
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    // Asked again each time, since the right to read may end; the answer is then a short 304.
    "Cache-Control": "private, no-cache",
    "Accept-Ranges": "bytes",
    "ETag": etag,
    "Last-Modified": modified,
    "Repr-Digest": `sha-256=:${Uint8Array.fromHex(file.sha256).toBase64()}:`,
  };
  const isKnown = (request.get("If-None-Match") ?? "").split(",")
    .some((tag) => tag.trim() === "*" || tag.trim().replace(/^W\//, "") === etag);
  if (isKnown) return { status: 304, headers, range: undefined };
  const condition = request.get("If-Range");
  const range = condition === null || condition === etag || condition === modified
    ? rangeOf(request.get("Range"), file.size)
    : undefined;
  if (range === "unsatisfiable") {
    refusal["Content-Range"] = `bytes */${file.size}`;
    throw new Fault("range_not_satisfiable", `The file has ${file.size} bytes`);
  }
  const { start, end } = range ?? { start: 0, end: file.size };
  headers["Content-Length"] = String(end - start);
  if (range !== undefined) headers["Content-Range"] = `bytes ${start}-${end - 1}/${file.size}`;
  return { status: range === undefined ? 200 : 206, headers, range };
}

/** One range as asked for; several, or another unit, are answered with the whole, as RFC 9110 allows. */
function rangeOf(header: string | null, size: number): ByteRange | "unsatisfiable" | undefined {
  const [, from = "", to = ""] = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/.exec(header ?? "") ?? [];
  if (from === "" && to === "") return undefined;
  if (from === "") {
    return to === "0" || size === 0 ? "unsatisfiable" : { start: Math.max(0, size - Number(to)), end: size };
  }
  const [start, end] = [Number(from), to === "" ? size : Math.min(Number(to) + 1, size)];
  if (to !== "" && Number(to) < start) return undefined;
  return start >= size ? "unsatisfiable" : { start, end };
}
