// The upgrade handler of `/ws`: who may open a socket, in which protocol, from which page.
import { Fault, type FaultCode } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import { Admission, type Ticket } from "./admission.ts";
import { CLOSE } from "./close.ts";
import type { Connection } from "./connection.ts";
import type { Hub } from "./hub.ts";
import type { WsLimits } from "./limits.ts";

const JSON_PROTOCOL = "centrifuge-json";
const PROTOBUF_PROTOCOL = "centrifuge-protobuf";
const USER_AGENT_MAX_LENGTH = 200;
const LATER_SECONDS = 5;

export type UpgradeDeps = {
  hub: Hub;
  limits: WsLimits;
  metrics: Metrics;
  /** Whether a page of another origin may connect; pages of our own host always may. */
  isOriginAllowed: (origin: string) => boolean;
};

/** Builds the handler. `ip` is the client's address as seen through trusted proxies. */
export function createUpgrade({ hub, limits, metrics, isOriginAllowed }: UpgradeDeps): (
  request: Request,
  ip: string,
) => Response {
  const admission = new Admission(limits);
  return function upgrade(request, ip) {
    try {
      const origin = request.headers.get("origin");
      if (origin !== null && !isSameHost(origin, request) && !isOriginAllowed(origin)) {
        metrics.connectionErrors.inc({ type: "origin" });
        throw new Fault("origin_not_allowed", "Pages of this origin may not open a socket here");
      }
      const protocol = protocolOf(request);
      if (hub.isDraining) throw new Fault("unavailable", "The gateway is shutting down");
      const admitted = admission.admit(ip);
      if (admitted === "later") throw new Fault("rate_limited", "Too many sockets from this address or on this node");
      const { socket, response } = open(request, protocol);
      if (typeof admitted === "string") refuse(socket, admission.refuse());
      else attach(hub, socket, withDetails(admitted, request));
      return response;
    } catch (thrown) {
      return problem(Fault.from(thrown));
    }
  };
}

/** Hands the socket's life to the hub. */
function attach(hub: Hub, socket: WebSocket, ticket: Ticket): void {
  let connection: Connection | undefined;
  const gone = (): void => {
    ticket.gone();
    connection?.gone();
  };
  socket.onopen = () => connection = hub.open(socket, ticket);
  socket.onmessage = (event) => connection?.receive(event.data);
  socket.onclose = gone;
  // An error is always the end here, and not always followed by `close`.
  socket.onerror = gone;
}

function refuse(socket: WebSocket, gone: () => void): void {
  const { code, reason } = CLOSE.connectionLimit;
  socket.onopen = () => socket.close(code, reason);
  socket.onclose = gone;
  socket.onerror = gone;
}

/** The runtime's own pings are off: the protocol has its own, and they tell more. */
function open(request: Request, protocol: string | undefined): { socket: WebSocket; response: Response } {
  try {
    return Deno.upgradeWebSocket(request, { idleTimeout: 0, ...(protocol === undefined ? {} : { protocol }) });
  } catch (cause) {
    throw new Fault("bad_request", "A WebSocket upgrade is expected here", { cause });
  }
}

/** The subprotocol to answer with. Only our own is ever named: echoing another would promise what we do not speak. */
function protocolOf(request: Request): string | undefined {
  const offered = (request.headers.get("sec-websocket-protocol") ?? "").split(",").map((name) => name.trim());
  const query = new URL(request.url).searchParams;
  const isProtobuf = query.get("cf_protocol") === "protobuf" || query.get("format") === "protobuf";
  if (isProtobuf || offered.includes(PROTOBUF_PROTOCOL)) {
    throw new Fault("bad_request", "This gateway speaks the JSON flavour of the protocol, not protobuf");
  }
  return offered.includes(JSON_PROTOCOL) ? JSON_PROTOCOL : undefined;
}

function withDetails(ticket: Ticket, request: Request): Ticket {
  const legacyToken = new URL(request.url).searchParams.get("token");
  const userAgent = request.headers.get("user-agent");
  if (legacyToken !== null && legacyToken !== "") ticket.legacyToken = legacyToken;
  if (userAgent !== null) ticket.userAgent = userAgent.slice(0, USER_AGENT_MAX_LENGTH);
  return ticket;
}

function isSameHost(origin: string, request: Request): boolean {
  return URL.canParse(origin) && new URL(origin).host === request.headers.get("host");
}

function problem(fault: Fault): Response {
  const code: FaultCode = fault.code;
  const { status, title } = fault.kind;
  const body = { type: `urn:collab:problem:${code}`, title, status, detail: fault.message, code };
  const headers = new Headers({ "content-type": "application/problem+json" });
  if (fault.kind.retryable) headers.set("retry-after", String(LATER_SECONDS));
  return new Response(JSON.stringify(body), { status, headers });
}
