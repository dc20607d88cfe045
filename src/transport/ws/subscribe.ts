// Opening a subscription: reserve, authorise, hold, recover. Recovery is whole or refused; what is more than one reply
// holds follows it.
import { lacksToHear } from "@/core/actor.ts";
import type { ChannelKind } from "@/core/channel.ts";
import { principalStream, type StoredEvent } from "@/core/event.ts";
import type { FeedRules } from "./feed.ts";
import type { Feeds } from "./feeds.ts";
import { ERRORS, type Recovery, WireFault } from "./frame.ts";
import type { WsLimits } from "./limits.ts";
import { PAGE, type Pages } from "./pages.ts";
import type { Sequence } from "./sequence.ts";
import type { Listener, Subscription } from "./subscription.ts";

const REJECT_UNRECOVERED = 2;
const PRINCIPAL: FeedRules = { prefix: "principal", isDurable: true, presenceMax: 0 };

export type SubscriberDeps = {
  feeds: Feeds;
  pages: Pages;
  channels: readonly ChannelKind[];
  limits: WsLimits;
  /** A client asked for what it missed and could not have it. */
  onUnrecovered: () => void;
};

/** Says whether the subscriber may; positions up to `hiddenUpTo` are never shown to it. */
type Authorize = () => Promise<{ hiddenUpTo: number } | void>;

/** A subscription whose reply is ready. In one breath: make sure it is still open, queue what `body` gives, let it go live. */
export type Opened = { subscription: Subscription; body: () => string };

/** What was missed, the beginning of it at least, and how many events it is in all. */
type Missed = { pages: readonly (readonly StoredEvent[])[]; count: number };

/** Whoever subscribes: a listener that knows its subscriptions. */
export interface Subscribing extends Listener {
  readonly isClosed: boolean;
  readonly subscriptions: Map<string, Subscription>;
}

export class Subscriber {
  readonly #deps: SubscriberDeps;
  readonly #kinds: ReadonlyMap<string, ChannelKind>;

  constructor(deps: SubscriberDeps) {
    this.#deps = deps;
    this.#kinds = new Map(deps.channels.map((kind) => [kind.prefix, kind]));
  }

  /** The kind of a channel and the id within it. */
  kindOf(channel: string): { kind: ChannelKind; id: string } {
    const colon = channel.indexOf(":");
    const prefix = channel.slice(0, colon);
    if (prefix === PRINCIPAL.prefix) throw new WireFault(ERRORS.permissionDenied);
    const kind = this.#kinds.get(prefix);
    const id = channel.slice(colon + 1);
    if (kind === undefined || colon < 1 || id === "") throw new WireFault(ERRORS.unknownChannel);
    return { kind, id };
  }

  /** Subscribes a client to a channel it names. */
  subscribe(
    connection: Subscribing,
    request: Recovery & { channel: string; flag: number; join_leave: boolean; type: number },
  ): Promise<Opened> {
    const { channel } = request;
    this.#assertRoom(connection, channel);
    if (request.type !== 0) throw new WireFault(ERRORS.notAvailable);
    const { kind, id } = this.kindOf(channel);
    const authorize: Authorize = async () => {
      const { actor } = connection;
      if (actor === undefined) throw new WireFault(ERRORS.unauthorized);
      return await kind.authorize(actor, id, "subscribe");
    };
    return this.#open(connection, channel, kind, request, false, authorize);
  }

  /** Subscribes a connection to what concerns its principal. `confirm` is asked once nothing can be missed. */
  subscribeToSelf(
    connection: Subscribing,
    principalId: string,
    recovery: Recovery,
    confirm: () => Promise<void>,
  ): Promise<Opened> {
    const request = { ...recovery, flag: 0, join_leave: false };
    return this.#open(connection, principalStream(principalId), PRINCIPAL, request, true, confirm);
  }

  /**
   * The deciding check comes after the feed knows its position: a removal committed before is seen by the check, one
   * committed after comes through the feed. The check before it keeps strangers from making feeds and streams.
   */
  async #open(
    connection: Subscribing,
    channel: string,
    rules: FeedRules,
    request: Recovery & { flag: number; join_leave: boolean },
    isServerSide: boolean,
    authorize: Authorize,
  ): Promise<Opened> {
    const { feeds } = this.#deps;
    const tenantId = connection.actor?.tenantId ?? "";
    if (!isServerSide && !feeds.isReady(tenantId, channel)) {
      await authorize();
      this.#assertRoom(connection, channel);
    }
    const { prefix, isDurable, presenceMax } = rules;
    const subscription = feeds.enter(tenantId, channel, { prefix, isDurable, presenceMax }, connection, {
      isServerSide,
      wantsJoinLeave: request.join_leave && presenceMax > 0,
    });
    connection.subscriptions.set(channel, subscription);
    try {
      await subscription.feed.ready;
      const seen = await authorize();
      subscription.hiddenUpTo = seen?.hiddenUpTo ?? 0;
      // A client cannot do without this one, whatever its token may.
      if (isServerSide && connection.actor !== undefined && lacksToHear(connection.actor) !== undefined) {
        subscription.mute();
      }
      return { subscription, body: await this.#position(subscription, request) };
    } catch (thrown) {
      subscription.leave();
      throw thrown;
    }
  }

  /** Asked again after a wait: the connection may be gone by then, or another of its commands have come first. */
  #assertRoom({ isClosed, subscriptions }: Subscribing, channel: string): void {
    const { subscriptionsMax } = this.#deps.limits;
    if (isClosed) throw new WireFault(ERRORS.internal);
    if (subscriptions.has(channel)) throw new WireFault(ERRORS.alreadySubscribed);
    if (subscriptions.size > subscriptionsMax) {
      throw new WireFault(ERRORS.limitExceeded, `${subscriptionsMax} subscriptions`);
    }
  }

  /** The subscribe result, with everything missed when there is a whole of it. */
  async #position(subscription: Subscription, request: Recovery & { flag: number }): Promise<() => string> {
    const { sequence } = subscription.feed;
    if (sequence === undefined) {
      subscription.hold();
      return () => request.recover ? `{"was_recovering":true}` : "{}";
    }
    // Another node may have shown the client more than has reached this one, or hidden what is still on its way here.
    const known = request.recover && isEpoch(request.epoch, sequence) ? request.offset : 0;
    const hidden = subscription.isMuted ? 0 : subscription.hiddenUpTo;
    // Twice, since a reading that is under way may have begun before.
    for (let more = 2; more > 0 && Math.max(known, hidden) > sequence.head; more--) await sequence.catchUp();
    if (hidden > sequence.head) throw new WireFault(ERRORS.internal);
    subscription.hold();
    const top = { recoverable: true, positioned: true, epoch: sequence.epoch, offset: sequence.head };
    if (!request.recover) return () => JSON.stringify(top);
    // Who may hear nothing now keeps their place, for the time when they may.
    const offset = Math.max(request.offset, Math.min(hidden, sequence.head));
    const missed = await this.#missed(subscription, sequence, { ...request, offset });
    if (missed !== undefined) {
      const fields = JSON.stringify({ ...top, offset, was_recovering: true, recovered: true });
      return () => {
        const publications = this.#replyOf(subscription, offset, missed);
        return publications === "" ? fields : `${fields.slice(0, -1)},"publications":[${publications}]}`;
      };
    }
    this.#deps.onUnrecovered();
    if ((request.flag & REJECT_UNRECOVERED) !== 0) throw new WireFault(ERRORS.unrecoverable);
    return () => JSON.stringify({ ...top, was_recovering: true });
  }

  /**
   * As much of what was missed as a reply holds; the subscription follows with the rest. Decided as the reply is written:
   * a client that comes back for many channels gets their replies at once, and only so much may wait for it.
   */
  #replyOf(subscription: Subscription, offset: number, { pages, count }: Missed): string {
    const parts: string[] = [];
    let [last, bytes] = [offset, 0];
    for (const page of subscription.listener.isBehind ? [] : pages) {
      const encoded = this.#deps.pages.encoded(page);
      bytes += encoded.bytes;
      if (bytes > this.#deps.limits.replyMaxBytes) break;
      parts.push(encoded.publications);
      last += page.length;
    }
    if (last < offset + count) subscription.followFrom(last);
    return parts.join(",");
  }

  /**
   * What came after the client's offset up to where holding began; what no reply would hold is not read.
   * `undefined` when it is not to be had whole.
   */
  async #missed(
    subscription: Subscription,
    sequence: Sequence,
    { offset, epoch }: Recovery,
  ): Promise<Missed | undefined> {
    const count = sequence.head - offset;
    if (!isEpoch(epoch, sequence) || count < 0) return undefined;
    if (subscription.isMuted) return { pages: [], count: 0 };
    const { limits: { replyMaxEvents, replyMaxBytes }, pages: log } = this.#deps;
    const pages: (readonly StoredEvent[])[] = [];
    const end = offset + Math.min(count, replyMaxEvents);
    for (let last = offset, bytes = 0; last < end && bytes <= replyMaxBytes;) {
      const page = await subscription.read(last, Math.min(PAGE, end - last));
      if (page === undefined) return undefined;
      pages.push(page);
      last += page.length;
      bytes += log.encoded(page).bytes;
    }
    return { pages, count };
  }
}

/** An empty epoch means any. */
function isEpoch(epoch: string, sequence: Sequence): boolean {
  return epoch === "" || epoch === sequence.epoch;
}
