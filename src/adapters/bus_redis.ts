// The bus of many nodes: Redis pub/sub, one connection to send and one to listen.
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";
import { MemoryBus } from "./bus_memory.ts";
import { RedisConnection } from "./redis.ts";

/** What may wait for Redis to take it; beyond that, messages are lost rather than memory. */
const IN_FLIGHT_MAX_CHARS = 16 * 1024 * 1024;
const CHANNELS_PER_COMMAND = 1000;
/** Nodes come back together; one catch-up answers all of their notices. */
const RECOVERY_DELAY_MS = 50;
const KINDS: readonly unknown[] = ["events", "ephemeral", "signal"] satisfies BusMessage["kind"][];

type Topic = { listeners: number; isActive: Promise<void> };

/**
 * Delivers through Redis, to listeners of this node as well. While Redis is away this node's listeners still get this
 * node's messages, directly; the nodes that missed some hear of it afterwards, on a channel of their own.
 */
export class RedisBus implements Bus {
  onRecovered: () => void = () => {};
  readonly #local = new MemoryBus();
  readonly #publisher: RedisConnection;
  readonly #subscriber: RedisConnection;
  readonly #topics = new Map<string, Topic>();
  readonly #topicPrefix: string;
  readonly #lossChannel: string;
  #isListening = false;
  #wasAway = false;
  /** Whether the sender may have gone to another server since the listener went to its own. */
  #mayBeApart = false;
  #hasLost = false;
  #inFlightChars = 0;
  #outgoing: [channel: string, text: string][] = [];
  #recovery: ReturnType<typeof setTimeout> | undefined;

  constructor(url: string, options: { prefix?: string } = {}) {
    const prefix = options.prefix ?? "svc:";
    this.#topicPrefix = `${prefix}bus:`;
    this.#lossChannel = `${prefix}bus-loss`;
    this.#publisher = new RedisConnection(url, {
      onReady: () => this.#join(),
      onAway: (isUnfit) => {
        this.#mayBeApart = true;
        if (isUnfit) this.#hasLost = true;
      },
    });
    this.#subscriber = new RedisConnection(url, {
      isListener: true,
      onReady: () => {
        this.#mayBeApart = false;
        this.#listen();
      },
      onAway: () => {
        this.#isListening = false;
        this.#wasAway = true;
      },
    });
    this.#subscriber.client.on("message", (channel: string, text: string) => this.#receive(channel, text));
  }

  get isHealthy(): boolean {
    return this.#publisher.isReady && this.#isListening;
  }

  publish(topic: string, message: BusMessage): void {
    if (!this.isHealthy) this.#local.publish(topic, message);
    const text = encode(message);
    if (!this.#publisher.isReady || this.#inFlightChars + text.length > IN_FLIGHT_MAX_CHARS) {
      this.#hasLost = true;
      return;
    }
    this.#inFlightChars += text.length;
    if (this.#outgoing.push([this.#topicPrefix + topic, text]) === 1) queueMicrotask(() => this.#send());
  }

  async subscribe(topic: string, listener: (message: BusMessage) => void): Promise<BusSubscription> {
    const entry = this.#topics.get(topic) ?? this.#activate(topic);
    entry.listeners += 1;
    const local = await this.#local.subscribe(topic, listener);
    await entry.isActive;
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
    this.onRecovered = () => {};
    this.#send();
    await Promise.all([this.#publisher.close(), this.#subscriber.close(), this.#local.close()]);
    clearTimeout(this.#recovery);
  }

  /** While Redis is away a topic counts as active: `#listen` takes all of them up when it returns. */
  #activate(topic: string): Topic {
    const isActive = this.#subscriber.tried.then(async () => {
      if (!this.#subscriber.isReady || !this.#topics.has(topic)) return;
      await this.#subscriber.client.subscribe(this.#topicPrefix + topic).catch(() => {});
    });
    const entry = { listeners: 0, isActive };
    this.#topics.set(topic, entry);
    return entry;
  }

  #deactivate(topic: string): void {
    this.#topics.delete(topic);
    if (this.#subscriber.isReady) this.#subscriber.client.unsubscribe(this.#topicPrefix + topic).catch(() => {});
  }

  /** Sends what was published since this turn began, in one write: for a busy commit that is a fifth of Redis' work. */
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
      if (isLost) this.#hasLost = true;
      else this.#tellLoss();
    };
    pipeline.exec().then((replies) => settle(replies?.some(([error]) => error !== null) !== false), () => settle(true));
  }

  /** The listener goes where the sender is: its own server, no master any more, need not have cut it off. */
  #join(): void {
    if (this.#mayBeApart) {
      this.#mayBeApart = false;
      this.#isListening = false;
      this.#subscriber.renew();
    }
    this.#tellLoss();
  }

  async #listen(): Promise<void> {
    const channels = [this.#lossChannel, ...[...this.#topics.keys()].map((topic) => this.#topicPrefix + topic)];
    try {
      for (let start = 0; start < channels.length; start += CHANNELS_PER_COMMAND) {
        await this.#subscriber.client.subscribe(...channels.slice(start, start + CHANNELS_PER_COMMAND));
      }
    } catch {
      return; // Gone again; its next return begins anew.
    }
    this.#isListening = true;
    if (this.#wasAway) this.#recoverSoon();
    this.#wasAway = false;
  }

  #receive(channel: string, text: string): void {
    if (channel === this.#lossChannel) return this.#recoverSoon();
    const message = decode(text);
    if (message !== undefined) this.#local.publish(channel.slice(this.#topicPrefix.length), message);
  }

  /** What was lost on the way out is missing on every node, and they cannot know unless told. */
  #tellLoss(): void {
    if (!this.#hasLost || this.#inFlightChars > 0) return;
    this.#hasLost = false;
    this.#publisher.client.publish(this.#lossChannel, "").catch(() => this.#hasLost = true);
  }

  #recoverSoon(): void {
    clearTimeout(this.#recovery);
    this.#recovery = setTimeout(() => this.onRecovered(), RECOVERY_DELAY_MS);
  }
}

/**
 * One line of JSON; of events, a line each follows. They are JSON already, which has no line breaks: quoted once more, a
 * message would cost twice as much to send and three times as much to receive.
 */
function encode(message: BusMessage): string {
  if (message.kind !== "events") return JSON.stringify(message);
  const [{ tenantId, stream, epoch } = {}] = message.events;
  const events = message.events.map(({ seq, type, effect }) => ({ seq, type, effect }));
  let text = JSON.stringify({ kind: message.kind, tenantId, stream, epoch, events });
  for (const { json } of message.events) text += `\n${json}`;
  return text;
}

/** A message of a newer node may be of a kind this one does not know; it is passed over. */
function decode(text: string): BusMessage | undefined {
  try {
    const [line = "", ...lines] = text.split("\n");
    // Written by `encode` of a node that shares our Redis and our database.
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
