// A request body as a content: as long as promised, with the digest promised, from a sender who keeps sending.
import { createHash } from "node:crypto";
import { inTime } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";

/** Nobody holds an upload open for longer than this without sending anything, nor by sending slower than this for longer. */
const PATIENCE = { silentMs: 30_000, bytesPerMs: 4 };
const SHA256_BYTES = 32;

/** The body of a request, in chunks. `length` is its Content-Length. */
export async function* receive(request: Request, length: number): AsyncGenerator<Uint8Array> {
  const digests = promisedDigests(request.headers);
  const hash = digests.length === 0 ? undefined : createHash("sha256");
  let size = 0;
  for await (const chunk of request.body === null ? [] : steady(request.body)) {
    size += chunk.length;
    if (size > length) throw new Fault("bad_request", "The body is longer than its Content-Length");
    hash?.update(chunk);
    yield chunk;
  }
  if (size < length) throw new Fault("bad_request", `The body ended early: ${size} of ${length} bytes came`);
  const actual = hash?.digest("base64");
  const wrong = digests.find(({ value }) => value !== actual);
  if (wrong === undefined) return;
  const detail = `The content's sha-256 is ${actual}, not ${wrong.value}`;
  throw new Fault("validation_failed", `${wrong.name}: ${detail}`, {
    errors: [{ pointer: `/${wrong.name}`, code: "digest_mismatch", detail }],
  });
}

/** Checks the headers of an upload; resolves to its Content-Length. */
export function lengthOf({ headers }: Request, maxBytes: number): number {
  const text = headers.get("Content-Length");
  if (text === null) throw new Fault("length_required", "An upload needs a Content-Length");
  if (!/^\d{1,15}$/.test(text)) throw new Fault("bad_request", "The Content-Length is not a number");
  if ((headers.get("Content-Encoding") ?? "identity").toLowerCase() !== "identity") {
    throw new Fault("unsupported_media_type", "Compressed bodies are not accepted; compressed files are");
  }
  const length = Number(text);
  if (length > maxBytes) throw new Fault("payload_too_large", `The body is larger than ${maxBytes} bytes`);
  return length;
}

/** A body in chunks, from a sender who keeps sending. Time that is spent on what came is not the sender's. */
export async function* steady(
  body: ReadableStream<Uint8Array>,
  { silentMs, bytesPerMs } = PATIENCE,
): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  let leftMs = silentMs;
  try {
    for (;;) {
      const askedAt = performance.now();
      const next = await inTime(reader.read(), silentMs).catch((cause) => {
        throw cause instanceof Fault ? cause : new Fault("bad_request", "The body ended early", { cause });
      });
      if (next === undefined) throw new Fault("bad_request", `Nothing came for ${silentMs / 1000} s`);
      if (next.done) return;
      leftMs += next.value.length / bytesPerMs - (performance.now() - askedAt);
      if (leftMs < 0) throw new Fault("bad_request", `The body came slower than ${bytesPerMs} kB a second`);
      yield next.value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** SHA-256 digests of the body in base64: RFC 9530's two fields, and RFC 3230's `Digest`. Other algorithms are not checked. */
function promisedDigests(headers: Headers): { name: string; value: string }[] {
  return ["Content-Digest", "Repr-Digest", "Digest"].flatMap((name) =>
    (headers.get(name) ?? "").split(",").flatMap((member) => {
      const [, algorithm = "", raw = ""] = /^\s*([A-Za-z0-9-]+)=(.*?)\s*$/.exec(member) ?? [];
      if (algorithm.toLowerCase() !== "sha-256") return [];
      const value = name === "Digest" ? raw : /^:(.*):$/.exec(raw)?.[1] ?? "";
      if (bytesOf(value) !== SHA256_BYTES) {
        throw new Fault("bad_request", `${name}: sha-256 is not 32 bytes in base64 as the field wants them`);
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
