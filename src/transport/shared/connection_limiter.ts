// Limits the sockets per address and per node; closed sockets count until their peer has closed them.
import { Fault } from "@/core/fault.ts";
import { TokenBucket } from "@/core/limit/token_bucket.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { TenantOriginCheck } from "./origin.ts";
import { addressLimitKey } from "./client_address.ts";
import type { WsLimits } from "./socket_limits.ts";

/** Data of a socket known before its first message. */
export type ConnectionMeta = {
  ip: string;
  /** Token of the URL's query; used when the connect command has none. */
  legacyToken?: string | undefined;
  userAgent?: string;
  /** Whether a tenant allows the web origin; absent if all tenants do. */
  isOriginAllowed?: TenantOriginCheck;
  /** Called once, when the connection has authenticated; `owner` is whom its calls are charged to. */
  onAuthenticated?(owner: string | undefined): void;
  /** Called when its token is valid, has expired, or cannot be verified now: then its end is no failed authentication. */
  onKnown?(): void;
};

type Counts = { open: number; unauthenticated: number };

/** `reject`: before the upgrade, where browsers do not see the reason. `close_after_upgrade`: the close code gives the reason. */
type Rejection = "reject" | "close_after_upgrade";

/** Sockets over a limit that may be open until they are closed with a reason. */
const REJECTED_MAX = 64;

/** Addresses whose failures are counted. */
const FAILING_MAX = 10_000;

const RETRY_LATER = { retryAfterMs: 5000 };

/** Throws where this node accepts no connection now. */
export function assertAcceptsConnections(host: { isDraining: boolean }, guard: { isShedding: boolean }): void {
  if (host.isDraining) throw new Fault("unavailable", "The gateway is shutting down", RETRY_LATER);
  if (guard.isShedding) throw new Fault("unavailable", "This node is low on memory", RETRY_LATER);
}

export function tooManyConnections(): Fault {
  return new Fault("rate_limited", "Too many connections from this address or on this node", RETRY_LATER);
}

/** Counts sockets, including those closed by the gateway only: they still use memory. */
export class ConnectionLimiter {
  readonly #limits: WsLimits;
  readonly #addresses = new Map<string, Counts>();
  /** Retained after the last socket closed, so that connecting again does not reset the rate. */
  readonly #failures = new LruMap<string, TokenBucket>(FAILING_MAX);
  #open = 0;
  #rejected = 0;

  constructor(limits: WsLimits) {
    this.#limits = limits;
  }

  /** A slot for a socket from `ip`, or how to reject it. */
  acquire(ip: string): ConnectionSlot | Rejection {
    const { unauthenticatedPerAddress, connectionsPerAddress, connectionsPerNode } = this.#limits;
    const key = addressLimitKey(ip);
    const counts = this.#addresses.get(key) ?? { open: 0, unauthenticated: 0 };
    if (counts.unauthenticated >= (unauthenticatedPerAddress ?? Infinity)) return "reject";
    if ((this.#failures.get(key)?.waitMs(performance.now()) ?? 0) > 0) return "reject";
    if (counts.open >= (connectionsPerAddress ?? Infinity) || this.#open >= (connectionsPerNode ?? Infinity)) {
      return this.#rejected < REJECTED_MAX ? "close_after_upgrade" : "reject";
    }
    this.#addresses.set(key, counts);
    counts.open++;
    counts.unauthenticated++;
    this.#open++;
    return new ConnectionSlot(ip, counts, (hasFailed) => {
      this.#open--;
      if (hasFailed) this.#countFailure(key);
      if (counts.open === 0 && this.#addresses.get(key) === counts) this.#addresses.delete(key);
    });
  }

  /** Ahead of time, so that sockets which fail at once all count. */
  #countFailure(key: string): void {
    const { failedPerAddress } = this.#limits;
    if (failedPerAddress === undefined) return;
    const now = performance.now();
    const failures = this.#failures.get(key) ?? new TokenBucket(failedPerAddress, now);
    this.#failures.set(key, failures);
    failures.reserve(now, 1, Infinity);
  }

  /** Counts a socket opened only to be closed with a reason; call the result when it has closed. */
  countRejected(): () => void {
    this.#rejected++;
    let isReleased = false;
    return () => {
      if (!isReleased) this.#rejected--;
      isReleased = true;
    };
  }
}

/** One accepted socket, with its data for the hub. */
export class ConnectionSlot implements ConnectionMeta {
  readonly ip: string;
  legacyToken?: string | undefined;
  userAgent?: string;
  isOriginAllowed?: TenantOriginCheck;
  owner: string | undefined;
  readonly #counts: Counts;
  readonly #onRelease: (hasFailed: boolean) => void;
  #isUnauthenticated = true;
  #isKnown = false;
  #isReleased = false;

  constructor(ip: string, counts: Counts, onRelease: (hasFailed: boolean) => void) {
    this.ip = ip;
    this.#counts = counts;
    this.#onRelease = onRelease;
  }

  get isAuthenticated(): boolean {
    return !this.#isUnauthenticated;
  }

  onAuthenticated(owner?: string): void {
    this.owner ??= owner;
    if (this.#isUnauthenticated) this.#counts.unauthenticated--;
    this.#isUnauthenticated = false;
    this.legacyToken = undefined;
  }

  onKnown(): void {
    this.#isKnown = true;
  }

  /** The socket has closed; may be called twice. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    const hasFailed = this.#isUnauthenticated && !this.#isKnown;
    this.onAuthenticated();
    this.#counts.open--;
    this.#onRelease(hasFailed);
  }
}
