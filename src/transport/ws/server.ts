// The upgrade handler of `/ws`: who may open a socket, in which protocol, from which page.
import { Fault } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import { guestRule, type OriginRules } from "../http/origin.ts";
import { Admission, type Ticket } from "./admission.ts";
import { CLOSE } from "./close.ts";
import type { Connection, ConnectionMeta, SocketLike } from "./connection.ts";
import { hangUp } from "./hang_up.ts";
import type { Hub } from "./hub.ts";
import type { WsLimits } from "./limits.ts";

const JSON_PROTOCOL = "centrifuge-json";
const PROTOBUF_PROTOCOL = "centrifuge-protobuf";
const USER_AGENT_MAX_LENGTH = 200;
const LATER = { retryAfterMs: 5000 };

export type UpgradeDeps = OriginRules & {
  hub: Hub;
  limits: WsLimits;
  metrics: Metrics;
  /** Whether a token in the query still counts; default true. */
  acceptsLegacyToken?: boolean;
};

/** Builds the handler, which throws the Fault of whoever is not let in. `ip` is the client's address as seen through trusted proxies. */
export function createUpgrade({ hub, limits, metrics, acceptsLegacyToken = true, ...rules }: UpgradeDeps): (
  request: Request,
  ip: string,
) => Response {
  const admission = new Admission(limits);
  return function upgrade(request, ip) {
    const mayActIn = guestRule(request, rules, metrics);
    const protocol = protocolOf(request);
    const details = { ...detailsOf(request, acceptsLegacyToken), ...(mayActIn === undefined ? {} : { mayActIn }) };
    if (hub.isDraining) throw new Fault("unavailable", "The gateway is shutting down", LATER);
    const admitted = admission.admit(ip);
    if (admitted === "later") {
      throw new Fault("rate_limited", "Too many sockets from this address or on this node", LATER);
    }
    if (admitted === "never") return refuse(request, protocol, admission.refuse(), limits.lingerMs);
    return attach(hub, request, protocol, Object.assign(admitted, details), limits.lingerMs);
  };
}

/** Hands the socket's life to the hub. */
function attach(hub: Hub, request: Request, protocol: string | undefined, ticket: Ticket, lingerMs: number): Response {
  let connection: Connection | undefined;
  const gone = (): void => {
    ticket.gone();
    connection?.gone();
  };
  const { socket, response } = open(request, protocol, gone);
  socket.onopen = () => connection = hub.open(new Line(socket, gone, lingerMs), ticket);
  socket.onmessage = (event) => connection?.receive(event.data);
  return response;
}

/** A socket that ends when we end it, whatever its peer does. */
class Line implements SocketLike {
  readonly #socket: WebSocket;
  readonly #gone: () => void;
  readonly #lingerMs: number;

  constructor(socket: WebSocket, gone: () => void, lingerMs: number) {
    this.#socket = socket;
    this.#gone = gone;
    this.#lingerMs = lingerMs;
  }

  get readyState(): number {
    return this.#socket.readyState;
  }

  get bufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }

  send(data: string): void {
    this.#socket.send(data);
  }

  close(code?: number, reason?: string): void {
    hangUp(this.#socket, code, reason, this.#gone, this.#lingerMs);
  }
}

/** Lets a socket in only to tell it why it cannot stay. */
function refuse(request: Request, protocol: string | undefined, gone: () => void, lingerMs: number): Response {
  const { code, reason } = CLOSE.connectionLimit;
  const { socket, response } = open(request, protocol, gone);
  socket.onopen = () => hangUp(socket, code, reason, gone, lingerMs);
  return response;
}

/** Upgrades; `gone` is called when the socket is, once or more. The protocol has its own pings, the runtime's are off. */
function open(
  request: Request,
  protocol: string | undefined,
  gone: () => void,
): { socket: WebSocket; response: Response } {
  try {
    const options = { idleTimeout: 0, ...(protocol === undefined ? {} : { protocol }) };
    const { socket, response } = Deno.upgradeWebSocket(request, options);
    socket.onclose = gone;
    // An error is always the end here, and not always followed by `close`.
    socket.onerror = gone;
    return { socket, response };
  } catch (cause) {
    gone();
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

/** Read before the upgrade: after it the request is gone. */
function detailsOf(request: Request, acceptsLegacyToken: boolean): Pick<ConnectionMeta, "legacyToken" | "userAgent"> {
  const legacyToken = new URL(request.url).searchParams.get("token");
  const userAgent = request.headers.get("user-agent")?.slice(0, USER_AGENT_MAX_LENGTH);
  return {
    ...(legacyToken === null || legacyToken === "" || !acceptsLegacyToken ? {} : { legacyToken }),
    ...(userAgent === undefined ? {} : { userAgent }),
  };
}
