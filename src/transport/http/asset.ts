// Texts that are the same for everybody until the next version: made at first use, asked again with a short 304, and packed
// once for whoever takes gzip. Nothing secret may be in them, since length would tell of it.
import { createHash } from "node:crypto";
import type { RouteDocument } from "@/core/route.ts";
import { wishesOf } from "./endpoint.ts";
import { isNoneMatch } from "./etag.ts";

/** Fewer bytes go in one packet anyway. */
const PACKED_MIN_BYTES = 1400;

/** What a `GET` of an asset takes and answers besides its content, for the OpenAPI document. */
export const ASSET_PARAMETERS: NonNullable<RouteDocument["parameters"]> = [
  { $ref: "#/components/parameters/IfNoneMatch" },
];
export const ASSET_RESPONSES: RouteDocument["responses"] = { 304: { description: "Not changed" } };

type Form = { body: BodyInit; headers: Record<string, string> };

export class Asset {
  readonly #load: () => string | Promise<string>;
  readonly #headers: Record<string, string>;
  #plain: Promise<Form> | undefined;
  #packed: Promise<Form> | undefined;

  /** `headers` are those of every answer. */
  constructor(type: string, load: () => string | Promise<string>, headers: Record<string, string> = {}) {
    this.#load = load;
    this.#headers = { ...headers, "Content-Type": type };
  }

  async answer(request: Request): Promise<Response> {
    const { body, headers } =
      await (takesGzip(request.headers.get("Accept-Encoding"))
        ? this.#packed ??= this.#pack()
        : this.#plain ??= this.#make());
    // Not kept without asking: after an upgrade the page would meet files of the version before.
    const always = { "Cache-Control": "no-cache", "Vary": "Accept-Encoding" };
    const { ETag = "" } = headers;
    if (isNoneMatch(request.headers.get("If-None-Match"), ETag)) {
      return new Response(null, { status: 304, headers: { ...always, ETag } });
    }
    return new Response(body, { headers: { ...this.#headers, ...always, ...headers } });
  }

  async #make(): Promise<Form> {
    const body = await this.#load();
    const hash = createHash("sha256").update(body).digest("base64url").slice(0, 22);
    return { body, headers: { ETag: `"${hash}"` } };
  }

  /** A form of its own with a tag of its own: a strong tag stands for these very bytes. */
  async #pack(): Promise<Form> {
    const plain = await (this.#plain ??= this.#make());
    const bytes = await new Response(plain.body).bytes();
    if (bytes.length < PACKED_MIN_BYTES) return plain;
    const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
    const ETag = plain.headers["ETag"]?.replace(/"$/, '-gzip"') ?? "";
    return { body: await new Response(packed).bytes(), headers: { ETag, "Content-Encoding": "gzip" } };
  }
}

/** Whether an `Accept-Encoding` takes gzip: by name, or as anything not named. */
function takesGzip(header: string | null): boolean {
  const codings = wishesOf(header ?? "");
  return codings.get("gzip") ?? codings.get("*") ?? false;
}
