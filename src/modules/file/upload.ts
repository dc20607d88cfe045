// Request bodies of uploads: checks length, digest and minimum rate while reading.
import { createHash } from "node:crypto";
import { withTimeout } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { createReadPacer, faultOfBody, readListHeader } from "@/core/http/request.ts";
import { readPieces } from "@/runtime/byte_pieces.ts";

/** An upload is aborted if it is silent for this long, or falls this far behind the rate. */
const MINIMUM_RATE = { silentMs: 30_000, bytesPerMs: 4 };
const SHA256_BYTES = 32;
/** What a MiB costs that is read, hashed and written to a disk, for which the commits of others wait as well. */
const MIB_MS = 16;

/** The body of a request, in chunks. `length` is its Content-Length. */
export async function* readUpload(request: Request, length: number): AsyncGenerator<Uint8Array> {
  const digests = declaredDigests(request.headers);
  const hash = digests.length === 0 ? undefined : createHash("sha256");
  let size = 0;
  for await (const chunk of request.body === null ? [] : enforceMinimumRate(request.body)) {
    size += chunk.length;
    if (size > length) throw new Fault("bad_request", "The body is longer than its Content-Length");
    hash?.update(chunk);
    yield chunk;
  }
  if (size < length) throw new Fault("bad_request", `The body ended early: received ${size} of ${length} bytes`);
  const actual = hash?.digest("base64");
  const wrong = digests.find(({ value }) => value !== actual);
  if (wrong === undefined) return;
  const detail = `The SHA-256 of the content is ${actual}, expected ${wrong.value}`;
  throw new Fault("validation_failed", `${wrong.name}: ${detail}`, {
    errors: [{ pointer: `/${wrong.name}`, code: "digest_mismatch", detail }],
  });
}

/** Checks the headers of an upload; resolves to its Content-Length. */
export function contentLengthOf({ headers }: Request, maxBytes: number): number {
  const text = headers.get("Content-Length");
  if (text === null) throw new Fault("length_required", "Uploads require a Content-Length");
  if (!/^\d{1,15}$/.test(text)) throw new Fault("bad_request", "The Content-Length is not a number");
  if ((headers.get("Content-Encoding") ?? "identity").toLowerCase() !== "identity") {
    throw new Fault("unsupported_media_type", "Compressed request bodies are not supported; compressed files are");
  }
  const length = Number(text);
  if (length > maxBytes) throw new Fault("payload_too_large", `The request body is larger than ${maxBytes} bytes`);
  return length;
}

/** The pieces of a body; throws if they arrive too slowly. Processing time of the reader does not count. */
export async function* enforceMinimumRate(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  { silentMs, bytesPerMs } = MINIMUM_RATE,
  now = () => performance.now(),
): AsyncGenerator<Uint8Array> {
  let leftMs = silentMs;
  yield* readPieces(body, {
    onRead: createReadPacer({ mibMs: MIB_MS }),
    async watch(start) {
      const startedAt = now();
      const read = await withTimeout(start(), silentMs).catch((cause) => {
        throw faultOfBody(cause);
      });
      if (read === undefined) throw new Fault("bad_request", `No data received for ${silentMs / 1000} s`);
      leftMs += (read.value?.length ?? 0) / bytesPerMs - (now() - startedAt);
      if (leftMs < 0 && !read.done) {
        throw new Fault("bad_request", `The upload was slower than ${bytesPerMs} kB a second`);
      }
      return read;
    },
  });
}

/** SHA-256 digests in base64 from the headers of RFC 9530 and RFC 3230. Other algorithms are not verified. */
function declaredDigests(headers: Headers): { name: string; value: string }[] {
  return ["Content-Digest", "Repr-Digest", "Digest"].flatMap((name) =>
    (readListHeader(headers, name) ?? "").split(",").flatMap((member) => {
      const equals = member.indexOf("=");
      if (equals < 0 || member.slice(0, equals).trim().toLowerCase() !== "sha-256") return [];
      const raw = member.slice(equals + 1).trim();
      const value = name === "Digest" ? raw : /^:(.*):$/.exec(raw)?.[1] ?? "";
      if (bytesOf(value) !== SHA256_BYTES) {
        throw new Fault("bad_request", `${name}: sha-256 must be 32 bytes in base64, in the format of the header`);
      }
      return [{ name, value }];
    })
  );
}

function bytesOf(base64: string): number {
  try {
    return Uint8Array.fromBase64(base64, { lastChunkHandling: "strict" }).length;
  } catch {
    return -1;
  }
}
