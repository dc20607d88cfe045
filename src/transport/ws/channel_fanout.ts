// One channel of one tenant on this node: its subscriptions, what they receive, and when they end.
import { Buffer } from "node:buffer";
import { type Actor, isGuest } from "@/core/actor.ts";
import type { PresenceVisibility } from "@/core/event/channel.ts";
import {
  type EphemeralEvent,
  type EventEffect,
  mayEndAccess,
  type Signal,
  type StoredEvent,
} from "@/core/event/event.ts";
import { type EventFilter, type EventView, isHidden, redact } from "@/core/event/event_view.ts";
import { logOf } from "@/core/log.ts";
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";
import type { ClientInfo, Presence } from "@/ports/presence.ts";
import { type EventLog, streamKey } from "@/ports/store.ts";
import { DISCONNECT, type Disconnect, withReason } from "../shared/disconnect.ts";
import { encodePublication, encodePush, UNSUBSCRIBE } from "./protocol.ts";
import { GuestPresence } from "./guest_presence.ts";
import type { Message } from "./outbox.ts";
import type { RecoveryCache } from "./recovery_cache.ts";
import { StreamReader, type StreamReaderOwner } from "./stream_reader.ts";

/** The properties of a channel kind that delivery depends on. */
export type ChannelRules = {
  prefix: string;
  isDurable: boolean;
  presenceMax: number;
  presenceVisibility?: PresenceVisibility | undefined;
  spansStreams?: boolean;
};

/** The channel of a principal, which the server subscribes each of its connections to. */
export const PRINCIPAL_RULES: ChannelRules = { prefix: "principal", isDurable: true, presenceMax: 0 };

export type ChannelFanoutDeps = {
  bus: Bus;
  log: EventLog;
  recoveryCache: RecoveryCache;
  presence: Presence;
  repairDelayMs: number;
  /** Resolves to whether subscribers are up to date; `undefined` while the bus is reliable. */
  checkUpToDate: () => Promise<boolean> | undefined;
};

/** Pushes encoded for many sockets. */
export type EncodedPush = Message & {
  /** The position before the first of them; `undefined` if they are not in the log. */
  readonly afterSeq: number | undefined;
};

/** A connection as a subscription sees it. */
export interface SubscriberConnection {
  readonly client: string;
  readonly actor: Actor | undefined;
  /** Types of events that its token may receive; `undefined` = all. */
  readonly eventFilter: EventFilter | undefined;
  /** Whether its outbox is so full that senders should wait. */
  readonly isBackpressured: boolean;
  info(): ClientInfo;
  /** False if this is too much at once even for a client that reads fast enough. */
  push(message: Message): boolean;
  /** Counts publications that are not sent and cannot be recovered. */
  discard(count: number): void;
  /** The subscription has ended. */
  removeSubscription(channel: string): void;
  close(disconnect: Disconnect): void;
}

/** A subscription as its channel sees it. */
export interface ChannelSubscriber {
  readonly connection: SubscriberConnection;
  readonly wantsJoinLeave: boolean;
  /** What of the stream it may receive. */
  readonly view: EventView;
  deliver(push: EncodedPush): void;
  end(code: number, reason: string): void;
}

/** Which subscribers receive a push. */
type Recipients = { principalIds?: ReadonlySet<string> | undefined };

/** Events are joined to pushes up to this length: the runtime is given whole pushes, see `Outbox`. */
const PUSH_CHARS = 64 * 1024;

const log = logOf("ws");

/** Exists while it has subscriptions; subscribes to the bus once for all of them. */
export class ChannelFanout implements StreamReaderOwner {
  readonly tenantId: string;
  readonly channel: string;
  readonly key: string;
  readonly rules: ChannelRules;
  /** Reads the log; `undefined` if the channel is not durable. */
  readonly streamReader: StreamReader | undefined;
  /** Resolves when the bus subscription is active and the position is known. */
  readonly ready: Promise<void>;
  readonly #deps: ChannelFanoutDeps;
  readonly #onEmpty: (fanout: ChannelFanout) => void;
  readonly #subscriptions = new Set<ChannelSubscriber>();
  readonly #encodedPushes = new WeakMap<StoredEvent, EncodedPush>();
  readonly #guestPresence: GuestPresence<EncodedPush> | undefined;
  #bus: BusSubscription | undefined;
  #isReady = false;
  #isClosed = false;

  constructor(
    deps: ChannelFanoutDeps,
    tenantId: string,
    channel: string,
    rules: ChannelRules,
    onEmpty: (fanout: ChannelFanout) => void,
  ) {
    this.#deps = deps;
    this.tenantId = tenantId;
    this.channel = channel;
    this.key = streamKey(tenantId, channel);
    this.rules = rules;
    this.#onEmpty = onEmpty;
    if (rules.presenceVisibility !== undefined) this.#guestPresence = new GuestPresence(rules.presenceVisibility);
    this.streamReader = rules.isDurable ? new StreamReader(deps.log, deps.repairDelayMs, this) : undefined;
    this.ready = this.#start();
    // Those that await it get the failure; there may be none left.
    this.ready.catch(() => {});
  }

  get size(): number {
    return this.#subscriptions.size;
  }

  get isReady(): boolean {
    return this.#isReady && !this.#isClosed;
  }

  /** Seq of the last event delivered; 0 if the channel is not durable. */
  get head(): number {
    return this.streamReader?.head ?? 0;
  }

  /** Whether presence, join and leave are served now. */
  get hasPresence(): boolean {
    return this.rules.presenceMax > 0 && this.size <= this.rules.presenceMax;
  }

  add(subscription: ChannelSubscriber): void {
    this.#subscriptions.add(subscription);
  }

  /** Announces a subscriber to the others, after its own reply. */
  announceJoin(subscription: ChannelSubscriber): void {
    if (this.rules.presenceMax === 0) return;
    this.#deps.presence.add(this.key, subscription.connection.info());
    this.#announce("join", subscription);
  }

  /** Ends subscriptions whose principal may have lost access to a stream; by default all. The clients subscribe again. */
  revalidate(signal?: Signal): void {
    for (const subscription of [...this.#subscriptions]) {
      const { actor } = subscription.connection;
      const ids = [actor?.principalId ?? null, actor?.ownerId ?? null];
      if (signal !== undefined && !mayEndAccess(signal, this.tenantId, ids)) continue;
      subscription.end(UNSUBSCRIBE.insufficientState, "access may have ended");
    }
  }

  /** Removes a subscription; `wasLive` if its join was announced. */
  remove(subscription: ChannelSubscriber, wasLive: boolean): void {
    if (!this.#subscriptions.delete(subscription)) return;
    if (wasLive && this.rules.presenceMax > 0) {
      this.#deps.presence.remove(this.key, subscription.connection.client);
      this.#announce("leave", subscription);
    }
    if (this.size === 0) this.close();
  }

  /** Delivers events of the log in order. A removed member does not receive its removal; a hidden event arrives redacted. */
  deliver(events: readonly StoredEvent[]): void {
    let lines = "";
    let count = 0;
    let after = 0;
    const flush = (): void => {
      if (count > 0) this.#broadcast(encodedPush(lines, count, after));
      lines = "";
      count = 0;
    };
    const isFiltered = this.#hasFilteredSubscriber();
    for (const event of events) {
      const { effect, type } = event;
      // Redactions of the log are announced by later events, but never by a `.created` event.
      if (!type.endsWith(".created")) this.#deps.recoveryCache.invalidate(this.tenantId, this.channel);
      if (effect !== undefined && effect.kind !== "concerns") {
        flush();
        this.#applyEffect(effect);
      }
      if ((isFiltered || effect?.kind === "concerns") && this.#isHiddenFromAny(event)) {
        flush();
        this.#deliverPerReader(event);
        continue;
      }
      const push = this.#encode(event);
      if (count === 0) after = event.seq - 1;
      lines = count === 0 ? push : `${lines}\n${push}`;
      count++;
      if (lines.length > PUSH_CHARS) flush();
    }
    flush();
  }

  /** An event as pushed during catch-up, encoded once for all subscribers. */
  pushOf(event: StoredEvent): EncodedPush {
    let push = this.#encodedPushes.get(event);
    if (push === undefined) this.#encodedPushes.set(event, push = this.#encodePushOf(event));
    return push;
  }

  /** Up to `limit` events after a position; `undefined` if the log no longer has all of them. */
  async read(after: number, limit: number): Promise<readonly StoredEvent[] | undefined> {
    const { tenantId, channel, streamReader } = this;
    const events = await this.#deps.recoveryCache.read(tenantId, channel, after, limit);
    const [first] = events;
    return first?.seq === after + 1 && first.epoch === streamReader?.epoch ? events : undefined;
  }

  /** Ends all subscriptions after a gap: clients resubscribe and recover from their position. */
  onGap(): void {
    this.#endSubscriptions("*", UNSUBSCRIBE.insufficientState, DISCONNECT.insufficientState.reason);
    this.close();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#deps.recoveryCache.invalidate(this.tenantId, this.channel);
    this.streamReader?.close();
    this.#bus?.close();
    this.#onEmpty(this);
  }

  async #start(): Promise<void> {
    const subscription = await this.#deps.bus.subscribe(this.key, (message) => this.#onBusMessage(message));
    if (this.#isClosed) return subscription.close();
    this.#bus = subscription;
    await this.streamReader?.start();
    this.#isReady = true;
  }

  #onBusMessage(message: BusMessage): void {
    if (this.#isClosed) return;
    if (message.kind === "events") this.streamReader?.accept(message.events);
    else if (message.kind === "ephemeral") this.#onEphemeral(message.event);
  }

  /**
   * During a bus outage a removal on another node is only in the log, so the log is read before a broadcast: of this channel, and
   * not of others that it may depend on.
   */
  #onEphemeral(event: EphemeralEvent): void {
    const checked = this.#deps.checkUpToDate();
    if (checked === undefined) return this.#broadcastEphemeral(event);
    void checked.then((isUpToDate) => {
      const isKnown = isUpToDate && this.rules.spansStreams !== true;
      if (isKnown && !this.#isClosed) this.#broadcastEphemeral(event);
      else log.debug("ephemeral publication dropped", { channel: this.channel });
    });
  }

  #broadcastEphemeral(event: EphemeralEvent): void {
    const { push, json, infoJson } = event;
    const principalIds = event.principalIds === undefined ? undefined : new Set(event.principalIds);
    if (push !== undefined) {
      this.#broadcastJoinLeave(encodedPush(encodePush(this.channel, push, `{"info":${json}}`), 1), json);
    } else {
      const info = infoJson === undefined ? "" : `,"info":${infoJson}`;
      this.#broadcast(encodedPush(encodePush(this.channel, "pub", `{"data":${json}${info}}`), 1), { principalIds });
    }
  }

  #broadcast(push: EncodedPush, { principalIds }: Recipients = {}): void {
    for (const subscription of this.#subscriptions) {
      if (principalIds !== undefined && !principalIds.has(subscription.connection.actor?.principalId ?? "")) continue;
      subscription.deliver(push);
    }
  }

  /** Guests receive it only if they may see whose presence it is. */
  #broadcastJoinLeave(push: EncodedPush, infoJson: string): void {
    const guests: ChannelSubscriber[] = [];
    for (const subscription of this.#subscriptions) {
      if (!subscription.wantsJoinLeave) continue;
      const { actor } = subscription.connection;
      const isFiltered = this.#guestPresence !== undefined && (actor === undefined || isGuest(actor));
      if (isFiltered) guests.push(subscription);
      else subscription.deliver(push);
    }
    if (guests.length > 0) this.#guestPresence?.deliver(push, JSON.parse(infoJson).user, guests);
  }

  /** Whether a subscriber may not receive every event type. */
  #hasFilteredSubscriber(): boolean {
    for (const { connection } of this.#subscriptions) if (connection.eventFilter !== undefined) return true;
    return false;
  }

  #isHiddenFromAny(event: StoredEvent): boolean {
    for (const subscription of this.#subscriptions) if (isHidden(event, subscription.view)) return true;
    return false;
  }

  /** Delivers an event that some subscribers may not see: encoded in full and redacted. */
  #deliverPerReader(event: StoredEvent): void {
    const full = this.#encodePushOf(event);
    const redacted = this.#encodePushOf(redact(event));
    for (const subscription of this.#subscriptions) {
      subscription.deliver(isHidden(event, subscription.view) ? redacted : full);
    }
  }

  #encodePushOf(event: StoredEvent): EncodedPush {
    return encodedPush(this.#encode(event), 1, event.seq - 1);
  }

  #encode({ json, seq }: StoredEvent): string {
    return encodePush(this.channel, "pub", encodePublication(json, seq));
  }

  #applyEffect(effect: Exclude<EventEffect, { kind: "concerns" }>): void {
    if (effect.kind === "evict") {
      const code = effect.resubscribe ? UNSUBSCRIBE.insufficientState : UNSUBSCRIBE.ended;
      return this.#endSubscriptions(effect.principalIds, code, effect.reason);
    }
    for (const { connection } of [...this.#subscriptions]) {
      const isAffected = effect.tokenId === undefined || connection.actor?.tokenId === effect.tokenId;
      if (isAffected) connection.close(withReason(DISCONNECT.forced, effect.reason));
    }
  }

  #endSubscriptions(principalIds: readonly string[] | "*", code: number, reason: string): void {
    const ids = principalIds === "*" ? undefined : new Set(principalIds);
    for (const subscription of [...this.#subscriptions]) {
      if (ids === undefined || ids.has(subscription.connection.actor?.principalId ?? "")) {
        subscription.end(code, reason);
      }
    }
    log.debug("channel closed for its subscribers", { channel: this.channel, tenant: this.tenantId, code, reason });
  }

  #announce(push: "join" | "leave", { connection }: ChannelSubscriber): void {
    if (!this.hasPresence) return;
    const { tenantId, channel } = this;
    const event: EphemeralEvent = { tenantId, channel, json: JSON.stringify(connection.info()), push };
    this.#deps.bus.publish(this.key, { kind: "ephemeral", event });
  }
}

function encodedPush(text: string, count: number, afterSeq?: number): EncodedPush {
  return { text, bytes: Buffer.byteLength(text), count, waiting: 0, afterSeq };
}
