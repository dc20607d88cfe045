// The channels of this node: opened with their first subscription, closed with their last, compared with the log periodically.
import { coalesce } from "@/core/coalesce.ts";
import type { Signal, StreamPosition } from "@/core/event/event.ts";
import { logOf } from "@/core/log.ts";
import { inChunks } from "@/core/page.ts";
import { streamKey } from "@/ports/store.ts";
import {
  ChannelFanout,
  type ChannelFanoutDeps,
  type ChannelRules,
  PRINCIPAL_RULES,
  type SubscriberConnection,
} from "./channel_fanout.ts";
import { Subscription } from "./subscription.ts";

const HEADS_PAGE = 500;
/** Ephemeral publications that may wait for a comparison; more are dropped. */
const WAITING_MAX = 1000;

const log = logOf("ws");

export class ChannelRegistry {
  readonly #deps: ChannelFanoutDeps;
  readonly #fanouts = new Map<string, ChannelFanout>();
  /** Those of channels that span streams. */
  readonly #spanning = new Set<ChannelFanout>();
  readonly #countByPrefix = new Map<string, number>();
  readonly #compare = coalesce(() => this.#compareAll());
  /** How often the bus may have lost events, and how many of these a comparison of heads has covered. */
  #suspectedLosses = 0;
  #checkedLosses = 0;
  #waiting = 0;

  constructor(deps: Omit<ChannelFanoutDeps, "checkUpToDate">) {
    this.#deps = { ...deps, checkUpToDate: () => this.#checkUpToDate() };
  }

  /** Subscriptions of a channel on this node. */
  sizeOf(tenantId: string, channel: string): number {
    return this.#fanouts.get(streamKey(tenantId, channel))?.size ?? 0;
  }

  /** Whether the channel is open here already, so that subscribing needs no read. */
  isReady(tenantId: string, channel: string): boolean {
    return this.#fanouts.get(streamKey(tenantId, channel))?.isReady ?? false;
  }

  /** Number of channels with subscriptions, by prefix. */
  counts(): Record<string, number> {
    return Object.fromEntries(this.#countByPrefix);
  }

  /** Adds a subscription to its channel; await `fanout.ready`. */
  subscribe(
    tenantId: string,
    channel: string,
    rules: ChannelRules,
    connection: SubscriberConnection,
    options: { isServerSide: boolean; wantsJoinLeave: boolean },
  ): Subscription {
    const key = streamKey(tenantId, channel);
    let fanout = this.#fanouts.get(key);
    if (fanout === undefined) {
      fanout = new ChannelFanout(this.#deps, tenantId, channel, rules, this.#onEmpty);
      this.#fanouts.set(key, fanout);
      if (rules.spansStreams === true) this.#spanning.add(fanout);
      this.#count(rules.prefix, 1);
    }
    return new Subscription(fanout, connection, options);
  }

  /**
   * Compares the head of each stream with the log, and reads what the bus did not deliver. Resolves to whether every channel
   * then has what the log had at the time of the call.
   */
  compareHeads(): Promise<boolean> {
    return this.#compare();
  }

  /** The bus disconnected or reconnected: until heads are compared, a removal may be among the missed events. */
  suspectLoss(): void {
    this.#suspectedLosses++;
    void this.compareHeads();
  }

  /** Ends subscriptions that depend on other streams, if their principal may have lost access to one; by default all. */
  revalidateSpanning(signal?: Signal): void {
    for (const fanout of [...this.#spanning]) fanout.revalidate(signal);
  }

  close(): void {
    for (const fanout of [...this.#fanouts.values()]) fanout.close();
  }

  #checkUpToDate(): Promise<boolean> | undefined {
    if (!this.#deps.bus.isHealthy) this.#suspectedLosses++;
    if (this.#checkedLosses === this.#suspectedLosses) return undefined;
    if (this.#waiting >= WAITING_MAX) return Promise.resolve(false);
    this.#waiting++;
    return this.compareHeads().finally(() => this.#waiting--);
  }

  async #compareAll(): Promise<boolean> {
    const losses = this.#suspectedLosses;
    const { isHealthy } = this.#deps.bus;
    const isComplete = await this.#compareFanouts();
    if (isComplete && isHealthy) this.#checkedLosses = losses;
    return isComplete;
  }

  /** A disabled principal receives nothing that was written in a room after that: the streams of principals are compared first. */
  async #compareFanouts(): Promise<boolean> {
    const durable = [...this.#fanouts.values()].filter((fanout) => fanout.isReady && fanout.streamReader !== undefined);
    const { principals = [], others = [] } = Object.groupBy(
      durable,
      ({ rules: { prefix } }) => prefix === PRINCIPAL_RULES.prefix ? "principals" : "others",
    );
    return await this.#compareEach(principals) && await this.#compareEach(others);
  }

  async #compareEach(fanouts: readonly ChannelFanout[]): Promise<boolean> {
    for (const page of inChunks(fanouts, HEADS_PAGE)) {
      try {
        const positions = await this.#deps.log.heads(
          page.map(({ tenantId, channel }) => ({ tenantId, stream: channel })),
        );
        const results = await Promise.all(page.map((fanout) => catchUp(fanout, positions.get(fanout.key))));
        if (!results.every(Boolean)) return false;
      } catch (thrown) {
        log.warn("comparing stream heads with the log failed", { cause: String(thrown) });
        return false;
      }
    }
    return true;
  }

  readonly #onEmpty = (fanout: ChannelFanout): void => {
    if (this.#fanouts.get(fanout.key) !== fanout) return;
    this.#fanouts.delete(fanout.key);
    this.#spanning.delete(fanout);
    this.#count(fanout.rules.prefix, -1);
  };

  #count(prefix: string, change: number): void {
    this.#countByPrefix.set(prefix, (this.#countByPrefix.get(prefix) ?? 0) + change);
  }
}

/** Reads a channel up to a position of the log, or ends it after a gap; false if the log could not be read. */
async function catchUp(fanout: ChannelFanout, position: StreamPosition | undefined): Promise<boolean> {
  const { streamReader } = fanout;
  if (position === undefined || streamReader === undefined) return true;
  // Twice, because a read in progress may have started before the position was taken.
  for (let attempts = 2; attempts > 0 && fanout.isReady; attempts--) {
    if (position.epoch !== streamReader.epoch) fanout.onGap();
    else if (position.head > streamReader.head) await streamReader.catchUp(position.head);
  }
  return !fanout.isReady || streamReader.head >= position.head;
}
