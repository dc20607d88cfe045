// Blobs in an S3-compatible store (AWS, MinIO, Garage, Ceph …), addressed by path, signed with Signature Version 4.
import { Buffer } from "node:buffer";
import { AwsClient } from "aws4fetch";
import { Fault } from "@/core/fault.ts";
import { type Blobs, type ByteRange, checkBlobKey } from "@/ports/blob.ts";

/** Larger contents go up in parts of this size, one in memory at a time; S3 takes no smaller ones than 5 MiB. */
const PART_BYTES = 8 * 1024 * 1024;

export type S3Options = {
  /** `https://s3.eu-central-1.amazonaws.com`, `http://minio:9000` … */
  endpoint: string;
  bucket: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
};

export class S3Blobs implements Blobs {
  readonly #client: AwsClient;
  readonly #base: string;

  constructor({ endpoint, bucket, region, accessKeyId, secretAccessKey }: S3Options) {
    this.#client = new AwsClient({ accessKeyId, secretAccessKey, region, service: "s3", retries: 3 });
    this.#base = `${endpoint.replace(/\/+$/, "")}/${encodeURIComponent(bucket)}/`;
  }

  async put(key: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    checkBlobKey(key);
    const parts = partsOf(content);
    const first = await parts.next();
    const second = first.done ? first : await parts.next();
    const [head, next] = [first.value ?? new Uint8Array(), second.value];
    if (next === undefined) {
      await drained(await this.#ask("PUT", key, { body: head }));
      return;
    }
    const uploadId = tagOf(await (await this.#ask("POST", `${key}?uploads`)).text(), "UploadId");
    const upload = `uploadId=${encodeURIComponent(uploadId)}`;
    try {
      const etags: string[] = [];
      const send = async (body: Uint8Array<ArrayBuffer>): Promise<void> => {
        const answer = await this.#ask("PUT", `${key}?partNumber=${etags.length + 1}&${upload}`, { body });
        etags.push(answer.headers.get("ETag") ?? "");
        await drained(answer);
      };
      await send(head);
      await send(next);
      for await (const part of parts) await send(part);
      const list = etags.map((etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
      const body = `<CompleteMultipartUpload>${list.join("")}</CompleteMultipartUpload>`;
      // A 200 may still carry an error: the store answers before it has put the parts together.
      tagOf(await (await this.#ask("POST", `${key}?${upload}`, { body })).text(), "ETag");
    } catch (error) {
      await this.#ask("DELETE", `${key}?${upload}`).then(drained).catch(() => {});
      throw error;
    }
  }

  async get(key: string, range?: ByteRange): Promise<ReadableStream<Uint8Array<ArrayBuffer>> | undefined> {
    checkBlobKey(key);
    const headers: Record<string, string> = range === undefined
      ? {}
      : { Range: `bytes=${range.start}-${range.end - 1}` };
    const answer = await this.#ask("GET", key, { headers });
    if (answer.status !== 404) return answer.body ?? new Blob([]).stream();
    await drained(answer);
    return undefined;
  }

  async head(key: string): Promise<{ size: number } | undefined> {
    checkBlobKey(key);
    const answer = await this.#ask("HEAD", key);
    await drained(answer);
    return answer.status === 404 ? undefined : { size: Number(answer.headers.get("Content-Length")) };
  }

  async delete(key: string): Promise<void> {
    checkBlobKey(key);
    await drained(await this.#ask("DELETE", key));
  }

  /** The answer; anything but success or "no such thing" is a store that does not work. */
  async #ask(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    let answer: Response;
    try {
      // No compression: what comes back is stored bytes, and their number is the header's.
      const headers = { "Accept-Encoding": "identity", ...init.headers };
      answer = await this.#client.fetch(`${this.#base}${path}`, { ...init, method, headers });
    } catch (cause) {
      throw new Fault("unavailable", "The file store does not answer right now", { cause });
    }
    if (answer.ok || answer.status === 404 && (method === "GET" || method === "HEAD" || method === "DELETE")) {
      return answer;
    }
    const text = (await answer.text()).slice(0, 500);
    throw new Fault("unavailable", "The file store does not work right now", {
      cause: new Error(`${method} answered ${answer.status}: ${text}`),
    });
  }
}

/** The content in buffers of the size of a part; only the last is shorter. */
async function* partsOf(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>, undefined> {
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
  if (text !== undefined) return text;
  throw new Fault("unavailable", "The file store does not work right now", {
    cause: new Error(`An answer without ${name}: ${xml.slice(0, 500)}`),
  });
}

async function drained(answer: Response): Promise<void> {
  await answer.body?.cancel();
}
