// The upgrade handler of `/ws`: who may open a socket, in which flavour of the protocol, from which page.
import { Fault } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import { guestRule, type MayActIn, type OriginRules } from "../http/origin.ts";
import { Admission, type Ticket } from "./admission.ts";
import { CLOSE } from "./close.ts";
import type { Connection, ConnectionMeta, SocketLike } from "./connection.ts";
import { hangUp } from "./hang_up.ts";
import type { Hub } from "./hub.ts";
import type { WsLimits } from "./limits.ts";
import type { Protobuf } from "./protobuf.ts";

const JSON_PROTOCOL = "centrifuge-json";
const PROTOBUF_PROTOCOL = "centrifuge-protobuf";
const USER_AGENT_MAX_CHARS = 200;
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
) => Response | Promise<Response> {
  const admission = new Admission(limits);
  let protobuf: Promise<Protobuf> | undefined;
  return function upgrade(request, ip) {
    const mayActIn = guestRule(request, rules, metrics);
    if (!wantsProtobuf(request)) return admit(request, ip, mayActIn);
    protobuf ??= loadProtobuf(limits.frameMaxBytes);
    return protobuf.then((flavour) => admit(request, ip, mayActIn, flavour));
  };

  function admit(request: Request, ip: string, mayActIn: MayActIn | undefined, protobuf?: Protobuf): Response {
    const protocol = offered(request).find((name) =>
      name === (protobuf === undefined ? JSON_PROTOCOL : PROTOBUF_PROTOCOL)
    );
    const details = { ...detailsOf(request, acceptsLegacyToken), ...(mayActIn === undefined ? {} : { mayActIn }) };
    if (hub.isDraining) throw new Fault("unavailable", "The gateway is shutting down", LATER);
    const admitted = admission.admit(ip);
    if (admitted === "unheard") {
      throw new Fault("rate_limited", "Too many sockets from this address or on this node", LATER);
    }
    if (admitted === "told") return refuse(request, protocol, admission.refuse(), limits.lingerMs);
    return attach(hub, request, { protocol, protobuf }, Object.assign(admitted, details), limits.lingerMs);
  }
}

/** What frames are read and written by; JSON without `protobuf`. */
type Flavour = { protocol: string | undefined; protobuf: Protobuf | undefined };

/** Hands the socket's life to the hub. */
function attach(
  hub: Hub,
  request: Request,
  { protocol, protobuf }: Flavour,
  ticket: Ticket,
  lingerMs: number,
): Response {
  let connection: Connection | undefined;
  const gone = (): void => {
    ticket.gone();
    connection?.gone();
  };
  const { socket, response } = open(request, protocol, gone);
  if (protobuf === undefined) {
    socket.onopen = () => connection = hub.open(new Line(socket, gone, lingerMs), ticket);
    socket.onmessage = (event) => connection?.receive(event.data);
  } else {
    socket.binaryType = "arraybuffer";
    socket.onopen = () => connection = hub.open(new ProtobufLine(protobuf, socket, gone, lingerMs), ticket);
    socket.onmessage = (event) => hear(connection, protobuf, event.data);
  }
  return response;
}

/** Nothing is decoded that nobody listens to. */
function hear(connection: Connection | undefined, protobuf: Protobuf, data: unknown): void {
  if (connection?.isHeard !== true) return connection?.receive(data);
  for (const line of protobuf.decode(data)) {
    connection.receive(line);
    if (!connection.isHeard) return;
  }
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

  send(data: string | Uint8Array<ArrayBuffer>): void {
    this.#socket.send(data);
  }

  close(code?: number, reason?: string): void {
    hangUp(this.#socket, code, reason, this.#gone, this.#lingerMs);
  }
}

/** One whose peer gets everything in protobuf. */
class ProtobufLine extends Line {
  readonly #protobuf: Protobuf;

  constructor(protobuf: Protobuf, ...rest: ConstructorParameters<typeof Line>) {
    super(...rest);
    this.#protobuf = protobuf;
  }

  override send(text: string): void {
    super.send(this.#protobuf.encode(text));
  }
}

/** Lets a socket in only to tell it why it cannot stay now. */
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

/** Its code is loaded when the first client asks for it: most gateways never meet one. */
async function loadProtobuf(frameMaxBytes: number): Promise<Protobuf> {
  const { Protobuf } = await import("./protobuf.ts");
  return new Protobuf(frameMaxBytes);
}

function wantsProtobuf(request: Request): boolean {
  const query = new URL(request.url).searchParams;
  return query.get("cf_protocol") === "protobuf" || query.get("format") === "protobuf" ||
    offered(request).includes(PROTOBUF_PROTOCOL);
}

/** The subprotocols to choose from. Only what we speak is ever answered: echoing another would promise what we do not. */
function offered(request: Request): string[] {
  return (request.headers.get("sec-websocket-protocol") ?? "").split(",").map((name) => name.trim());
}

/** Read before the upgrade: after it the request is gone. */
function detailsOf(request: Request, acceptsLegacyToken: boolean): Pick<ConnectionMeta, "legacyToken" | "userAgent"> {
  const legacyToken = new URL(request.url).searchParams.get("token");
  const userAgent = request.headers.get("user-agent")?.slice(0, USER_AGENT_MAX_CHARS);
  return {
    ...(legacyToken === null || legacyToken === "" || !acceptsLegacyToken ? {} : { legacyToken }),
    ...(userAgent === undefined ? {} : { userAgent }),
  };
}
