// The upgrade handler of live editing: who may open a socket, from which page, and how fast it may talk.
import { Fault } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import { guestRule, type MayActIn, type OriginRules } from "../http/origin.ts";
import { Admission, type Ticket } from "../ws/admission.ts";
import { hangUp } from "../ws/hang_up.ts";
import { Bucket, type WsLimits } from "../ws/limits.ts";

/** A fast typist makes 20 frames a second; a program that does more is better off with fewer, larger ones. */
const FRAMES = { perSecond: 200, burst: 2000 };
const BYTES = { perSecond: 1024 * 1024, burst: 8 * 1024 * 1024 };
const SLOW = { code: 4508, reason: "slow" } as const;

/** The engine's side of one socket. */
type Session = { receive(data: unknown): void; gone(): void };
type SocketMeta = {
  onAuthenticated(): void;
  takeFrame(bytes: number): boolean;
  /** Whether the page may act in this tenant. */
  mayActIn: MayActIn;
};
type SocketLike = Pick<WebSocket, "readyState"> & {
  send(data: string | ArrayBufferLike | Blob | ArrayBufferView): void;
  close(code?: number, reason?: string): void;
};

/** The engine. */
export type SyncHost = {
  readonly isDraining: boolean;
  ready(): Promise<void>;
  open(socket: SocketLike, request: Request, meta: SocketMeta): Promise<Session>;
};

export type SyncUpgradeDeps = OriginRules & { host: SyncHost; limits: WsLimits; metrics: Metrics };

/** Builds the handler. `ip` is the client's address as seen through trusted proxies. */
export function createSyncUpgrade({ host, limits, metrics, ...rules }: SyncUpgradeDeps): (
  request: Request,
  ip: string,
) => Promise<Response> {
  const admission = new Admission(limits);
  return async function upgrade(request, ip) {
    const guest = guestRule(request, rules, metrics);
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      throw new Fault("bad_request", "A WebSocket upgrade is expected here");
    }
    if (host.isDraining) throw new Fault("unavailable", "The gateway is shutting down");
    await host.ready();
    const admitted = admission.admit(ip);
    if (typeof admitted === "string") {
      throw new Fault("rate_limited", "Too many sockets from this address or on this node");
    }
    const meta = metaOf(admitted, limits, guest ?? (() => true));
    return attach(host, request, admitted, meta, { limits, metrics });
  };
}

/** Hands the socket's life to the engine. */
function attach(
  host: SyncHost,
  request: Request,
  ticket: Ticket,
  meta: SocketMeta,
  { limits, metrics }: Pick<SyncUpgradeDeps, "limits" | "metrics">,
): Response {
  // After the upgrade the request is gone; what the engine looks at are its address and headers.
  const seen = new Request(request.url, { headers: [...request.headers] });
  const { socket, response } = open(request, ticket);
  socket.binaryType = "arraybuffer";
  let session: Session | undefined;
  let wasOpen = false;
  let isGone = false;
  const early: unknown[] = [];
  const gone = (): void => {
    if (!isGone && wasOpen) metrics.connectionsActive.dec();
    isGone = true;
    ticket.gone();
    session?.gone();
  };
  socket.onopen = () => {
    wasOpen = true;
    metrics.connections.inc();
    metrics.connectionsActive.inc();
    void host.open(bounded(socket, limits, gone), seen, meta).then((opened) => {
      session = opened;
      if (isGone) return opened.gone();
      for (const data of early.splice(0)) opened.receive(data);
    });
  };
  socket.onmessage = ({ data }) => session === undefined ? early.push(data) : session.receive(data);
  socket.onclose = gone;
  socket.onerror = gone;
  return response;
}

function open(request: Request, ticket: Ticket): { socket: WebSocket; response: Response } {
  try {
    return Deno.upgradeWebSocket(request);
  } catch (cause) {
    ticket.gone();
    throw new Fault("bad_request", "A WebSocket upgrade is expected here", { cause });
  }
}

function metaOf(ticket: Ticket, { rate }: WsLimits, mayActIn: MayActIn): SocketMeta {
  const now = Date.now();
  const frames = new Bucket(FRAMES.perSecond, FRAMES.burst, now);
  const bytes = new Bucket(BYTES.perSecond, BYTES.burst, now);
  return {
    mayActIn,
    onAuthenticated: () => ticket.onAuthenticated(),
    takeFrame(size) {
      const now = Date.now();
      return rate === undefined || frames.take(now) && bytes.take(now, size);
    },
  };
}

/**
 * The socket with a bounded outbox: who reads too slowly comes back and syncs from where it is. A document that is larger
 * than the outbox may take its time, or somebody with a slow line would come back for it again and again.
 */
function bounded(socket: WebSocket, { outboxMaxBytes, lingerMs }: WsLimits, gone: () => void): SocketLike {
  let large = 0;
  const close = (code?: number, reason?: string): void => {
    if (socket.readyState < WebSocket.CLOSING) hangUp(socket, code, reason, gone, lingerMs);
  };
  return {
    get readyState() {
      return socket.readyState;
    },
    send(data) {
      if (socket.readyState !== WebSocket.OPEN) return;
      // The engine's type allows buffers that a socket's does not; it makes plain ones.
      const bytes = data as Uint8Array<ArrayBuffer>;
      const waiting = socket.bufferedAmount;
      if (waiting <= outboxMaxBytes) large = 0;
      else if (waiting + bytes.length > outboxMaxBytes + large) return close(SLOW.code, SLOW.reason);
      large = Math.max(large, bytes.length);
      socket.send(bytes);
    },
    close,
  };
}
