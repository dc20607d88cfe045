// The upgrade handler of collaborative editing: checks the web origin, the connection limits and the message rate.
import { Fault } from "@/core/fault.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { Metrics } from "@/core/metrics.ts";
import { TokenBucket } from "@/core/limit/token_bucket.ts";
import type { Rate } from "@/core/operation.ts";
import { type OriginRules, type TenantOriginCheck, tenantOriginCheck } from "../shared/origin.ts";
import { type AcceptedSocket, acceptSocket } from "../shared/accepted_socket.ts";
import {
  assertAcceptsConnections,
  ConnectionLimiter,
  type ConnectionSlot,
  tooManyConnections,
} from "../shared/connection_limiter.ts";
import type { WsLimits } from "../shared/socket_limits.ts";
import type { MemoryGuard } from "../shared/memory_guard.ts";

/** A fast typist sends 20 frames a second; programs should send fewer, larger ones. */
const FRAME_RATE = { perSecond: 200, burst: 2000 };
const BYTE_RATE = { perSecond: 1024 * 1024, burst: 8 * 1024 * 1024 };
/** How many sockets of a principal and its agents may send at the full rate at the same time. */
const FULL_RATE_SOCKETS = 3;
const OWNERS_MAX = 20_000;
/** The ping of the protocol, which clients reply to with a pong. */
const PING = new Uint8Array([9]);
const SLOW = { code: 4508, reason: "slow" } as const;

type EditorSession = { receive(data: unknown): void; onSocketClosed(): void };
type SocketHooks = {
  onAuthenticated(owner: string): void;
  allowFrame(bytes: number): boolean;
  /** Whether the tenant allows the web origin. */
  isOriginAllowed: TenantOriginCheck;
};
type SocketLike = Pick<WebSocket, "readyState"> & {
  send(data: string | ArrayBufferLike | Blob | ArrayBufferView): void;
  close(code?: number, reason?: string): void;
};

/** The collaboration server of the document module. */
type CollaborationHost = {
  readonly isDraining: boolean;
  open(socket: SocketLike, request: Request, meta: SocketHooks): Promise<EditorSession>;
};

type CollaborationUpgradeDeps = OriginRules & {
  host: CollaborationHost;
  limits: WsLimits;
  metrics: Metrics;
  guard: MemoryGuard;
};

/** Builds the handler. `ip` is the client's address as seen through trusted proxies. */
export function createCollaborationUpgrade({ host, limits, metrics, guard, ...rules }: CollaborationUpgradeDeps): (
  request: Request,
  ip: string,
) => Response {
  const limiter = new ConnectionLimiter(limits);
  // Retained after the last socket closed, so that reconnecting does not reset the rate.
  const ofOwners = new LruMap<string, FrameLimiter>(OWNERS_MAX);
  return function upgrade(request, ip) {
    const isOriginAllowed = tenantOriginCheck(request, rules, metrics);
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      throw new Fault("bad_request", "Expected a WebSocket upgrade");
    }
    assertAcceptsConnections(host, guard);
    const slot = limiter.acquire(ip);
    if (typeof slot === "string") throw tooManyConnections();
    // The upgrade consumes the request; the host reads its URL and headers.
    const copy = new Request(request.url, { headers: [...request.headers] });
    const meta = createEditorMeta(slot, limits, isOriginAllowed ?? (() => true), ofOwners);
    let wasOpen = false;
    return acceptSocket(request, {
      limits,
      guard,
      isAuthenticated: () => slot.isAuthenticated,
      owner: () => slot.owner,
      async serve(socket) {
        wasOpen = true;
        metrics.connections.inc();
        metrics.connectionsActive.inc();
        const bounded = boundOutbox(socket, limits);
        const session = await host.open(bounded, copy, meta);
        return {
          receive: (data) => session.receive(data),
          probe: () => bounded.send(PING),
          close: ({ code, reason }) => bounded.close(code, reason),
          onSocketClosed: () => session.onSocketClosed(),
        };
      },
      onClosed() {
        if (wasOpen) metrics.connectionsActive.dec();
        slot.release();
      },
    });
  };
}

function createEditorMeta(
  slot: ConnectionSlot,
  { rate }: WsLimits,
  isOriginAllowed: TenantOriginCheck,
  ofOwners: LruMap<string, FrameLimiter>,
): SocketHooks {
  const own = new FrameLimiter();
  return {
    isOriginAllowed,
    onAuthenticated: (owner) => slot.onAuthenticated(owner),
    allowFrame(bytes) {
      if (rate === undefined) return true;
      const { owner } = slot;
      if (owner === undefined) return own.consume(bytes);
      const shared = ofOwners.get(owner) ?? new FrameLimiter(FULL_RATE_SOCKETS);
      ofOwners.set(owner, shared);
      return own.consume(bytes) && shared.consume(bytes);
    },
  };
}

/** The rate of so many sockets. */
class FrameLimiter {
  readonly #frames: TokenBucket;
  readonly #bytes: TokenBucket;

  constructor(sockets = 1) {
    const times = ({ perSecond, burst }: Rate): Rate => ({ perSecond: perSecond * sockets, burst: burst * sockets });
    const now = Date.now();
    this.#frames = new TokenBucket(times(FRAME_RATE), now);
    this.#bytes = new TokenBucket(times(BYTE_RATE), now);
  }

  /** Counts a frame; false beyond the rate. */
  consume(bytes: number): boolean {
    const now = Date.now();
    return this.#frames.consume(now) && this.#bytes.consume(now, bytes);
  }
}

/**
 * The socket with a bounded outbox: a client that reads too slowly is closed, and resumes after a reconnect. One document may
 * exceed the limit, or a client with a slow connection would reconnect for it forever.
 */
function boundOutbox(socket: AcceptedSocket, { outboxMaxBytes }: WsLimits): SocketLike {
  let large = 0;
  return {
    get readyState() {
      return socket.readyState as WebSocket["readyState"];
    },
    send(data) {
      if (socket.readyState !== WebSocket.OPEN) return;
      // The type of the host allows more buffers than that of sockets; it sends plain ones.
      const bytes = data as Uint8Array<ArrayBuffer>;
      const waiting = socket.bufferedAmount;
      if (waiting <= outboxMaxBytes) large = 0;
      else if (waiting + bytes.length > outboxMaxBytes + large) return socket.close(SLOW.code, SLOW.reason);
      large = Math.max(large, bytes.length);
      socket.send(bytes);
    },
    close: (code, reason) => socket.close(code, reason),
  };
}
