// What a content is: found out from its first bytes, and compared with what the uploader says it is.
import { Fault } from "@/core/fault.ts";

const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$/;
const BINARY = "application/octet-stream";
const TEXT = "text/plain";
/** Control characters that no text has: all but those of tabs, lines, pages, backspace and escape sequences. */
// deno-lint-ignore no-control-regex -- control characters are what it is about
const CONTROL = /[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f]/;
/** Types that are text besides `text/*`, `…+json`, `…+xml` and the like. */
const TEXTUAL =
  /^text\/|[/+](json|xml|yaml|toml|sql|csv)$|^application\/(x-)?(javascript|ecmascript|typescript|sh|ndjson|jsonl|rtf|postscript|pgp-[a-z]+|tex|httpd-php|subrip|mpegurl)$/;
/** Names of one thing. */
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
/** Containers, and what is made of them: where the sniffer sees only the container, the claim is the better name. */
const MADE_OF: Readonly<Record<string, RegExp>> = {
  "application/zip": /^application\/(vnd\.|epub\+zip$|java-archive$|x-xpinstall$|[a-z0-9.+-]+\+zip$)|^model\/3mf$/,
  "application/x-cfb": /^application\/(msword$|vnd\.ms-|vnd\.visio$|x-msi$)/,
  "video/matroska": /^(audio|video)\/webm$/,
};

/** The type to keep; throws `unsupported_media_type` for a claim that the content does not bear out. */
export async function contentTypeOf(head: Uint8Array<ArrayBuffer>, claimed: string | undefined): Promise<string> {
  const { fileTypeFromBuffer, supportedMimeTypes } = await import("file-type");
  // A broken file may end where the sniffer wants to read on; then its type is not known.
  const sniffed = await fileTypeFromBuffer(head).then((type) => type?.mime, () => undefined);
  const found = essenceOf(sniffed ?? (isText(head) ? TEXT : BINARY));
  const claim = claimed === undefined ? BINARY : essenceOf(claimed);
  if (!MEDIA_TYPE.test(claim)) throw new Fault("unsupported_media_type", "The Content-Type is not a media type");
  if (claim === BINARY) return found;
  const isKnown = (supportedMimeTypes as ReadonlySet<string>).has(claim);
  if (isBorneOut(claim, found, isKnown)) return nameOf(claim) === nameOf(found) ? found : claim;
  // Every office document and app package is a zip, and saying so is no lie.
  if (MADE_OF[claim]?.test(found)) return found;
  throw new Fault("unsupported_media_type", `The content is ${found}, not ${claim} as the upload says`);
}

/** `isKnown`: the sniffer would have recognised a content of the claimed type. */
function isBorneOut(claim: string, found: string, isKnown: boolean): boolean {
  if (nameOf(claim) === nameOf(found) || MADE_OF[found]?.test(claim)) return true;
  if (TEXTUAL.test(found)) {
    return TEXTUAL.test(claim) || found === TEXT && claim.startsWith("application/") && !isKnown;
  }
  if (found === BINARY) return claim.startsWith("application/") && !isKnown && !TEXTUAL.test(claim);
  return isSameMedia(nameOf(claim), nameOf(found));
}

/** Containers of sound and film look alike: `audio/mp4` and `video/mp4` are told apart only by what is in them. */
function isSameMedia(claim: string, found: string): boolean {
  const [[claimKind, claimFormat], [foundKind, foundFormat]] = [claim.split("/"), found.split("/")];
  return [claimKind, foundKind].every((kind) => kind === "audio" || kind === "video") && claimFormat === foundFormat;
}

function isText(head: Uint8Array): boolean {
  const isUtf16 = head[0] === 0xff && head[1] === 0xfe || head[0] === 0xfe && head[1] === 0xff;
  // Any single-byte encoding shows its control characters like this, and so does UTF-8.
  return isUtf16 || !CONTROL.test(new TextDecoder("latin1").decode(head).replaceAll(/[\x80-\x9f]/g, " "));
}

function essenceOf(type: string): string {
  return (type.split(";")[0] ?? "").trim().toLowerCase();
}

function nameOf(type: string): string {
  return ALIASES[type] ?? type;
}
