// Opens subscriptions: open the channel, authorize, buffer, recover. Recovery is complete or refused; events beyond the
// size of a reply are pushed after it.
import { measureCpu } from "@/core/caller.ts";
import type { ChannelGrant, ChannelKind } from "@/core/event/channel.ts";
import { principalStream, type StoredEvent } from "@/core/event/event.ts";
import { type ChannelRules, PRINCIPAL_RULES, type SubscriberConnection } from "./channel_fanout.ts";
import type { ChannelRegistry } from "./channel_registry.ts";
import { ERRORS, ProtocolError, type Recovery } from "./protocol.ts";
import type { WsLimits } from "../shared/socket_limits.ts";
import { PAGE_SIZE, type RecoveryCache } from "./recovery_cache.ts";
import type { StreamReader } from "./stream_reader.ts";
import type { Subscription } from "./subscription.ts";

const REJECT_UNRECOVERED = 2;

type SubscribeHandlerDeps = {
  channelRegistry: ChannelRegistry;
  recoveryCache: RecoveryCache;
  channels: readonly ChannelKind[];
  limits: WsLimits;
  /** A recovery failed. */
  onUnrecovered: () => void;
};

/** Throws unless the client may subscribe. */
type Authorize = () => Promise<ChannelGrant | void>;

/** A subscription whose reply is ready. Synchronously: call `assertOpen`, queue the result of `body`, call `activate`. */
export type OpenedSubscription = { subscription: Subscription; body: () => string };

/** The first pages of the missed events, and the number of all missed events. */
type MissedEvents = { pages: readonly (readonly StoredEvent[])[]; count: number };

/** A connection with its subscriptions. */
interface SubscribingConnection extends SubscriberConnection {
  readonly isClosed: boolean;
  readonly subscriptions: Map<string, Subscription>;
}

export class SubscribeHandler {
  readonly #deps: SubscribeHandlerDeps;
  readonly #kinds: ReadonlyMap<string, ChannelKind>;

  constructor(deps: SubscribeHandlerDeps) {
    this.#deps = deps;
    this.#kinds = new Map(deps.channels.map((kind) => [kind.prefix, kind]));
  }

  /** The kind of a channel and the id after its prefix. */
  kindOf(channel: string): { kind: ChannelKind; id: string } {
    const colon = channel.indexOf(":");
    const prefix = channel.slice(0, colon);
    if (prefix === PRINCIPAL_RULES.prefix) throw new ProtocolError(ERRORS.permissionDenied);
    const kind = this.#kinds.get(prefix);
    const id = channel.slice(colon + 1);
    if (kind === undefined || colon < 1 || id === "") {
      const names = [...this.#kinds.keys()].map((name) => `${name}:<id>`);
      throw new ProtocolError(ERRORS.unknownChannel, `expected ${names.join(" or ")}`);
    }
    return { kind, id };
  }

  /** Subscribes a client to a channel it names. */
  subscribe(
    connection: SubscribingConnection,
    request: Recovery & { channel: string; flag: number; join_leave: boolean; type: number },
  ): Promise<OpenedSubscription> {
    const { channel } = request;
    this.#assertCapacity(connection, channel);
    if (request.type !== 0) throw new ProtocolError(ERRORS.notAvailable);
    const { kind, id } = this.kindOf(channel);
    const authorize: Authorize = async () => {
      const { actor } = connection;
      if (actor === undefined) throw new ProtocolError(ERRORS.unauthorized);
      return await kind.authorize(actor, id, "subscribe");
    };
    return this.#open(connection, channel, kind, request, false, authorize);
  }

  /** Subscribes a connection to the stream of its principal. `confirm` is called once no event can be missed. */
  subscribeToOwnStream(
    connection: SubscribingConnection,
    principalId: string,
    recovery: Recovery,
    confirm: () => Promise<void>,
  ): Promise<OpenedSubscription> {
    const request = { ...recovery, flag: 0, join_leave: false };
    return this.#open(connection, principalStream(principalId), PRINCIPAL_RULES, request, true, confirm);
  }

  /**
   * The second check runs after the channel knows its position: it sees removals committed before, and later ones arrive as
   * events. The first check prevents unauthorized clients from opening channels.
   */
  async #open(
    connection: SubscribingConnection,
    channel: string,
    rules: ChannelRules,
    request: Recovery & { flag: number; join_leave: boolean },
    isServerSide: boolean,
    authorize: Authorize,
  ): Promise<OpenedSubscription> {
    const { channelRegistry } = this.#deps;
    const tenantId = connection.actor?.tenantId ?? "";
    if (!isServerSide && !channelRegistry.isReady(tenantId, channel)) {
      await authorize();
      this.#assertCapacity(connection, channel);
    }
    const { prefix, isDurable, presenceMax, presenceVisibility, spansStreams = false } = rules;
    const delivery = { prefix, isDurable, presenceMax, presenceVisibility, spansStreams };
    const subscription = channelRegistry.subscribe(tenantId, channel, delivery, connection, {
      isServerSide,
      wantsJoinLeave: request.join_leave && presenceMax > 0,
    });
    connection.subscriptions.set(channel, subscription);
    try {
      await subscription.fanout.ready;
      const granted = await authorize();
      subscription.hiddenUpTo = granted?.hiddenUpTo ?? 0;
      return { subscription, body: await this.#prepareReply(subscription, request) };
    } catch (thrown) {
      subscription.unsubscribe();
      throw thrown;
    }
  }

  /** Called again after each wait: the connection may have closed, or another command may have subscribed. */
  #assertCapacity({ isClosed, subscriptions }: SubscribingConnection, channel: string): void {
    const { subscriptionsMax } = this.#deps.limits;
    if (isClosed) throw new ProtocolError(ERRORS.internal);
    if (subscriptions.has(channel)) throw new ProtocolError(ERRORS.alreadySubscribed);
    if (subscriptions.size > subscriptionsMax) {
      throw new ProtocolError(ERRORS.limitExceeded, `at most ${subscriptionsMax} subscriptions of a connection`);
    }
  }

  /** The subscribe result, with the missed events if all of them are available. */
  async #prepareReply(subscription: Subscription, request: Recovery & { flag: number }): Promise<() => string> {
    const { streamReader } = subscription.fanout;
    if (streamReader === undefined) {
      subscription.startBuffering();
      return () => request.recover ? `{"was_recovering":true}` : "{}";
    }
    // Another node may be ahead of this one: in what it sent the client, or in what it hides.
    const known = request.recover && isEpoch(request.epoch, streamReader) ? request.offset : 0;
    const hidden = subscription.hiddenUpTo;
    // Twice, because a read in progress may have started before.
    for (let attempts = 2; attempts > 0 && Math.max(known, hidden) > streamReader.head; attempts--) {
      await streamReader.catchUp();
    }
    if (hidden > streamReader.head) throw new ProtocolError(ERRORS.internal);
    subscription.startBuffering();
    const position = { recoverable: true, positioned: true, epoch: streamReader.epoch, offset: streamReader.head };
    if (!request.recover) return () => JSON.stringify(position);
    const offset = Math.max(request.offset, Math.min(hidden, streamReader.head));
    const missed = await this.#readMissed(subscription, streamReader, { ...request, offset });
    if (missed !== undefined) {
      const fields = JSON.stringify({ ...position, offset, was_recovering: true, recovered: true });
      return () => {
        const publications = this.#encodeRecovered(subscription, offset, missed);
        return publications === "" ? fields : `${fields.slice(0, -1)},"publications":[${publications}]}`;
      };
    }
    this.#deps.onUnrecovered();
    if ((request.flag & REJECT_UNRECOVERED) !== 0) throw new ProtocolError(ERRORS.unrecoverable);
    return () => JSON.stringify({ ...position, was_recovering: true });
  }

  /**
   * The missed events that fit in the reply; the subscription catches up with the rest. Decided when the reply is written:
   * a client that resubscribes to many channels gets all replies at once, and its outbox is bounded.
   */
  #encodeRecovered(subscription: Subscription, offset: number, { pages, count }: MissedEvents): string {
    const parts: string[] = [];
    let [last, bytes] = [offset, 0];
    for (const page of subscription.connection.isBackpressured ? [] : pages) {
      const encoded = this.#deps.recoveryCache.encode(page);
      bytes += encoded.bytes;
      if (bytes > this.#deps.limits.replyMaxBytes) break;
      parts.push(encoded.publications);
      last += page.length;
    }
    if (last < offset + count) subscription.catchUpFrom(last);
    return parts.join(",");
  }

  /**
   * Events from the client's offset to the start of buffering, as far as a reply may include them.
   * `undefined` if they are not all available.
   */
  async #readMissed(
    subscription: Subscription,
    streamReader: StreamReader,
    { offset, epoch }: Recovery,
  ): Promise<MissedEvents | undefined> {
    const count = streamReader.head - offset;
    if (!isEpoch(epoch, streamReader) || count < 0) return undefined;
    const { limits: { replyMaxEvents, replyMaxBytes }, recoveryCache } = this.#deps;
    const pages: (readonly StoredEvent[])[] = [];
    const end = offset + Math.min(count, replyMaxEvents);
    for (let last = offset, bytes = 0; last < end && bytes <= replyMaxBytes;) {
      const page = await subscription.read(last, Math.min(PAGE_SIZE, end - last));
      if (page === undefined) return undefined;
      pages.push(page);
      last += page.length;
      bytes += measureCpu(() => recoveryCache.encode(page)).bytes;
    }
    return { pages, count };
  }
}

/** An empty epoch matches any. */
function isEpoch(epoch: string, streamReader: StreamReader): boolean {
  return epoch === "" || epoch === streamReader.epoch;
}
