// Pages of the log as recoveries send them: after a cut many clients come back for the same events at once.
import { Buffer } from "node:buffer";
import type { StoredEvent } from "@/core/event.ts";
import { RecentMap } from "@/core/recent_map.ts";
import type { EventLog } from "@/ports/store.ts";
import { encodePublication } from "./frame.ts";

/** Events read at once, so that hardly more of the log is held in memory than is sent, however long its events are. */
export const PAGE = 100;
const PAGES_MAX = 32;

/** A page as it stands in a reply. */
export type Encoded = { bytes: number; publications: string };

/** Remembers the last pages. What is written in a log stays as it is, so a full page is right until it is forgotten. */
export class Pages {
  readonly #log: EventLog;
  readonly #pages = new RecentMap<string, Promise<readonly StoredEvent[]>>(PAGES_MAX);
  readonly #encoded = new WeakMap<readonly StoredEvent[], Encoded>();

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** The `limit` events right after a place; fewer when the log does not have them. */
  read(tenantId: string, stream: string, after: number, limit: number): Promise<readonly StoredEvent[]> {
    const key = `${tenantId}/${stream} ${after} ${limit}`;
    const known = this.#pages.get(key);
    if (known !== undefined) return known;
    const page = this.#log.read(tenantId, stream, after, limit);
    this.#pages.set(key, page);
    const forget = (): void => {
      if (this.#pages.get(key) === page) this.#pages.delete(key);
    };
    page.then((events) => events.length < limit && forget(), forget);
    return page;
  }

  /** Forgets a stream: what stood in it may have been taken out, or nobody here would hear of it any more. */
  forget(tenantId: string, stream: string): void {
    for (const [key] of this.#pages) if (key.startsWith(`${tenantId}/${stream} `)) this.#pages.delete(key);
  }

  /** Encoded once for all who get this very page. */
  encoded(page: readonly StoredEvent[]): Encoded {
    let encoded = this.#encoded.get(page);
    if (encoded === undefined) {
      const publications = page.map(({ json, seq }) => encodePublication(json, seq)).join(",");
      encoded = { bytes: Buffer.byteLength(publications), publications };
      this.#encoded.set(page, encoded);
    }
    return encoded;
  }
}
