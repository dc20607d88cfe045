// Static texts: loaded at first use, revalidated by ETag, and compressed once. They must not contain secrets, since the
// compressed length reveals content.
import { createHash } from "node:crypto";
import { parseAccept } from "@hono/hono/utils/accept";
import { matchesIfNoneMatch, readListHeader } from "@/core/request.ts";
import type { RouteDocument } from "@/core/route.ts";

/** Smaller responses fit in one packet anyway. */
const GZIP_MIN_BYTES = 1400;

/** Parameters and further responses of a `GET` of an asset, for the OpenAPI document. */
export const ASSET_PARAMETERS: NonNullable<RouteDocument["parameters"]> = [
  { $ref: "#/components/parameters/IfNoneMatch" },
];
export const ASSET_RESPONSES: RouteDocument["responses"] = { 304: { description: "Not modified" } };

type Variant = { body: BodyInit; headers: Record<string, string> };

export class StaticAsset {
  readonly #load: () => string | Promise<string>;
  readonly #headers: Record<string, string>;
  #plain: Promise<Variant> | undefined;
  #gzipped: Promise<Variant> | undefined;

  /** `headers` are added to every response with content. */
  constructor(type: string, load: () => string | Promise<string>, headers: Record<string, string> = {}) {
    this.#load = load;
    this.#headers = { ...headers, "Content-Type": type };
  }

  async respond(request: Request): Promise<Response> {
    const { body, headers } =
      await (acceptsGzip(readListHeader(request.headers, "Accept-Encoding"))
        ? this.#gzipped ??= this.#gzip()
        : this.#plain ??= this.#loadPlain());
    // Clients must revalidate: after an upgrade the page must not load files of the previous version.
    const cacheHeaders = { "Cache-Control": "no-cache", "Vary": "Accept-Encoding" };
    const { ETag = "" } = headers;
    if (matchesIfNoneMatch(request.headers, ETag)) {
      return new Response(null, { status: 304, headers: { ...cacheHeaders, ETag } });
    }
    return new Response(body, { headers: { ...this.#headers, ...cacheHeaders, ...headers } });
  }

  async #loadPlain(): Promise<Variant> {
    const body = await this.#load();
    const hash = createHash("sha256").update(body).digest("base64url").slice(0, 22);
    return { body, headers: { ETag: `"${hash}"` } };
  }

  /** The compressed variant has its own ETag: a strong ETag identifies exact bytes. */
  async #gzip(): Promise<Variant> {
    const plain = await (this.#plain ??= this.#loadPlain());
    const bytes = await new Response(plain.body).bytes();
    if (bytes.length < GZIP_MIN_BYTES) return plain;
    const compressed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
    const ETag = plain.headers["ETag"]?.replace(/"$/, '-gzip"') ?? "";
    return { body: await new Response(compressed).bytes(), headers: { ETag, "Content-Encoding": "gzip" } };
  }
}

/** Whether an `Accept-Encoding` accepts gzip, by name or by `*`. */
function acceptsGzip(header: string | null): boolean {
  const codings = parseAcceptHeader(header ?? "");
  return codings.get("gzip") ?? codings.get("*") ?? false;
}

/** The values of a header such as `Accept`, in lower case, and whether each is acceptable: weight 0 excludes it. */
export function parseAcceptHeader(header: string): ReadonlyMap<string, boolean> {
  return new Map(parseAccept(header).map(({ type, q }) => [type.toLowerCase(), q > 0]));
}
