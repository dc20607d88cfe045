// The feeds of this node: made with their first subscription, gone with their last, compared with the log now and then.
import { logOf } from "@/core/log.ts";
import { streamKey } from "@/ports/store.ts";
import { Feed, type FeedDeps, type FeedRules } from "./feed.ts";
import { type Listener, Subscription } from "./subscription.ts";

const HEADS_PAGE = 500;

const log = logOf("ws");

/** Finds and makes feeds. */
export class Feeds {
  readonly #deps: FeedDeps;
  readonly #feeds = new Map<string, Feed>();
  readonly #countByPrefix = new Map<string, number>();
  #isComparing = false;
  #isComparisonDue = false;

  constructor(deps: FeedDeps) {
    this.#deps = deps;
  }

  /** Subscriptions of a channel on this node. */
  sizeOf(tenantId: string, channel: string): number {
    return this.#feeds.get(streamKey(tenantId, channel))?.size ?? 0;
  }

  /** Whether the channel is being heard already, so that looking at it costs nothing. */
  isReady(tenantId: string, channel: string): boolean {
    return this.#feeds.get(streamKey(tenantId, channel))?.isReady ?? false;
  }

  /** Channels with subscriptions, by prefix. */
  counts(): Record<string, number> {
    return Object.fromEntries(this.#countByPrefix);
  }

  /** A new subscription in its feed; wait for `feed.ready`. */
  enter(
    tenantId: string,
    channel: string,
    rules: FeedRules,
    listener: Listener,
    options: { isServerSide: boolean; wantsJoinLeave: boolean },
  ): Subscription {
    const key = streamKey(tenantId, channel);
    let feed = this.#feeds.get(key);
    if (feed === undefined) {
      feed = new Feed(this.#deps, tenantId, channel, rules, this.#onEmpty);
      this.#feeds.set(key, feed);
      this.#count(rules.prefix, 1);
    }
    return new Subscription(feed, listener, options);
  }

  /** Asks the log where each stream stands, and reads what the bus did not bring. One round at a time; a call during one asks for another. */
  async compareHeads(): Promise<void> {
    this.#isComparisonDue = true;
    if (this.#isComparing) return;
    this.#isComparing = true;
    while (this.#isComparisonDue) {
      this.#isComparisonDue = false;
      await this.#compareAll();
    }
    this.#isComparing = false;
  }

  close(): void {
    for (const feed of [...this.#feeds.values()]) feed.close();
  }

  async #compareAll(): Promise<void> {
    const feeds = [...this.#feeds.values()].filter((feed) => feed.isReady && feed.sequence !== undefined);
    for (let at = 0; at < feeds.length; at += HEADS_PAGE) {
      const page = feeds.slice(at, at + HEADS_PAGE);
      try {
        const positions = await this.#deps.log.heads(
          page.map(({ tenantId, channel }) => ({ tenantId, stream: channel })),
        );
        for (const feed of page) {
          const position = positions.get(feed.key);
          if (position === undefined || feed.sequence === undefined || !feed.isReady) continue;
          if (position.epoch !== feed.sequence.epoch) feed.lost();
          else if (position.head > feed.sequence.head) void feed.sequence.catchUp(position.head);
        }
      } catch (thrown) {
        log.warn("heads could not be compared with the log", { cause: String(thrown) });
        return;
      }
    }
  }

  readonly #onEmpty = (feed: Feed): void => {
    if (this.#feeds.get(feed.key) !== feed) return;
    this.#feeds.delete(feed.key);
    this.#count(feed.rules.prefix, -1);
  };

  #count(prefix: string, change: number): void {
    this.#countByPrefix.set(prefix, (this.#countByPrefix.get(prefix) ?? 0) + change);
  }
}
