// The media type of a content: detected from its first bytes and compared with the type that the upload declares.
import { Fault } from "@/core/fault.ts";
import { inflateInPieces } from "@/runtime/inflate_pieces.ts";

const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$/;
export const BINARY = "application/octet-stream";
const TEXT = "text/plain";
/** Control characters that texts do not contain: all but tabs, line and page breaks, backspace and escape. */
// deno-lint-ignore no-control-regex -- matches control characters on purpose
const CONTROL = /[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f]/;
/** Types that are text besides `text/*`, `…+json`, `…+xml` and the like. */
const TEXTUAL =
  /^text\/|[/+](json|xml|yaml|toml|sql|csv)$|^application\/(x-)?(javascript|ecmascript|typescript|sh|ndjson|jsonl|rtf|postscript|pgp-[a-z]+|tex|httpd-php|subrip|mpegurl)$/;
/** Canonical names of types with several names. */
const ALIASES: Readonly<Record<string, string>> = {
  "image/jpg": "image/jpeg",
  "image/pjpeg": "image/jpeg",
  "image/apng": "image/png",
  "image/heif": "image/heic",
  "image/vnd.microsoft.icon": "image/x-icon",
  "audio/mp3": "audio/mpeg",
  "audio/wave": "audio/wav",
  "audio/x-wav": "audio/wav",
  "audio/vnd.wave": "audio/wav",
  "audio/x-flac": "audio/flac",
  "audio/m4a": "audio/mp4",
  "audio/x-m4a": "audio/mp4",
  "video/x-m4v": "video/mp4",
  "video/x-matroska": "video/matroska",
  "video/x-msvideo": "video/vnd.avi",
  "application/ogg": "audio/ogg",
  "application/x-gzip": "application/gzip",
  "application/x-zip-compressed": "application/zip",
  "application/vnd.rar": "application/x-rar-compressed",
};
/** Formats that are based on a container: where only the container is detected, the declared type is more exact. */
const CONTAINER_FORMATS: Readonly<Record<string, RegExp>> = {
  "application/zip": /^application\/(vnd\.|epub\+zip$|java-archive$|x-xpinstall$|[a-z0-9.+-]+\+zip$)|^model\/3mf$/,
  "application/x-cfb": /^application\/(msword$|vnd\.ms-|vnd\.visio$|x-msi$)/,
  "video/matroska": /^(audio|video)\/webm$/,
};

/** Whether contents of this type are text. */
export function isTextual(contentType: string): boolean {
  return TEXTUAL.test(contentType);
}

let loading: Promise<typeof import("file-type")> | undefined;

/** What a zip file says of its kind may be a bomb. */
function loadDetector(): Promise<typeof import("file-type")> {
  inflateInPieces();
  return import("file-type");
}

/** The type to store; throws `unsupported_media_type` if the content contradicts the declared type. */
export async function detectContentType(head: Uint8Array<ArrayBuffer>, claimed: string | undefined): Promise<string> {
  const { fileTypeFromBuffer, supportedMimeTypes } = await (loading ??= loadDetector());
  // Detection fails for files that end within a header; their type is unknown.
  const sniffed = await fileTypeFromBuffer(head).then((type) => type?.mime, () => undefined);
  const found = essenceOf(sniffed ?? (isText(head) ? TEXT : BINARY));
  const claim = claimed === undefined ? BINARY : essenceOf(claimed);
  if (!MEDIA_TYPE.test(claim)) throw new Fault("unsupported_media_type", "The Content-Type is not a media type");
  if (claim === BINARY) return found;
  const isKnown = (supportedMimeTypes as ReadonlySet<string>).has(claim);
  if (matchesClaim(claim, found, isKnown)) return canonicalTypeOf(claim) === canonicalTypeOf(found) ? found : claim;
  // Office documents and app packages are zip files, so declaring them as zip is valid.
  if (CONTAINER_FORMATS[claim]?.test(found)) return found;
  throw new Fault("unsupported_media_type", `The content is ${found}, expected ${claim} as declared by the upload`);
}

/** `isKnown`: content of the declared type would have been detected. */
function matchesClaim(claim: string, found: string, isKnown: boolean): boolean {
  if (canonicalTypeOf(claim) === canonicalTypeOf(found) || CONTAINER_FORMATS[found]?.test(claim)) return true;
  if (TEXTUAL.test(found)) return TEXTUAL.test(claim) || found === TEXT && claim.startsWith("application/") && !isKnown;
  if (found === BINARY) return claim.startsWith("application/") && !isKnown && !TEXTUAL.test(claim);
  return isSameMedia(canonicalTypeOf(claim), canonicalTypeOf(found));
}

/** Audio and video share containers: `audio/mp4` and `video/mp4` differ only in their tracks. */
function isSameMedia(claim: string, found: string): boolean {
  const [[claimKind, claimFormat], [foundKind, foundFormat]] = [claim.split("/"), found.split("/")];
  return [claimKind, foundKind].every((kind) => kind === "audio" || kind === "video") && claimFormat === foundFormat;
}

function isText(head: Uint8Array): boolean {
  const isUtf16 = head[0] === 0xff && head[1] === 0xfe || head[0] === 0xfe && head[1] === 0xff;
  // Control characters are the same in UTF-8 and all single-byte encodings; 0x80 to 0x9f are part of other characters.
  return isUtf16 || !CONTROL.test(new TextDecoder("latin1").decode(head).replaceAll(/[\x80-\x9f]/g, " "));
}

function essenceOf(type: string): string {
  return (type.split(";")[0] ?? "").trim().toLowerCase();
}

function canonicalTypeOf(type: string): string {
  return ALIASES[type] ?? type;
}
