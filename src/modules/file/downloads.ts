// Contents on their way to clients. Each keeps a file or a connection open for as long as its client takes, so they have places.
import { tenantOfCharged } from "@/core/actor.ts";
import type { Clock } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { OwnerTally } from "@/core/owner_tally.ts";
import type { Blobs } from "@/ports/blob.ts";

type Content = NonNullable<Awaited<ReturnType<Blobs["get"]>>>;

/** On a node: of a principal and its agents, of a tenant, and of all. A tenant leaves a part to others. */
export const DOWNLOADS = { perOwner: 128, perTenant: 1000, perNode: 1250 };
/** Who has taken nothing for so long gives its place to the next one. Until then a paused video keeps it. */
export const DOWNLOAD_STALLED_MS = 5000;
const RETRY_MS = 1000;

type Download = { readonly owner: string; waitsSince: number; cutOff(): void };

export class Downloads {
  readonly #clock: Clock;
  readonly #open = new OwnerTally();
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
    this.#open.add(owner, 1);
    let isOpen = true;
    const leave = (): void => {
      if (isOpen) this.#open.add(owner, -1);
      isOpen = false;
    };
    try {
      const content = await open();
      if (content === undefined) leave();
      return content && this.#follow(owner, content, leave);
    } catch (thrown) {
      leave();
      throw thrown;
    }
  }

  #makeRoom(owner: string): void {
    const { perOwner, perTenant, perNode } = DOWNLOADS;
    const isOwners = this.#open.ofOwner(owner) >= perOwner;
    const isTenants = this.#open.ofTenant(owner) >= perTenant;
    if (!isOwners && !isTenants && this.#open.total < perNode) return;
    const tenantId = tenantOfCharged(owner);
    const since = this.#clock.now() - DOWNLOAD_STALLED_MS;
    for (const download of this.#waiting) {
      if (download.waitsSince > since) break;
      if (isOwners ? download.owner !== owner : isTenants && tenantOfCharged(download.owner) !== tenantId) continue;
      return download.cutOff();
    }
    const who = isOwners ? `At most ${perOwner}` : "Too many";
    throw new Fault("rate_limited", `${who} downloads at the same time`, { retryAfterMs: RETRY_MS });
  }

  #follow(owner: string, content: Content, leave: () => void): Content {
    const reader = content.getReader();
    const download: Download = { owner, waitsSince: 0, cutOff() {} };
    const wait = (): void => {
      download.waitsSince = this.#clock.now();
      this.#waiting.add(download);
    };
    const end = (): void => {
      this.#waiting.delete(download);
      leave();
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
