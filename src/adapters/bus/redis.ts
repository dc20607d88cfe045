// The bus of many nodes: Redis pub/sub, one connection to send and one to listen.
import { failureOf, logOf, rateLimitedWarning } from "@/core/log.ts";
import { inChunks } from "@/core/page.ts";
import { withTimeout } from "@/core/time/clock.ts";
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";
import { inThisContext } from "@/runtime/root_context.ts";
import { RedisConnection } from "../redis.ts";
import { MemoryBus } from "./memory.ts";

/** Bytes that may be queued for Redis; beyond that, messages are dropped to limit memory. */
const IN_FLIGHT_MAX_CHARS = 16 * 1024 * 1024;
const CHANNELS_PER_COMMAND = 1000;
/** Nodes reconnect together; one catch-up serves all of their notices. */
const RECOVERY_DELAY_MS = 50;
/** Twice the interval of liveness checks, so that only a missing response exceeds it. */
const CURRENT_MAX_MS = 1000;
/** By then a node that has not received a message has noticed that it is not current. */
export const FLUSH_MAX_MS = CURRENT_MAX_MS + 250;
const KINDS: readonly unknown[] = ["events", "ephemeral", "signal"] satisfies BusMessage["kind"][];

type Fence = { onReply: (node: string) => void; end: () => void };
type Topic = { listeners: number; activated: Promise<void> };

/**
 * Delivers through Redis, to listeners of this node as well. While Redis is unavailable, this node's listeners receive this
 * node's messages directly; nodes that missed some are notified afterwards, on a separate channel.
 */
export class RedisBus implements Bus {
  onLost: () => void = () => {};
  onRecovered: () => void = () => {};
  readonly #local = new MemoryBus();
  readonly #publisher: RedisConnection;
  readonly #subscriber: RedisConnection;
  readonly #topics = new Map<string, Topic>();
  readonly #topicPrefix: string;
  readonly #lossChannel: string;
  /** Every node replies to what arrives in the first, on the channel that it names: the second of the node that asks. */
  readonly #fenceChannel: string;
  readonly #replyChannel: string;
  readonly #warnNotSubscribed = rateLimitedWarning(
    logOf("redis"),
    "subscribing to a topic failed; will retry after reconnecting",
  );
  #isSubscribed = false;
  #wasDisconnected = false;
  /** Whether the sender may be connected to another server than the listener. */
  #mayDifferInServer = false;
  #hasLostMessages = false;
  #inFlightChars = 0;
  #outgoing: [channel: string, text: string][] = [];
  #recovery: ReturnType<typeof setTimeout> | undefined;
  /** Fences that wait for replies, by their number. */
  readonly #fences = new Map<string, Fence>();
  #fenceCount = 0;
  /** The reply channels of the nodes that a flush waits for. */
  readonly #members = new Set<string>();
  /** Whether all other nodes wait for this one. */
  #isMember = false;
  #isJoining = false;
  /** How often other nodes may have ceased to wait for this one. */
  #silences = 0;

  constructor(url: string, options: { prefix?: string } = {}) {
    const prefix = options.prefix ?? "svc:";
    this.#topicPrefix = `${prefix}bus:`;
    this.#lossChannel = `${prefix}bus-loss`;
    this.#fenceChannel = `${prefix}bus-fence`;
    this.#replyChannel = `${this.#fenceChannel}:${crypto.randomUUID()}`;
    const onResponse = (silentMs: number) => this.#onResponse(silentMs);
    this.#publisher = new RedisConnection(url, {
      onResponse,
      onReady: () => this.#followPublisher(),
      onUnavailable: (isUnfit) => {
        this.#leave();
        this.#mayDifferInServer = true;
        if (isUnfit) this.#hasLostMessages = true;
        this.onLost();
      },
    });
    this.#subscriber = new RedisConnection(url, {
      onResponse,
      isSubscriber: true,
      onReady: () => {
        this.#mayDifferInServer = false;
        this.#resubscribe();
      },
      onUnavailable: () => {
        this.#leave();
        this.#isSubscribed = false;
        this.#wasDisconnected = true;
        this.onLost();
      },
    });
    const receive = inThisContext((channel: string, text: string) => this.#receive(channel, text));
    this.#subscriber.client.on("message", receive);
  }

  get isHealthy(): boolean {
    return this.#publisher.isReady && this.#isSubscribed;
  }

  /** Not until listeners have been notified of what they missed, and other nodes wait for this one. */
  get isCurrent(): boolean {
    const silentMs = Math.max(this.#subscriber.silentMs, this.#publisher.silentMs);
    return this.isHealthy && this.#recovery === undefined && this.#isMember && silentMs < CURRENT_MAX_MS;
  }

  publish(topic: string, message: BusMessage): void {
    if (!this.isHealthy) this.#local.publish(topic, message);
    const text = encode(message);
    if (!this.#publisher.isReady || this.#inFlightChars + text.length > IN_FLIGHT_MAX_CHARS) {
      this.#hasLostMessages = true;
      return;
    }
    this.#inFlightChars += text.length;
    if (this.#outgoing.push([this.#topicPrefix + topic, text]) === 1) queueMicrotask(() => this.#send());
  }

  flush(): Promise<void> | undefined {
    if (!this.isHealthy) return undefined;
    return this.#fence().replied;
  }

  async subscribe(topic: string, listener: (message: BusMessage) => void): Promise<BusSubscription> {
    const entry = this.#topics.get(topic) ?? this.#activate(topic);
    entry.listeners += 1;
    const local = await this.#local.subscribe(topic, listener);
    await entry.activated;
    let isOpen = true;
    const close = (): void => {
      if (!isOpen) return;
      isOpen = false;
      local.close();
      entry.listeners -= 1;
      if (entry.listeners === 0) this.#deactivate(topic);
    };
    return { close };
  }

  async close(): Promise<void> {
    clearTimeout(this.#recovery);
    this.onLost = this.onRecovered = () => {};
    this.#send();
    for (const { end } of this.#fences.values()) end();
    await Promise.all([this.#publisher.close(), this.#subscriber.close(), this.#local.close()]);
    clearTimeout(this.#recovery);
  }

  /** While Redis is unavailable a topic counts as active: `#listen` subscribes to all of them when it returns. */
  #activate(topic: string): Topic {
    const activated = this.#subscriber.firstAttempt.then(async () => {
      if (!this.#subscriber.isReady || !this.#topics.has(topic)) return;
      await this.#subscriber.client.subscribe(this.#topicPrefix + topic)
        .catch((cause) => this.#warnNotSubscribed(failureOf(cause)));
    });
    const entry = { listeners: 0, activated };
    this.#topics.set(topic, entry);
    return entry;
  }

  #deactivate(topic: string): void {
    this.#topics.delete(topic);
    // A message of a topic without listeners is dropped.
    if (this.#subscriber.isReady) this.#subscriber.client.unsubscribe(this.#topicPrefix + topic).catch(() => {});
  }

  /** Sends what was published in this tick in one write: for a busy commit that is a fifth of Redis' work. */
  #send(): void {
    if (this.#outgoing.length === 0) return;
    const pipeline = this.#publisher.client.pipeline();
    let chars = 0;
    for (const [channel, text] of this.#outgoing) {
      pipeline.publish(channel, text);
      chars += text.length;
    }
    this.#outgoing = [];
    const settle = (isLost: boolean): void => {
      this.#inFlightChars -= chars;
      if (isLost) this.#hasLostMessages = true;
      else this.#publishLoss();
    };
    pipeline.exec().then((replies) => settle(replies?.some(([error]) => error !== null) !== false), () => settle(true));
  }

  /** Reconnects the listener to the sender's server: its own may be a replica now without having closed the connection. */
  #followPublisher(): void {
    if (this.#mayDifferInServer) {
      this.#mayDifferInServer = false;
      this.#isSubscribed = false;
      this.#subscriber.reconnect();
    }
    this.#publishLoss();
  }

  async #resubscribe(): Promise<void> {
    const own = [this.#lossChannel, this.#fenceChannel, this.#replyChannel];
    const channels = [...own, ...[...this.#topics.keys()].map((topic) => this.#topicPrefix + topic)];
    try {
      for (const some of inChunks(channels, CHANNELS_PER_COMMAND)) await this.#subscriber.client.subscribe(...some);
    } catch {
      return; // Disconnected again; the next reconnect starts over.
    }
    this.#isSubscribed = true;
    if (this.#wasDisconnected) this.#scheduleRecovery();
    this.#wasDisconnected = false;
  }

  #receive(channel: string, text: string): void {
    if (channel === this.#lossChannel) return this.#scheduleRecovery();
    if (channel === this.#replyChannel) {
      const [id = "", node = ""] = text.split(" ");
      return this.#fences.get(id)?.onReply(node);
    }
    if (channel === this.#fenceChannel) return this.#reply(text);
    const message = decode(text);
    if (message !== undefined) this.#local.publish(channel.slice(this.#topicPrefix.length), message);
  }

  #reply(fence: string): void {
    const [node = "", id = ""] = fence.split(" ");
    this.#members.add(node);
    this.#publisher.client.publish(node, `${id} ${this.#replyChannel}`).catch(() => {}); // Who asked waits no longer than it must.
  }

  /**
   * A message over the connection that sent the others arrives after them, and each node replies. Only members are waited for. One that
   * is silent is none until it joins again, which is right because it is not current meanwhile:
   *
   * - It has not received the fence, so no check of its subscription that was sent since has a response: it is not current.
   * - It notices that with the next response, and joins by a fence of its own. Members that reply wait for it from then on.
   * - It is current once all have replied. A node that did not reply is silent itself: not current, it waits for all that are subscribed.
   */
  #fence(): { replied: Promise<void>; isSent: Promise<boolean> } {
    this.#send();
    const id = `${++this.#fenceCount}`;
    const { promise, resolve: end } = Promise.withResolvers<void>();
    const members = new Set(this.#members);
    const replies = new Set<string>();
    let subscribers = Infinity;
    const { isCurrent } = this;
    const check = (): void => {
      if (replies.size >= subscribers || isCurrent && members.isSubsetOf(replies)) end();
    };
    const onReply = (node: string): void => {
      replies.add(node);
      check();
    };
    this.#fences.set(id, { onReply, end });
    const isSent = this.#publisher.client.publish(this.#fenceChannel, `${this.#replyChannel} ${id}`).then((count) => {
      subscribers = count;
      check();
      return true;
    }, () => (end(), false));
    const replied = withTimeout(promise, FLUSH_MAX_MS);
    void replied.then(async () => {
      // This node may have been the silent one: replies that Redis has sent are received before its response.
      const isAnswered = await this.#subscriber.client.ping().then(() => true, () => false);
      this.#fences.delete(id);
      if (!isAnswered || !await isSent) return;
      for (const node of members.difference(replies)) this.#members.delete(node);
    });
    return { replied, isSent };
  }

  #leave(): void {
    this.#isMember = false;
    this.#silences++;
  }

  /** After a silence, others may wait for this node no longer. */
  #onResponse(silentMs: number): void {
    if (silentMs >= CURRENT_MAX_MS) this.#leave();
    if (!this.#isMember && !this.#isJoining && this.isHealthy) void this.#join();
  }

  async #join(): Promise<void> {
    this.#isJoining = true;
    const before = this.#silences;
    const { replied, isSent } = this.#fence();
    await replied;
    this.#isMember = await isSent && before === this.#silences;
    this.#isJoining = false;
  }

  /** Messages lost while sending are missing on every node, so all nodes are notified. */
  #publishLoss(): void {
    if (!this.#hasLostMessages || this.#inFlightChars > 0) return;
    this.#hasLostMessages = false;
    this.#publisher.client.publish(this.#lossChannel, "").catch(() => this.#hasLostMessages = true);
  }

  #scheduleRecovery(): void {
    clearTimeout(this.#recovery);
    this.#recovery = setTimeout(() => {
      this.#recovery = undefined;
      this.onRecovered();
    }, RECOVERY_DELAY_MS);
  }
}

/**
 * One line of JSON; for events, followed by a line for each. They are JSON already, without line breaks: quoting them again would
 * cost twice as much to send and three times as much to receive.
 */
function encode(message: BusMessage): string {
  if (message.kind !== "events") return JSON.stringify(message);
  const [{ tenantId, stream, epoch } = {}] = message.events;
  const events = message.events.map(({ seq, type, effect }) => ({ seq, type, effect }));
  let text = JSON.stringify({ kind: message.kind, tenantId, stream, epoch, events });
  for (const { json } of message.events) text += `\n${json}`;
  return text;
}

/** `undefined` for a message of an unknown kind, which a newer node may send. */
function decode(text: string): BusMessage | undefined {
  try {
    const [line = "", ...lines] = text.split("\n");
    // Written by `encode` of a node with the same Redis and database.
    const message = JSON.parse(line);
    if (!KINDS.includes(message?.kind)) return undefined;
    if (message.kind !== "events") return message;
    const { kind, tenantId, stream, epoch, events } = message;
    const isWhole = Array.isArray(events) && events.length === lines.length;
    return isWhole
      ? { kind, events: events.map((event, at) => ({ tenantId, stream, epoch, ...event, json: lines[at] })) }
      : undefined;
  } catch {
    return undefined;
  }
}
