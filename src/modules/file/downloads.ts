// Contents on their way to clients. Each keeps a file or a connection open for as long as its client takes, so they have places.
import { tenantOfCharged } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { Places } from "@/core/limit/slots.ts";
import type { Blobs } from "@/ports/blob.ts";

type Content = NonNullable<Awaited<ReturnType<Blobs["get"]>>>;

/** Downloads at once on a node: of a principal and its agents, of a tenant, and in total. A tenant leaves a part to others. */
export const DOWNLOADS = { perOwner: 128, perTenant: 1000, perNode: 1250 };
/** A download of which nothing was read for so long loses its place to the next one. Until then a paused video keeps it. */
export const DOWNLOAD_STALLED_MS = 5000;

type Download = { readonly owner: string; waitsSince: number; cutOff(): void };

export class Downloads {
  readonly #clock: Clock;
  readonly #places = new Places("downloads", DOWNLOADS);
  /** Those whose clients could take something; who has taken nothing for longest is first. */
  readonly #waiting = new Set<Download>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * The content that `open` resolves to, with a place until it is read or left. `owner` is a key as returned by `chargedTo`. Throws
   * `rate_limited` if there is no place, and none whose client takes nothing.
   */
  async start(owner: string, open: () => Promise<Content | undefined>): Promise<Content | undefined> {
    this.#makeRoom(owner);
    const place = this.#places.enter(owner);
    try {
      const content = await open();
      if (content === undefined) place[Symbol.dispose]();
      return content && this.#follow(owner, content, place);
    } catch (thrown) {
      place[Symbol.dispose]();
      throw thrown;
    }
  }

  /** If there is no place, ends the download whose client has taken nothing for longest, of those that have its places. */
  #makeRoom(owner: string): void {
    const full = this.#places.fullOf(owner);
    if (full === undefined) return;
    const tenantId = tenantOfCharged(owner);
    const since = this.#clock.now() - DOWNLOAD_STALLED_MS;
    for (const download of this.#waiting) {
      if (download.waitsSince > since) return;
      if (full === "owner" && download.owner !== owner) continue;
      if (full === "tenant" && tenantOfCharged(download.owner) !== tenantId) continue;
      return download.cutOff();
    }
  }

  #follow(owner: string, content: Content, place: Disposable): Content {
    const reader = content.getReader();
    const download: Download = { owner, waitsSince: 0, cutOff() {} };
    const wait = (): void => {
      download.waitsSince = this.#clock.now();
      this.#waiting.add(download);
    };
    const end = (): void => {
      this.#waiting.delete(download);
      place[Symbol.dispose]();
    };
    return new ReadableStream({
      start(controller) {
        download.cutOff = () => {
          end();
          controller.error(new Fault("rate_limited", "The client takes nothing, and others need its place"));
          // Nobody is interested in what is left, nor in how its source ends.
          reader.cancel().catch(() => {});
        };
        wait();
      },
      pull: async (controller) => {
        // What is read now is not waited for by the client.
        this.#waiting.delete(download);
        try {
          const { done, value } = await reader.read();
          if (done) {
            end();
            return controller.close();
          }
          controller.enqueue(value);
          wait();
        } catch (thrown) {
          end();
          throw thrown;
        }
      },
      cancel(reason) {
        end();
        return reader.cancel(reason);
      },
    }, { highWaterMark: 0 });
  }
}
