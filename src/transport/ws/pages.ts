// Pages of the log as recoveries send them: after a cut many clients come back for the same events at once.
import type { StoredEvent } from "@/core/event.ts";
import { RecentMap } from "@/core/recent_map.ts";
import type { EventLog } from "@/ports/store.ts";
import { encodePublication } from "./frame.ts";

/** A page is at most a reply long, so few may be kept. */
const PAGES_MAX = 8;

/** The beginning of a page that fits into one reply, encoded. */
export type Reply = { count: number; publications: string };

/** Remembers the last pages. What is written in a log stays as it is, so a full page is right until it is forgotten. */
export class Pages {
  readonly #log: EventLog;
  readonly #pages = new RecentMap<string, Promise<readonly StoredEvent[]>>(PAGES_MAX);
  readonly #replies = new WeakMap<readonly StoredEvent[], Reply>();

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

  /** As many events from the first on as `maxBytes` hold; encoded once for all who get this very page. */
  replyOf(page: readonly StoredEvent[], maxBytes: number): Reply {
    let reply = this.#replies.get(page);
    if (reply === undefined) {
      let [size, count] = [0, 0];
      for (const { json } of page) {
        size += json.length;
        if (size > maxBytes) break;
        count++;
      }
      const publications = page.slice(0, count).map(({ json, seq }) => encodePublication(json, seq)).join(",");
      this.#replies.set(page, reply = { count, publications });
    }
    return reply;
  }
}
