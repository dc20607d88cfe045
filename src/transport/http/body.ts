// Request bodies, JSON or plain text: read up to the limit, decoded strictly, parsed once.
import { readBytes } from "@/core/http/request.ts";
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import { Fault } from "@/core/fault.ts";
import type { TextBody } from "@/core/operation.ts";
import {
  findUnsafeText,
  hasMoreValuesThan,
  isDeeperThan,
  isSafeText,
  JSON_DEPTH_MAX,
  JSON_VALUES_MAX,
  unsafeTextFault,
} from "@/core/text/text.ts";
import type { LargeBody } from "./large_bodies.ts";

/** A request body: its bytes for the fingerprint, its value for the operation (`undefined` if there is none). */
type Body = { bytes: Uint8Array; value: unknown };

type BodyOptions = {
  /** Accepted for JSON, besides `application/json`. */
  type?: string | undefined;
  /** Alternative to JSON. */
  text?: TextBody | undefined;
  /** Charged for parsing. */
  account?: CpuAccount | undefined;
  /** Takes its turn with other large ones. */
  large?: LargeBody | undefined;
  depthMax?: number | undefined;
  valuesMax?: number | undefined;
};

/** Parsing less takes a fraction of a millisecond, and is not charged separately. */
const CHARGED_BYTES = 32 * 1024;
const EMPTY: Body = { bytes: new Uint8Array(), value: undefined };
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Throws if the request has a body, which headers need not announce. */
export async function assertNoBody(request: Request): Promise<void> {
  const detail = `${request.method} takes no body; send parameters in the path and query`;
  await readBytes(request, 0, () => new Fault("bad_request", detail));
}

/** Reads a body of at most `maxBytes`; an empty one needs no content type. */
export async function readBody(
  request: Request,
  maxBytes: number,
  { type: ownType, text, account, large, ...limits }: BodyOptions = {},
): Promise<Body> {
  if (!hasBody(request)) return EMPTY;
  const { headers } = request;
  const type = headers.get("Content-Type");
  const isText = type !== null && text !== undefined && matchesMediaType(type, text.type);
  const jsonTypes = ["application/json", ...ownType === undefined ? [] : [ownType]];
  if (type !== null && !isText && !jsonTypes.some((wanted) => matchesMediaType(type, wanted))) {
    const types = [...jsonTypes, ...text === undefined ? [] : [text.type]].join(" or ");
    throw new Fault("unsupported_media_type", `Expected Content-Type: ${types} in UTF-8`);
  }
  if ((headers.get("Content-Encoding") ?? "identity").toLowerCase() !== "identity") {
    throw new Fault("unsupported_media_type", "Compressed request bodies are not supported");
  }
  const bytes = await readBytes(
    request,
    maxBytes,
    () => new Fault("payload_too_large", `The request body is larger than ${maxBytes} bytes`),
    { onLarge: large && (() => large.enter()), account },
  );
  if (bytes.length === 0) return EMPTY;
  if (type === null) throw new Fault("unsupported_media_type", "Expected Content-Type: application/json");
  await large?.beginHandling();
  const value = (): unknown => isText ? { [text.field]: textOf(bytes, text.field) } : parseJson(bytes, limits);
  if (account === undefined || bytes.length < CHARGED_BYTES) return { bytes, value: value() };
  // Of several large bodies of one principal only one is parsed per tick.
  await account.waitForSlice();
  return { bytes, value: account.measure(value) };
}

function hasBody(request: Request): boolean {
  const length = request.headers.get("Content-Length");
  // `body` is read only if needed: it turns the body into a stream, which the runtime reads far slower.
  return length === null ? request.body !== null : length !== "0";
}

function textOf(bytes: Uint8Array, field: string): string {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch (thrown) {
    throw new Fault("bad_request", "The request body is not valid UTF-8", { cause: thrown });
  }
  if (!isSafeText(text)) throw unsafeTextFault(`/${field}`);
  return text;
}

function parseJson(
  bytes: Uint8Array,
  { depthMax = JSON_DEPTH_MAX, valuesMax = JSON_VALUES_MAX }: Pick<BodyOptions, "depthMax" | "valuesMax">,
): unknown {
  let raw: string;
  let value: unknown;
  try {
    raw = decoder.decode(bytes);
    if (isDeeperThan(raw, depthMax)) {
      throw new Fault("invalid_json", `The request body is nested deeper than ${depthMax} levels`);
    }
    if (hasMoreValuesThan(raw, valuesMax)) {
      throw new Fault("payload_too_large", `The request body has more than ${valuesMax} values; split it`);
    }
    value = JSON.parse(raw);
  } catch (thrown) {
    if (thrown instanceof Fault) throw thrown;
    throw new Fault("invalid_json", "The request body is not valid JSON in UTF-8", { cause: thrown });
  }
  const pointer = findUnsafeText(raw, value);
  if (pointer !== undefined) throw unsafeTextFault(pointer);
  return value;
}

function matchesMediaType(type: string, wanted: string): boolean {
  if (type === wanted) return true;
  const [essence = "", ...parameters] = type.toLowerCase().split(";").map((part) => part.trim());
  return essence === wanted &&
    parameters.every((parameter) => !parameter.startsWith("charset=") || /^charset="?utf-?8"?$/.test(parameter));
}
