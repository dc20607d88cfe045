// One channel of one tenant on this node: who is subscribed here, what they hear, and who must stop hearing it.
import { Buffer } from "node:buffer";
import { emptied, type EphemeralEvent, type EventEffect, isHidden, type StoredEvent } from "@/core/event.ts";
import { logOf } from "@/core/log.ts";
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";
import type { Presence } from "@/ports/presence.ts";
import { type EventLog, streamKey } from "@/ports/store.ts";
import { because, CLOSE, UNSUBSCRIBE } from "./close.ts";
import { encodePublication, encodePush } from "./frame.ts";
import type { Pages } from "./pages.ts";
import { Sequence, type SequenceOwner } from "./sequence.ts";
import type { Batch, Subscription } from "./subscription.ts";

/** What of a channel's kind matters here. */
export type FeedRules = { prefix: string; isDurable: boolean; presenceMax: number };

export type FeedDeps = { bus: Bus; log: EventLog; pages: Pages; presence: Presence; repairDelayMs: number };

/** Who of the subscribers hears something. */
type Audience = { only?: ReadonlySet<string> | undefined; isJoinLeave?: boolean };

const log = logOf("ws");

/** Exists while it has subscriptions; listens to the bus for all of them once. */
export class Feed implements SequenceOwner {
  readonly tenantId: string;
  readonly channel: string;
  readonly key: string;
  readonly rules: FeedRules;
  /** The place in the log; `undefined` where nothing is durable. */
  readonly sequence: Sequence | undefined;
  /** Settles when everything published from now on is heard, and the position is known. */
  readonly ready: Promise<void>;
  readonly #deps: FeedDeps;
  readonly #onEmpty: (feed: Feed) => void;
  readonly #subscriptions = new Set<Subscription>();
  readonly #batches = new WeakMap<StoredEvent, Batch>();
  #bus: BusSubscription | undefined;
  #isReady = false;
  #isClosed = false;

  constructor(
    deps: FeedDeps,
    tenantId: string,
    channel: string,
    rules: FeedRules,
    onEmpty: (feed: Feed) => void,
  ) {
    this.#deps = deps;
    this.tenantId = tenantId;
    this.channel = channel;
    this.key = streamKey(tenantId, channel);
    this.rules = rules;
    this.#onEmpty = onEmpty;
    this.sequence = rules.isDurable ? new Sequence(deps.log, deps.repairDelayMs, this) : undefined;
    this.ready = this.#start();
    // Whoever waits for it hears of a failure; nobody may be waiting any more.
    this.ready.catch(() => {});
  }

  get size(): number {
    return this.#subscriptions.size;
  }

  get isReady(): boolean {
    return this.#isReady && !this.#isClosed;
  }

  /** Place of the last event handed on; 0 where nothing is durable. */
  get head(): number {
    return this.sequence?.head ?? 0;
  }

  /** Whether presence, join and leave are served now. */
  get hasPresence(): boolean {
    return this.rules.presenceMax > 0 && this.size <= this.rules.presenceMax;
  }

  add(subscription: Subscription): void {
    this.#subscriptions.add(subscription);
  }

  /** Makes a subscriber known to the others, after its own reply. */
  arrived(subscription: Subscription): void {
    if (this.rules.presenceMax === 0) return;
    this.#deps.presence.add(this.key, subscription.listener.info());
    this.#announce("join", subscription);
  }

  /** Forgets a subscription; `wasLive` when others knew of it. */
  remove(subscription: Subscription, wasLive: boolean): void {
    if (!this.#subscriptions.delete(subscription)) return;
    if (wasLive && this.rules.presenceMax > 0) {
      this.#deps.presence.remove(this.key, subscription.listener.client);
      this.#announce("leave", subscription);
    }
    if (this.size === 0) this.close();
  }

  /** Events of the log, in order. One that removes somebody no longer reaches them; one that some may not see reaches them empty. */
  deliver(events: readonly StoredEvent[]): void {
    let lines = "";
    let count = 0;
    let after = 0;
    const flush = (): void => {
      if (count > 0) this.#broadcast(batchOf(lines, count, after));
      lines = "";
      count = 0;
    };
    for (const event of events) {
      const { effect, type } = event;
      // What is taken out of the log is told of after it; nothing is when something comes into being.
      if (!type.endsWith(".created")) this.#deps.pages.forget(this.tenantId, this.channel);
      if (effect?.kind === "about") {
        if (this.#isHiddenFromSome(event)) {
          flush();
          this.#divide(event);
          continue;
        }
      } else if (effect !== undefined) {
        flush();
        this.#apply(effect);
      }
      const push = this.#encode(event);
      if (count === 0) after = event.seq - 1;
      lines = count === 0 ? push : `${lines}\n${push}`;
      count++;
    }
    flush();
  }

  /** An event as it is pushed to those who come back for it, encoded once for all of them. */
  pushOf(event: StoredEvent): Batch {
    let batch = this.#batches.get(event);
    if (batch === undefined) this.#batches.set(event, batch = this.#batchOf(event));
    return batch;
  }

  /** Events right after a place, at most `limit`; `undefined` when the log does not have them whole. */
  async read(after: number, limit: number): Promise<readonly StoredEvent[] | undefined> {
    const { tenantId, channel, sequence } = this;
    const events = await this.#deps.pages.read(tenantId, channel, after, limit);
    const [first] = events;
    return first?.seq === after + 1 && first.epoch === sequence?.epoch ? events : undefined;
  }

  /** Nobody here can be served without a hole: they come back with the position they have. */
  lost(): void {
    this.#end("*", UNSUBSCRIBE.insufficientState, CLOSE.insufficientState.reason);
    this.close();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#deps.pages.forget(this.tenantId, this.channel);
    this.sequence?.close();
    this.#bus?.close();
    this.#onEmpty(this);
  }

  async #start(): Promise<void> {
    const subscription = await this.#deps.bus.subscribe(this.key, (message) => this.#hear(message));
    if (this.#isClosed) return subscription.close();
    this.#bus = subscription;
    await this.sequence?.start();
    this.#isReady = true;
  }

  #hear(message: BusMessage): void {
    if (this.#isClosed) return;
    if (message.kind === "events") this.sequence?.accept(message.events);
    else if (message.kind === "ephemeral") this.#pass(message.event);
  }

  #pass(event: EphemeralEvent): void {
    const { push, json, infoJson } = event;
    const only = event.principalIds === undefined ? undefined : new Set(event.principalIds);
    if (push !== undefined) {
      this.#broadcast(batchOf(encodePush(this.channel, push, `{"info":${json}}`), 1), { only, isJoinLeave: true });
    } else {
      const info = infoJson === undefined ? "" : `,"info":${infoJson}`;
      this.#broadcast(batchOf(encodePush(this.channel, "pub", `{"data":${json}${info}}`), 1), { only });
    }
  }

  #broadcast(batch: Batch, { only, isJoinLeave = false }: Audience = {}): void {
    for (const subscription of this.#subscriptions) {
      if (only !== undefined && !only.has(subscription.listener.actor?.principalId ?? "")) continue;
      if (!isJoinLeave || subscription.wantsJoinLeave) subscription.deliver(batch);
    }
  }

  #isHiddenFromSome(event: StoredEvent): boolean {
    for (const { hiddenUpTo } of this.#subscriptions) if (isHidden(event, hiddenUpTo)) return true;
    return false;
  }

  /** The one event that is not the same for everybody: encoded twice, in its place among the others for each. */
  #divide(event: StoredEvent): void {
    const full = this.#batchOf(event);
    const empty = this.#batchOf(emptied(event));
    for (const subscription of this.#subscriptions) {
      subscription.deliver(isHidden(event, subscription.hiddenUpTo) ? empty : full);
    }
  }

  #batchOf(event: StoredEvent): Batch {
    return batchOf(this.#encode(event), 1, event.seq - 1);
  }

  #encode({ json, seq }: StoredEvent): string {
    return encodePush(this.channel, "pub", encodePublication(json, seq));
  }

  #apply(effect: Exclude<EventEffect, { kind: "about" }>): void {
    if (effect.kind === "evict") {
      const code = effect.resubscribe ? UNSUBSCRIBE.insufficientState : UNSUBSCRIBE.ended;
      return this.#end(effect.principalIds, code, effect.reason);
    }
    for (const { listener } of [...this.#subscriptions]) {
      const isMeant = effect.tokenId === undefined || listener.actor?.tokenId === effect.tokenId;
      if (isMeant) listener.close(because(CLOSE.forced, effect.reason));
    }
  }

  #end(principalIds: readonly string[] | "*", code: number, reason: string): void {
    const meant = principalIds === "*" ? undefined : new Set(principalIds);
    for (const subscription of [...this.#subscriptions]) {
      if (meant === undefined || meant.has(subscription.listener.actor?.principalId ?? "")) {
        subscription.end(code, reason);
      }
    }
    log.debug("subscriptions ended", { channel: this.channel, tenant: this.tenantId, code, reason });
  }

  #announce(push: "join" | "leave", { listener }: Subscription): void {
    if (!this.hasPresence) return;
    const { tenantId, channel } = this;
    const event: EphemeralEvent = { tenantId, channel, json: JSON.stringify(listener.info()), push };
    this.#deps.bus.publish(this.key, { kind: "ephemeral", event });
  }
}

function batchOf(text: string, count: number, after?: number): Batch {
  return { text, bytes: Buffer.byteLength(text), count, after };
}
