// Blobs in an S3-compatible store (AWS, MinIO, Garage, Ceph …), addressed by path, signed with Signature Version 4.
import { Buffer } from "node:buffer";
import { AwsClient } from "aws4fetch";
import { inTime } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { type Blobs, type ByteRange, checkBlobKey } from "@/ports/blob.ts";

/** Larger contents go up in parts of this size, one in memory at a time; S3 takes no smaller ones than 5 MiB. */
const PART_BYTES = 8 * 1024 * 1024;
/** An answer that does not begin, or go on, within this time never will. What is sent may take as long as a slow line does. */
const PATIENCE_MS = 30_000;
const SLOWEST_BYTES_PER_MS = 16;
/** What a store tells us is shorter; of an error that is not, the start will do. */
const TEXT_MAX_BYTES = 65_536;
const PARTIAL_CONTENT = 206;
/** How often a store that is busy is asked again, and how long after the first time at most; then twice as long each time. */
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

type Part = Uint8Array<ArrayBuffer>;
type Ask = { body?: Part | string; headers?: Record<string, string> };

export class S3Blobs implements Blobs {
  readonly #client: AwsClient;
  readonly #base: string;
  readonly #patienceMs: number;

  constructor(
    { endpoint, bucket, region, accessKeyId, secretAccessKey }: S3Options,
    { patienceMs = PATIENCE_MS }: { patienceMs?: number } = {},
  ) {
    this.#client = new AwsClient({ accessKeyId, secretAccessKey, region, service: "s3", retries: 0 });
    this.#base = `${endpoint.replace(/\/+$/, "")}/${encodeURIComponent(bucket)}/`;
    this.#patienceMs = patienceMs;
  }

  async put(key: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    checkBlobKey(key);
    const parts = partsOf(content);
    try {
      const first = await parts.next();
      const second = first.done ? first : await parts.next();
      const [head, next] = [first.value ?? new Uint8Array(), second.value];
      if (next === undefined) await drained(await this.#ask("PUT", key, { body: head }));
      else await this.#putParts(key, head, next, parts);
    } finally {
      // A content that cannot go there may be held open by what it comes from.
      await parts.return(undefined);
    }
  }

  async get(key: string, range?: ByteRange): Promise<ReadableStream<Part> | undefined> {
    checkBlobKey(key);
    const headers: Record<string, string> = range === undefined
      ? {}
      : { Range: `bytes=${range.start}-${range.end - 1}` };
    const answer = await this.#find("GET", key, { headers });
    if (answer === undefined) return undefined;
    if (range !== undefined && answer.status !== PARTIAL_CONTENT) {
      await drained(answer);
      throw unavailable(new Error(`A range was asked for, and the answer is ${answer.status}`));
    }
    return this.#bodyOf(answer);
  }

  async delete(key: string): Promise<void> {
    checkBlobKey(key);
    const answer = await this.#find("DELETE", key);
    if (answer !== undefined) await drained(answer);
  }

  async #putParts(key: string, first: Part, second: Part, others: AsyncIterable<Part>): Promise<void> {
    const uploadId = tagOf(await this.#text(await this.#ask("POST", `${key}?uploads`)), "UploadId");
    const upload = `uploadId=${encodeURIComponent(uploadId)}`;
    try {
      const etags: string[] = [];
      const send = async (body: Part): Promise<void> => {
        const answer = await this.#ask("PUT", `${key}?partNumber=${etags.length + 1}&${upload}`, { body });
        etags.push(answer.headers.get("ETag") ?? "");
        await drained(answer);
      };
      await send(first);
      await send(second);
      for await (const part of others) await send(part);
      const list = etags.map((etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
      const body = `<CompleteMultipartUpload>${list.join("")}</CompleteMultipartUpload>`;
      // A 200 may still carry an error: the store answers before it has put the parts together.
      tagOf(await this.#text(await this.#ask("POST", `${key}?${upload}`, { body })), "ETag");
    } catch (error) {
      await this.#ask("DELETE", `${key}?${upload}`).then(drained).catch(() => {});
      throw error;
    }
  }

  /** The answer of what must be there. */
  async #ask(method: string, path: string, ask?: Ask): Promise<Response> {
    const answer = await this.#find(method, path, ask);
    if (answer === undefined) throw unavailable(new Error(`${method} found nothing`));
    return answer;
  }

  /** The answer; `undefined` for what is not there. Anything else but success is a store that does not work. */
  async #find(method: string, path: string, ask: Ask = {}): Promise<Response | undefined> {
    try {
      for (let retry = 0;; retry++) {
        const answer = await this.#send(method, path, ask);
        if (answer.ok) return answer;
        const text = await this.#text(answer);
        if (answer.status === 404 && !text.includes("NoSuchBucket")) return undefined;
        const isBusy = answer.status >= 500 || answer.status === 429;
        if (!isBusy || retry === RETRIES) {
          throw new Error(`${method} answered ${answer.status}: ${text.slice(0, 500)}`);
        }
        await new Promise((resolve) => setTimeout(resolve, Math.random() * RETRY_MS * 2 ** retry));
      }
    } catch (cause) {
      throw unavailable(cause);
    }
  }

  async #send(method: string, path: string, { body, headers }: Ask): Promise<Response> {
    const patience = new AbortController();
    const limitMs = this.#patienceMs + (body?.length ?? 0) / SLOWEST_BYTES_PER_MS;
    const timer = setTimeout(() => patience.abort(new Error("No answer came")), limitMs);
    try {
      return await this.#client.fetch(`${this.#base}${path}`, {
        method,
        // No compression: what comes back is stored bytes, and their number is the header's.
        headers: { "Accept-Encoding": "identity", ...headers },
        ...(body === undefined ? {} : { body }),
        // Elsewhere our signature counts for nothing, and what answers there is not the store: nothing would have been kept.
        redirect: "manual",
        signal: patience.signal,
      });
    } finally {
      clearTimeout(timer);
    }
  }

  async #text(answer: Response): Promise<string> {
    const chunks: Part[] = [];
    let size = 0;
    // Leaving the loop early lets go of the rest.
    for await (const chunk of this.#bodyOf(answer)) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > TEXT_MAX_BYTES) break;
    }
    return Buffer.concat(chunks, size).toString();
  }

  /** The body of an answer, for as long as it goes on. */
  #bodyOf(answer: Response): ReadableStream<Part> {
    const reader = (answer.body ?? new Blob([]).stream()).getReader();
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const next = await inTime(reader.read(), this.#patienceMs);
          if (next === undefined) throw new Error("The answer stopped in the middle");
          if (next.done) controller.close();
          else controller.enqueue(next.value);
        } catch (cause) {
          reader.cancel().catch(() => {});
          throw unavailable(cause);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    }, { highWaterMark: 0 });
  }
}

/** The content in buffers of the size of a part; only the last is shorter. */
async function* partsOf(content: AsyncIterable<Uint8Array>): AsyncGenerator<Part, undefined> {
  let chunks: Uint8Array[] = [];
  let size = 0;
  for await (let chunk of content) {
    while (size + chunk.length > PART_BYTES) {
      const fitting = PART_BYTES - size;
      yield Buffer.concat([...chunks, chunk.subarray(0, fitting)], PART_BYTES);
      chunk = chunk.subarray(fitting);
      [chunks, size] = [[], 0];
    }
    chunks.push(chunk);
    size += chunk.length;
  }
  if (size > 0) yield Buffer.concat(chunks, size);
}

/** Text of the first element of this name in an answer of the store. */
function tagOf(xml: string, name: string): string {
  const text = new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml)?.[1];
  if (text === undefined) throw unavailable(new Error(`An answer without ${name}: ${xml.slice(0, 500)}`));
  return text;
}

function unavailable(cause: unknown): Fault {
  return new Fault("unavailable", "The file store does not work right now", { cause });
}

async function drained(answer: Response): Promise<void> {
  await answer.body?.cancel();
}
