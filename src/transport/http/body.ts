// Bodies of JSON, or of text as it is: read no further than the limit, decoded strictly, parsed once.
import { readBytes } from "@/core/bytes.ts";
import { Fault } from "@/core/fault.ts";
import type { TextBody } from "@/core/operation.ts";
import { findUnsafeText, isDeeperThan, isSafeText } from "@/core/text.ts";

/** A request body: its bytes for a fingerprint, its value for the operation (`undefined` when there was none). */
export type Body = { bytes: Uint8Array; value: unknown };

const DEPTH_MAX = 32;
const EMPTY: Body = { bytes: new Uint8Array(), value: undefined };
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Throws when the request has a body. Headers need not tell of it, and the stream is there either way. */
export async function refuseBody(request: Request): Promise<void> {
  const detail = `${request.method} takes no body; what it needs stands in the path and the query`;
  await readBytes(request, 0, () => new Fault("bad_request", detail));
}

/** Reads a body of at most `maxBytes`; an empty one needs no content type. `text`: what it may be instead of JSON. */
export async function readBody(request: Request, maxBytes: number, text?: TextBody): Promise<Body> {
  if (!hasBody(request)) return EMPTY;
  const { headers } = request;
  const type = headers.get("Content-Type");
  const isText = type !== null && text !== undefined && isOfType(type, text.type);
  if (type !== null && !isText && !isOfType(type, "application/json")) {
    const types = text === undefined ? "application/json" : `application/json or ${text.type}`;
    throw new Fault("unsupported_media_type", `Expected Content-Type: ${types} in UTF-8`);
  }
  if ((headers.get("Content-Encoding") ?? "identity").toLowerCase() !== "identity") {
    throw new Fault("unsupported_media_type", "Compressed bodies are not accepted");
  }
  const bytes = await readBytes(
    request,
    maxBytes,
    () => new Fault("payload_too_large", `The body is larger than ${maxBytes} bytes`),
  );
  if (bytes.length === 0) return EMPTY;
  if (type === null) throw new Fault("unsupported_media_type", "Expected Content-Type: application/json");
  return { bytes, value: isText ? { [text.field]: textOf(bytes, text.field) } : parseJson(bytes) };
}

function hasBody(request: Request): boolean {
  const length = request.headers.get("Content-Length");
  // Only looked at where it is needed: from then on a body is a stream, which the engine reads far slower.
  return length === null ? request.body !== null : length !== "0";
}

function textOf(bytes: Uint8Array, field: string): string {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch (error) {
    throw new Fault("bad_request", "The body is not valid UTF-8", { cause: error });
  }
  if (!isSafeText(text)) throw unsafeText(`/${field}`);
  return text;
}

function parseJson(bytes: Uint8Array): unknown {
  let raw: string;
  let value: unknown;
  try {
    raw = decoder.decode(bytes);
    if (isDeeperThan(raw, DEPTH_MAX)) throw new Fault("invalid_json", `The body is nested deeper than ${DEPTH_MAX}`);
    value = JSON.parse(raw);
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw new Fault("invalid_json", "The body is not valid JSON in UTF-8", { cause: error });
  }
  const pointer = findUnsafeText(raw, value);
  if (pointer !== undefined) throw unsafeText(pointer);
  return value;
}

/** The fault for NUL or a lone surrogate at `pointer`. */
export function unsafeText(pointer: string): Fault {
  const detail = "Text may not contain NUL or a lone surrogate";
  return new Fault("validation_failed", `${pointer === "" ? "input" : pointer}: ${detail}`, {
    errors: [{ pointer, code: "invalid_text", detail }],
  });
}

function isOfType(type: string, wanted: string): boolean {
  const [essence = "", ...parameters] = type.toLowerCase().split(";").map((part) => part.trim());
  return essence === wanted &&
    parameters.every((parameter) => !parameter.startsWith("charset=") || /^charset="?utf-?8"?$/.test(parameter));
}
