// Every bound of a socket in one place; an optional bound that is absent is no bound.
import type { Rate } from "@/core/operation.ts";

export type WsLimits = {
  frameMaxBytes: number;
  /** Longest connect command, the only thing read from a stranger. */
  connectMaxBytes: number;
  /** Commands waiting for their turn, in bytes. */
  inboxMaxBytes: number;
  /** What is queued here and in the socket together. */
  outboxMaxBytes: number;
  subscriptionsMax: number;
  /** Events of one recovery or one history page. */
  replyMaxEvents: number;
  replyMaxBytes: number;
  /** Commands of one connection that run at the same time. */
  overlapMax: number;
  /** Commands of one connection. */
  rate?: Rate;
  /** Publications of one connection, counted by themselves: peers of a call exchange many in its first second. */
  publishRate?: Rate;
  connectionsPerPrincipal?: number;
  connectionsPerAddress?: number;
  unauthenticatedPerAddress?: number;
  connectionsPerNode?: number;
  authTimeoutMs: number;
  /** How long a peer may take to let go of a socket that was closed. */
  lingerMs: number;
  pingMs: number;
  pongTimeoutMs: number;
  /** A token may be renewed this long after its end. */
  refreshGraceMs: number;
  /** Rights of a connection and its subscriptions are looked at again this often. */
  revalidateMs: number;
  /** How often deadlines are looked at. */
  tickMs: number;
  /** How long a hole may fill by itself before the log is read. */
  repairDelayMs: number;
  /** How often heads are compared with the log; absent on a single node, where no message is lost. */
  compareHeadsMs?: number;
  /** A shutdown spreads its closes over this window. */
  drainMs: number;
  shards: number;
};

/** What a gateway allows unless told otherwise. */
export const WS_LIMITS: WsLimits = {
  frameMaxBytes: 64 * 1024,
  connectMaxBytes: 16 * 1024,
  inboxMaxBytes: 1024 * 1024,
  outboxMaxBytes: 1024 * 1024,
  subscriptionsMax: 200,
  replyMaxEvents: 300,
  replyMaxBytes: 256 * 1024,
  overlapMax: 64,
  rate: { perSecond: 20, burst: 60 },
  publishRate: { perSecond: 50, burst: 150 },
  connectionsPerPrincipal: 10,
  connectionsPerAddress: 100,
  unauthenticatedPerAddress: 20,
  connectionsPerNode: 10_000,
  authTimeoutMs: 10_000,
  lingerMs: 5000,
  pingMs: 25_000,
  pongTimeoutMs: 10_000,
  refreshGraceMs: 25_000,
  revalidateMs: 60_000,
  tickMs: 1000,
  repairDelayMs: 10,
  drainMs: 1500,
  shards: 64,
};

/** The limits with every cap on rate and number of connections switched off. */
export function withoutCaps(limits: WsLimits): WsLimits {
  const {
    rate: _rate,
    publishRate: _publishRate,
    connectionsPerPrincipal: _principal,
    connectionsPerAddress: _address,
    unauthenticatedPerAddress: _unauthenticated,
    connectionsPerNode: _node,
    ...rest
  } = limits;
  return rest;
}

/**
 * Who asks for this many times the channels they may have is answered for each and not closed: closed, a client comes back
 * and asks for all of them again.
 */
const ASKING = 5;

/**
 * What one connection may send. Coming to channels and leaving them counts by itself, as clients do it with all of theirs at
 * once; so does publishing.
 */
export class Allowance {
  readonly #commands: Bucket | undefined;
  readonly #channels: Bucket | undefined;
  readonly #publishes: Bucket | undefined;

  constructor({ rate, publishRate = rate, subscriptionsMax }: WsLimits, now: number) {
    if (rate === undefined || publishRate === undefined) return;
    this.#commands = new Bucket(rate.perSecond, rate.burst, now);
    this.#channels = new Bucket(rate.perSecond, Math.max(rate.burst, ASKING * subscriptionsMax), now);
    this.#publishes = new Bucket(publishRate.perSecond, publishRate.burst, now);
  }

  /** Whether one more of these is allowed. */
  take(method: string, now: number): boolean {
    return this.#bucketOf(method)?.take(now) ?? true;
  }

  #bucketOf(method: string): Bucket | undefined {
    if (method === "publish") return this.#publishes;
    return method === "subscribe" || method === "unsubscribe" ? this.#channels : this.#commands;
  }
}

/** A token bucket that fills by itself as time passes. */
export class Bucket {
  readonly #perSecond: number;
  readonly #burst: number;
  #tokens: number;
  #filledAt: number;

  constructor(perSecond: number, burst: number, now: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#tokens = burst;
    this.#filledAt = now;
  }

  /** Takes so many tokens; none, and false, where there are fewer. */
  take(now: number, count = 1): boolean {
    this.#tokens = Math.min(this.#burst, this.#tokens + Math.max(0, now - this.#filledAt) * this.#perSecond / 1000);
    this.#filledAt = now;
    if (this.#tokens < count) return false;
    this.#tokens -= count;
    return true;
  }
}
