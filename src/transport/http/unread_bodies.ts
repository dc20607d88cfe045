// Bodies of requests that were answered without them, such as refused ones. Short ones are read all the same, so that clients which
// send everything before they read the response get it, and keep their connection. Long ones only as far as this is cheap.
import { LruMap } from "@/core/lru_map.ts";
import { TokenBucket } from "@/core/limit/token_bucket.ts";
import { closeUnread } from "@/runtime/unread_body.ts";
import { addressLimitKey } from "../shared/client_address.ts";

/** Not counted: no longer than the headers of a request may be. */
const SHORT_BYTES = 16 * 1024;
/** Bytes that are read for nothing, for each address. To read a megabyte takes one or two milliseconds. */
const RATE = { perSecond: 1024 * 1024, burst: 8 * 1024 * 1024 };
const ADDRESSES_MAX = 10_000;
/** Time in which a client that is still sending can read the response. */
const LINGER_MS = 1000;
/** Beyond so many connections that linger, others are closed at once. */
const LINGERING_MAX = 1000;

export class UnreadBodies {
  readonly #buckets = new LruMap<string, TokenBucket>(ADDRESSES_MAX);
  #lingering = 0;

  /** To be called for every request before its response is returned. */
  release(request: Request, ip: string): void {
    const length = Number(request.headers.get("Content-Length") ?? 0);
    if (length <= SHORT_BYTES || request.bodyUsed || this.#bucketOf(ip).consume(performance.now(), length)) return;
    if (request.body === null || request.body.locked) return;
    this.#lingering++;
    const lingerMs = this.#lingering > LINGERING_MAX ? 0 : LINGER_MS;
    void closeUnread(request.body, lingerMs).finally(() => this.#lingering--);
  }

  #bucketOf(ip: string): TokenBucket {
    const key = addressLimitKey(ip);
    const bucket = this.#buckets.get(key) ?? new TokenBucket(RATE, performance.now());
    this.#buckets.set(key, bucket);
    return bucket;
  }
}
