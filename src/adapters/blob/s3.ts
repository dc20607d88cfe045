// Blobs in an S3-compatible store (AWS, MinIO, Garage, Ceph …), addressed by path, signed with Signature Version 4.
import { Buffer } from "node:buffer";
import { AwsClient } from "aws4fetch";
import { delay, withTimeout } from "@/core/time/clock.ts";
import { failureOf, logOf, rateLimitedWarning } from "@/core/log.ts";
import { Slots } from "@/core/limit/slots.ts";
import { trimTrailing } from "@/core/text/text.ts";
import { assertBlobKey, type Blobs, type ByteRange } from "@/ports/blob.ts";
import { allowHostOf, type Outbound, OutboundError, type OutboundOptions } from "@/ports/outbound.ts";
import { storeUnavailable } from "./files.ts";
import { Spool, SPOOL_MEMORY_BYTES } from "./spool.ts";

/** Larger contents are uploaded in parts of this size; S3 requires at least 5 MiB. */
const PART_BYTES = 8 * 1024 * 1024;
/** Parts that are sent at a time, each from memory. Others wait in files. */
const PARTS_IN_MEMORY = 16;
/** Longest wait for a response, or for more of it. Sending may take as long as a slow network needs. */
const RESPONSE_TIMEOUT_MS = 30_000;
const MIN_UPLOAD_BYTES_PER_MS = 16;
/** Longest part of a response that is read; only errors may be longer. */
const TEXT_MAX_BYTES = 65_536;
const PARTIAL_CONTENT = 206;
/** Retries where the store is busy or the connection is lost, and the longest first delay; later ones double. */
const RETRIES = 3;
const RETRY_MS = 50;

export type S3Options = {
  /** `https://s3.eu-central-1.amazonaws.com`, `http://minio:9000` … */
  endpoint: string;
  bucket: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
};

type Bytes = Uint8Array<ArrayBuffer>;
type S3Request = { body?: Bytes | string; headers?: Record<string, string> };
type S3BlobsOptions = {
  /** The folder of parts that have not arrived completely. */
  folder: string;
  responseTimeoutMs?: number;
};

export class S3Blobs implements Blobs {
  readonly #outbound: Outbound;
  readonly #signer: AwsClient;
  readonly #base: string;
  /** The response may be as large as a file, and last as long as its reader; `#send` and `#bodyOf` bound the waits. */
  readonly #bounds: OutboundOptions;
  readonly #timeoutMs: number;
  readonly #folder: string;
  readonly #large = new Slots({ total: PARTS_IN_MEMORY });
  readonly #warnNotAborted = rateLimitedWarning(
    logOf("file"),
    "aborting a multipart upload failed; its parts remain until the bucket expires them",
  );

  constructor(
    outbound: Outbound,
    { endpoint, bucket, region, accessKeyId, secretAccessKey }: S3Options,
    { folder, responseTimeoutMs = RESPONSE_TIMEOUT_MS }: S3BlobsOptions,
  ) {
    this.#outbound = outbound;
    this.#folder = folder;
    this.#bounds = { ...allowHostOf(endpoint), totalMs: Infinity, bodyMaxBytes: Infinity };
    this.#signer = new AwsClient({ accessKeyId, secretAccessKey, region, service: "s3", retries: 0 });
    this.#base = `${trimTrailing(endpoint, "/")}/${encodeURIComponent(bucket)}/`;
    this.#timeoutMs = responseTimeoutMs;
  }

  async put(key: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    assertBlobKey(key);
    using spool = new Spool(this.#folder);
    const parts = fillParts(content, spool);
    try {
      const first = await parts.next();
      if (first.value === "last") await this.#putBytes(key, spool);
      else await this.#putParts(key, spool, parts);
    } finally {
      // The source of a content that cannot be uploaded may still be open.
      await parts.return(undefined);
    }
  }

  async get(key: string, range?: ByteRange): Promise<ReadableStream<Bytes> | undefined> {
    assertBlobKey(key);
    const headers: Record<string, string> = range === undefined
      ? {}
      : { Range: `bytes=${range.start}-${range.end - 1}` };
    const response = await this.#requestOptional("GET", key, { headers });
    if (response === undefined) return undefined;
    if (range !== undefined && response.status !== PARTIAL_CONTENT) {
      await discardBody(response);
      throw storeUnavailable(
        new Error(`Expected a partial response to a range request, received status ${response.status}`),
      );
    }
    return this.#bodyOf(response, range === undefined ? undefined : range.end - range.start);
  }

  async delete(key: string): Promise<void> {
    assertBlobKey(key);
    const response = await this.#requestOptional("DELETE", key);
    if (response !== undefined) await discardBody(response);
  }

  /** Uploads a content whose first part is in the spool. */
  async #putParts(key: string, spool: Spool, others: AsyncIterable<unknown>): Promise<void> {
    const uploadId = xmlText(await this.#text(await this.#request("POST", `${key}?uploads`)), "UploadId");
    const upload = `uploadId=${encodeURIComponent(uploadId)}`;
    try {
      const etags: string[] = [];
      const send = async (): Promise<void> => {
        etags.push(await this.#putBytes(`${key}?partNumber=${etags.length + 1}&${upload}`, spool));
      };
      await send();
      for await (const _part of others) await send();
      const list = etags.map((etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
      const body = `<CompleteMultipartUpload>${list.join("")}</CompleteMultipartUpload>`;
      // A 200 may still contain an error: the store responds before it has combined the parts.
      xmlText(await this.#text(await this.#request("POST", `${key}?${upload}`, { body })), "ETag");
    } catch (thrown) {
      await this.#request("DELETE", `${key}?${upload}`).then(discardBody).catch((cause) =>
        this.#warnNotAborted(failureOf(cause))
      );
      throw thrown;
    }
  }

  /** Stores what is in the spool; resolves to its ETag. */
  async #putBytes(path: string, spool: Spool): Promise<string> {
    using _slot = spool.size > SPOOL_MEMORY_BYTES ? await this.#large.acquire([]) : undefined;
    const response = await this.#request("PUT", path, { body: await spool.take() });
    await discardBody(response);
    const etag = response.headers.get("ETag");
    // Each store names what it has stored. A response without a name is that of a proxy, and nothing was stored.
    if (etag === null) throw storeUnavailable(new Error("PUT: expected an ETag in the response, received none"));
    return etag;
  }

  /** The response; throws when the resource does not exist. */
  async #request(method: string, path: string, ask?: S3Request): Promise<Response> {
    const response = await this.#requestOptional(method, path, ask);
    if (response === undefined) throw storeUnavailable(new Error(`${method}: object not found`));
    return response;
  }

  /** The response; `undefined` when the resource does not exist. Any other status but success means that the store is unavailable. */
  async #requestOptional(method: string, path: string, ask: S3Request = {}): Promise<Response | undefined> {
    try {
      for (let retry = 0;; retry++) {
        const isLast = retry === RETRIES;
        const response = await this.#send(method, path, ask).catch((cause) => {
          // Each request can be repeated, also where only its response was lost.
          if (!isLast && isConnectionFailure(cause)) return undefined;
          throw cause;
        });
        if (response?.ok === true) return response;
        if (response !== undefined) {
          const text = await this.#text(response);
          // Without this code it is not the store that says so, but what is before it, or the bucket is missing.
          if (response.status === 404 && text.includes("NoSuchKey")) return undefined;
          const isBusy = response.status >= 500 || response.status === 429;
          if (!isBusy || isLast) throw new Error(`${method} returned ${response.status}: ${text.slice(0, 500)}`);
        }
        await delay(Math.random() * RETRY_MS * 2 ** retry);
      }
    } catch (cause) {
      throw storeUnavailable(cause);
    }
  }

  async #send(method: string, path: string, { body, headers }: S3Request): Promise<Response> {
    const controller = new AbortController();
    const limitMs = this.#timeoutMs + (body?.length ?? 0) / MIN_UPLOAD_BYTES_PER_MS;
    const timer = setTimeout(() => controller.abort(new Error("No response received")), limitMs);
    try {
      // The signature does not cover the body.
      const signed = await this.#signer.sign(`${this.#base}${path}`, { method, ...(headers && { headers }) });
      return await this.#outbound(signed.url, {
        method,
        headers: signed.headers,
        body,
        signal: controller.signal,
      }, this.#bounds);
    } finally {
      clearTimeout(timer);
    }
  }

  async #text(response: Response): Promise<string> {
    const chunks: Bytes[] = [];
    let size = 0;
    // Leaving the loop early cancels the stream.
    for await (const chunk of this.#bodyOf(response)) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > TEXT_MAX_BYTES) break;
    }
    return Buffer.concat(chunks, size).toString();
  }

  /** The body of a response, with a timeout for each chunk; `bytes` is the least that it must have. */
  #bodyOf(response: Response, bytes = 0): ReadableStream<Bytes> {
    const reader = (response.body ?? new Blob([]).stream()).getReader();
    let missing = bytes;
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const next = await withTimeout(reader.read(), this.#timeoutMs);
          if (next === undefined || (next.done && missing > 0)) throw new Error("The response ended early");
          if (next.done) return controller.close();
          missing -= next.value.length;
          controller.enqueue(next.value);
        } catch (cause) {
          // The relevant failure is thrown below.
          reader.cancel().catch(() => {});
          throw storeUnavailable(cause);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    }, { highWaterMark: 0 });
  }
}

/** Fills the spool with one part after the other; only the last is shorter. */
async function* fillParts(
  content: AsyncIterable<Uint8Array>,
  spool: Spool,
): AsyncGenerator<"part" | "last", undefined> {
  for await (let chunk of content) {
    while (spool.size + chunk.length > PART_BYTES) {
      const fitting = PART_BYTES - spool.size;
      await spool.add(chunk.subarray(0, fitting));
      yield "part";
      chunk = chunk.subarray(fitting);
    }
    await spool.add(chunk);
  }
  yield "last";
}

/** Text of the first element of this name in a response of the store. */
function xmlText(xml: string, name: string): string {
  const [, rest = ""] = xml.split(`<${name}>`, 2);
  const [text = ""] = rest.split(`</${name}>`, 1);
  if (text === "" || text.includes("<")) {
    throw storeUnavailable(new Error(`Expected ${name} in the response, received ${xml.slice(0, 500)}`));
  }
  return text;
}

function isConnectionFailure(error: unknown): boolean {
  return error instanceof OutboundError && error.code === "connection_failed";
}

async function discardBody(response: Response): Promise<void> {
  await response.body?.cancel();
}
