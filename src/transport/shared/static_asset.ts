// Static texts: loaded at first use, revalidated by ETag, and compressed once. They must not contain secrets, since the
// compressed length reveals content.
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { parseAccept } from "@hono/hono/utils/accept";
import { matchesIfNoneMatch, readListHeader } from "@/core/http/request.ts";
import type { Route, RouteDocument } from "@/core/http/route.ts";
import { LONG_BYTES, pieceStream } from "./piece_stream.ts";

/** Smaller responses fit in one packet anyway. */
const COMPRESSED_MIN_BYTES = 1400;
/** Quality from 0 to 11: higher ones take ten times as long for 3 %. */
const BROTLI_QUALITY = 9;

/** Parameters and further responses of a `GET` of an asset, for the OpenAPI document. */
export const ASSET_PARAMETERS: NonNullable<RouteDocument["parameters"]> = [
  { $ref: "#/components/parameters/IfNoneMatch" },
];
export const ASSET_RESPONSES: RouteDocument["responses"] = { 304: { description: "Not modified" } };

/** The public route of one asset; `description` is that of its content. */
export function assetRoute(
  { description, ...route }: Pick<Route, "name" | "summary" | "path"> & { description: string },
  asset: StaticAsset,
): Route {
  const { mediaType } = asset;
  const schema = { type: mediaType.endsWith("json") ? "object" : "string" };
  return {
    ...route,
    tag: "operation",
    method: "GET",
    auth: "public",
    document: {
      parameters: ASSET_PARAMETERS,
      responses: { 200: { description, content: { [mediaType]: { schema } } }, ...ASSET_RESPONSES },
    },
    handle: (request) => asset.respond(request),
  };
}

/** Preferred encodings first. */
type Encoding = "br" | "gzip";
type Variant = { body: Uint8Array<ArrayBuffer>; headers: Record<string, string> };
type Options = {
  /** Added to every response with content. */
  headers?: Readonly<Record<string, string>>;
  /** For addresses that contain a digest: clients need not revalidate. */
  isImmutable?: boolean;
  encodings?: readonly Encoding[];
};

export class StaticAsset {
  readonly #load: () => string | Promise<string>;
  readonly #type: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #cacheControl: string;
  readonly #vary: string;
  readonly #encodings: readonly Encoding[];
  readonly #variants = new Map<Encoding | "plain", Promise<Variant>>();

  constructor(
    type: string,
    load: () => string | Promise<string>,
    { headers = {}, isImmutable = false, encodings = ["gzip"] }: Options = {},
  ) {
    const { Vary, ...others } = headers;
    this.#load = load;
    this.#headers = others;
    this.#type = type;
    // Otherwise clients must revalidate: after an upgrade the page must not load files of the previous version.
    this.#cacheControl = isImmutable ? "public, max-age=31536000, immutable" : "no-cache";
    this.#vary = ["Accept-Encoding", ...Vary === undefined ? [] : [Vary]].join(", ");
    this.#encodings = encodings;
  }

  /** The type without its parameters. */
  get mediaType(): string {
    return this.#type.split(";", 1)[0] ?? this.#type;
  }

  async respond(request: Request): Promise<Response> {
    const accepted = parseAcceptHeader(readListHeader(request.headers, "Accept-Encoding") ?? "");
    const encoding = this.#encodings.find((one) => accepted.get(one) ?? (one === "gzip" && accepted.get("*"))) ??
      "plain";
    const { body, headers } = await this.#variant(encoding);
    const cacheHeaders = { "Cache-Control": this.#cacheControl, "Vary": this.#vary };
    const { ETag = "" } = headers;
    if (matchesIfNoneMatch(request.headers, ETag)) {
      // Browsers store the headers of a 304 in place of those that they have, also the policy of a page.
      return new Response(null, { status: 304, headers: { ...this.#headers, ...cacheHeaders, ETag } });
    }
    const length = { "Content-Length": String(body.length) };
    return new Response(body.length < LONG_BYTES ? body : pieceStream(body), {
      headers: { ...this.#headers, "Content-Type": this.#type, ...cacheHeaders, ...length, ...headers },
    });
  }

  #variant(encoding: Encoding | "plain"): Promise<Variant> {
    const created = this.#variants.get(encoding) ??
      (encoding === "plain" ? this.#loadPlain() : this.#compress(encoding));
    this.#variants.set(encoding, created);
    return created;
  }

  async #loadPlain(): Promise<Variant> {
    const body = Buffer.from(await this.#load());
    const hash = createHash("sha256").update(body).digest("base64url").slice(0, 22);
    return { body, headers: { ETag: `"${hash}"` } };
  }

  /** The compressed variant has its own ETag: a strong ETag identifies exact bytes. */
  async #compress(encoding: Encoding): Promise<Variant> {
    const plain = await this.#variant("plain");
    const bytes = plain.body;
    if (bytes.length < COMPRESSED_MIN_BYTES) return plain;
    const ETag = plain.headers["ETag"]?.replace(/"$/, `-${encoding}"`) ?? "";
    return { body: new Uint8Array(await COMPRESS[encoding](bytes)), headers: { ETag, "Content-Encoding": encoding } };
  }
}

const COMPRESS: Readonly<Record<Encoding, (bytes: Uint8Array) => Promise<Uint8Array>>> = {
  br: promisify((bytes: Uint8Array, done: Callback) =>
    brotliCompress(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }, done)
  ),
  gzip: promisify((bytes: Uint8Array, done: Callback) => gzip(bytes, done)),
};
type Callback = (error: Error | null, result: Uint8Array) => void;

/** The values of a header such as `Accept`, in lower case, and whether each is acceptable: weight 0 excludes it. */
export function parseAcceptHeader(header: string): ReadonlyMap<string, boolean> {
  return new Map(parseAccept(header).map(({ type, q }) => [type.toLowerCase(), q > 0]));
}

/** Whether `Accept` includes a media type; its most specific range decides. */
export function acceptsType(headers: Headers, type: string): boolean {
  const accept = readListHeader(headers, "Accept");
  if (accept === null || accept === "" || accept === "*/*" || accept === type) return true;
  const accepted = parseAcceptHeader(accept);
  const ranges = [type, `${type.split("/")[0]}/*`, "*/*"];
  return ranges.map((range) => accepted.get(range)).find((isAccepted) => isAccepted !== undefined) === true;
}
