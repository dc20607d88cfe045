// Responses with file contents: ranges, conditions, and headers that keep browsers from executing uploads.
import { createHash } from "node:crypto";
import { type Actor, chargedTo } from "@/core/actor.ts";
import { Fault, type FaultCode } from "@/core/fault.ts";
import { matchesIfNoneMatch } from "@/core/http/request.ts";
import { contentDisposition, type RouteDocument } from "@/core/http/route.ts";
import type { ByteRange } from "@/ports/blob.ts";
import { BINARY } from "./content_type.ts";
import type { ThumbnailSize } from "./image/thumbnails.ts";
import type { StoredFile } from "./schema.ts";
import type { FileService } from "./service.ts";

export const binary = { schema: { type: "string", format: "binary" } };

/** Faults that `respondWithContent` may throw. */
export const CONTENT_FAULTS = [
  "not_found",
  "gone",
  "range_not_satisfiable",
  "validation_failed",
  "unavailable",
] as const satisfies readonly FaultCode[];

export const CONTENT_PARAMETERS: NonNullable<RouteDocument["parameters"]> = [
  {
    name: "Range",
    in: "header",
    description: "Byte range of the content",
    schema: { type: "string" },
    example: "bytes=0-1023",
  },
  {
    name: "If-Range",
    in: "header",
    description: "ETag of the partial copy; if it does not match, the whole content is sent",
    schema: { type: "string" },
  },
  {
    name: "If-None-Match",
    in: "header",
    description: "ETag of the caller's copy; 304 if it is current",
    schema: { type: "string" },
  },
];

/** Any type; some client generators read none but the first. */
const CONTENT = { "application/octet-stream": binary, "*/*": binary };
export const CONTENT_RESPONSES: RouteDocument["responses"] = {
  200: { description: "The content", content: CONTENT },
  206: { description: "The requested range", content: CONTENT },
  304: { description: "Not modified" },
};

/** Types that browsers may display. Not HTML, SVG or PDF, which can contain scripts. */
const INLINE_TYPES = new Set([
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

/** Types that browsers only download and that a page cannot execute: content is served with these and the types above. */
const DOWNLOAD_TYPES = new Set([
  "application/pdf",
  "application/zip",
  "application/gzip",
  "image/heic",
  "image/tiff",
  "image/x-icon",
  "video/matroska",
  "video/quicktime",
  "video/vnd.avi",
]);

const JPEG_START = 0xff;

/** Properties of a content that appear in response headers. */
type ContentInfo = Pick<StoredFile, "name" | "contentType" | "size" | "sha256" | "createdAt">;

/** The status and headers of a response with a content, and which bytes it has. */
type ContentResponsePlan = { status: 200 | 206 | 304; headers: Record<string, string>; range: ByteRange | undefined };

/** A request for a content; `isDownload` makes browsers download it. */
export type ContentRequest = { actor: Actor; id: string; thumbnail: ThumbnailSize | undefined; isDownload?: boolean };

/** The content of a file that the actor may read, or the requested range of it. */
export async function respondWithContent(
  { request, refusal, files }: { request: Request; refusal: Record<string, string>; files: FileService },
  { actor, id, thumbnail, isDownload = false }: ContentRequest,
): Promise<Response> {
  const file = await files.read(actor, id);
  const resized = thumbnail === undefined ? undefined : await files.thumbnail(actor, file, thumbnail);
  const served = resized === undefined ? file : thumbnailInfo(file, resized);
  const { status, headers, range } = planContentResponse(served, request.headers, refusal);
  if (isDownload) headers["Content-Disposition"] = contentDisposition("attachment", served.name);
  if (request.method === "HEAD" || status === 304) return new Response(null, { status, headers });
  const body = resized?.subarray(range?.start, range?.end) ??
    await files.downloads.start(chargedTo(actor), () => files.open(file, range));
  return new Response(body, { status, headers });
}

/** The properties of a thumbnail, which is a content of its own. */
function thumbnailInfo({ name, createdAt }: ContentInfo, bytes: Uint8Array): ContentInfo {
  const [contentType, extension] = bytes[0] === JPEG_START ? ["image/jpeg", "jpg"] : ["image/png", "png"];
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { name: `${name.replace(/\.[^.]*$/, "")}.${extension}`, contentType, size: bytes.length, sha256, createdAt };
}

/** Evaluates the request's conditions; throws `range_not_satisfiable` after setting Content-Range in `refusal`. */
function planContentResponse(
  file: ContentInfo,
  request: Headers,
  refusal: Record<string, string>,
): ContentResponsePlan {
  const etag = `"${file.sha256}"`;
  const modified = new Date(file.createdAt).toUTCString();
  const headers: Record<string, string> = {
    "Content-Type": safeContentType(file.contentType),
    "Content-Disposition": contentDisposition(INLINE_TYPES.has(file.contentType) ? "inline" : "attachment", file.name),
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    // Caches revalidate each time, because the permission to read may end; if it has not, the response is a 304.
    "Cache-Control": "private, no-cache",
    "Accept-Ranges": "bytes",
    "ETag": etag,
    "Last-Modified": modified,
    "Repr-Digest": `sha-256=:${Uint8Array.fromHex(file.sha256).toBase64()}:`,
  };
  if (matchesIfNoneMatch(request, etag)) return { status: 304, headers, range: undefined };
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

function safeContentType(type: string): string {
  // A script, style sheet or manifest from our origin would be executed by its type alone.
  if (!INLINE_TYPES.has(type) && !DOWNLOAD_TYPES.has(type)) return BINARY;
  return type.startsWith("text/") ? `${type}; charset=utf-8` : type;
}

/** A single range; for several ranges or another unit the whole content is sent, as RFC 9110 allows. */
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
