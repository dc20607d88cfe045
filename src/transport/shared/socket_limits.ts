// All limits of sockets; an absent optional limit means no limit.
import { MINUTE_MS } from "@/core/time/clock.ts";
import type { Rate } from "@/core/operation.ts";

export type WsLimits = {
  frameMaxBytes: number;
  /** Longest connect command, the only one accepted before authentication. */
  connectMaxBytes: number;
  /** Queued commands, in bytes. */
  inboxMaxBytes: number;
  /** Data queued here and in the socket together. */
  outboxMaxBytes: number;
  /** Share of a tenant in the data of its clients that the runtime has, and as much again in what waits for slow ones. */
  tenantUnreadMaxBytes: number;
  subscriptionsMax: number;
  /** Events of one recovery or one history page. */
  replyMaxEvents: number;
  replyMaxBytes: number;
  /** Concurrent commands of one connection. */
  maxConcurrent: number;
  /** Commands of one connection. */
  rate?: Rate;
  /** Publications of one connection; separate, because peers of a call exchange many in its first second. */
  publishRate?: Rate;
  /** Longest wait of a command beyond the rate; a command that would wait longer is rejected. */
  commandWaitMs: number;
  /** Rejected commands of one connection, each counted per KiB; beyond that it is closed. */
  refusedRate: Rate;
  connectionsPerPrincipal?: number;
  /** Connections of a principal and its agents together. */
  connectionsPerOwner?: number;
  /** Less than those of a node, so that no tenant takes all of them. */
  connectionsPerTenant?: number;
  connectionsPerAddress?: number;
  unauthenticatedPerAddress?: number;
  /** Sockets of an address that end without authentication, unless their token is valid or has expired; beyond it, it opens none. */
  failedPerAddress?: Rate;
  connectionsPerNode?: number;
  authTimeoutMs: number;
  /** Time for a peer to close a socket that the gateway closed. */
  closeTimeoutMs: number;
  pingMs: number;
  pongTimeoutMs: number;
  /** A token may be refreshed this long after its expiry. */
  refreshGraceMs: number;
  /** Interval of revalidating a connection and its subscriptions. */
  revalidateMs: number;
  /** Interval of checking deadlines. */
  tickMs: number;
  /** Delay before a gap is read from the log, since the bus may still deliver the events. */
  repairDelayMs: number;
  /** Interval of comparing heads with the log; absent on a single node, where no message is lost. */
  compareHeadsMs?: number;
  /** A shutdown spreads its closes over this window. */
  drainMs: number;
  shards: number;
};

/** The defaults. */
export const WS_LIMITS: WsLimits = {
  frameMaxBytes: 64 * 1024,
  connectMaxBytes: 16 * 1024,
  inboxMaxBytes: 1024 * 1024,
  outboxMaxBytes: 1024 * 1024,
  tenantUnreadMaxBytes: 64 * 1024 * 1024,
  subscriptionsMax: 1000,
  replyMaxEvents: 300,
  replyMaxBytes: 256 * 1024,
  maxConcurrent: 64,
  rate: { perSecond: 20, burst: 60 },
  publishRate: { perSecond: 50, burst: 150 },
  // Half of the reply timeout of SDKs.
  commandWaitMs: 2500,
  refusedRate: { perSecond: 200, burst: 3000 },
  connectionsPerPrincipal: 10,
  connectionsPerOwner: 50,
  connectionsPerAddress: 100,
  unauthenticatedPerAddress: 20,
  // Many clients may share an address whose network is bad.
  failedPerAddress: { perSecond: 10, burst: 200 },
  connectionsPerTenant: 10_000,
  connectionsPerNode: 12_500,
  authTimeoutMs: 10_000,
  closeTimeoutMs: 5000,
  pingMs: 25_000,
  pongTimeoutMs: 10_000,
  refreshGraceMs: 25_000,
  revalidateMs: MINUTE_MS,
  tickMs: 1000,
  repairDelayMs: 10,
  drainMs: 1500,
  shards: 64,
};

/** The limits without those of rates and numbers of connections. */
export function withoutRateLimits(limits: WsLimits): WsLimits {
  const {
    rate: _rate,
    publishRate: _publishRate,
    connectionsPerPrincipal: _principal,
    connectionsPerOwner: _owner,
    connectionsPerTenant: _tenant,
    connectionsPerAddress: _address,
    unauthenticatedPerAddress: _unauthenticated,
    failedPerAddress: _failed,
    connectionsPerNode: _node,
    ...rest
  } = limits;
  return rest;
}
