// Caches encoded pages of the log: after an outage many clients recover the same events at once.
import { Buffer } from "node:buffer";
import type { StoredEvent } from "@/core/event/event.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { EventLog } from "@/ports/store.ts";
import { encodePublication } from "./protocol.ts";

/** Events read at once; bounds memory however long the events are. */
export const PAGE_SIZE = 100;
const PAGES_MAX = 32;

/** A page as encoded in a reply. */
type EncodedPage = { bytes: number; publications: string };

/** Caches the last pages. Stored events do not change, so a full page stays valid until it is invalidated. */
export class RecoveryCache {
  readonly #log: EventLog;
  readonly #pages = new LruMap<string, Promise<readonly StoredEvent[]>>(PAGES_MAX);
  readonly #encoded = new WeakMap<readonly StoredEvent[], EncodedPage>();

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** The `limit` events after a position; fewer if the log does not have them. */
  read(tenantId: string, stream: string, after: number, limit: number): Promise<readonly StoredEvent[]> {
    const key = `${tenantId}/${stream} ${after} ${limit}`;
    const cached = this.#pages.get(key);
    if (cached !== undefined) return cached;
    const page = this.#log.read(tenantId, stream, after, limit);
    this.#pages.set(key, page);
    const evict = (): void => {
      if (this.#pages.get(key) === page) this.#pages.delete(key);
    };
    page.then((events) => events.length < limit && evict(), evict);
    return page;
  }

  /** Evicts a stream: events may have been redacted, or this node no longer receives its redactions. */
  invalidate(tenantId: string, stream: string): void {
    for (const [key] of this.#pages) if (key.startsWith(`${tenantId}/${stream} `)) this.#pages.delete(key);
  }

  /** The encoded page; encoded once per array. */
  encode(page: readonly StoredEvent[]): EncodedPage {
    let encoded = this.#encoded.get(page);
    if (encoded === undefined) {
      const publications = page.map(({ json, seq }) => encodePublication(json, seq)).join(",");
      encoded = { bytes: Buffer.byteLength(publications), publications };
      this.#encoded.set(page, encoded);
    }
    return encoded;
  }
}
