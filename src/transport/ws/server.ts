// The upgrade handler of `/ws`: checks the web origin and the connection limits, and selects the encoding.
import type { Metrics } from "@/core/metrics.ts";
import { userAgentOf } from "@/core/http/request.ts";
import type { Route } from "@/core/http/route.ts";
import { type OriginRules, tenantOriginCheck } from "../shared/origin.ts";
import { type AcceptedSocket, acceptSocket, type SocketSession } from "../shared/accepted_socket.ts";
import {
  assertAcceptsConnections,
  ConnectionLimiter,
  type ConnectionMeta,
  tooManyConnections,
} from "../shared/connection_limiter.ts";
import { DISCONNECT, type Disconnect } from "../shared/disconnect.ts";
import type { Connection } from "./connection.ts";
import type { SocketLike } from "./outbox.ts";
import type { Hub } from "./hub.ts";
import type { WsLimits } from "../shared/socket_limits.ts";
import type { MemoryGuard } from "../shared/memory_guard.ts";
import type { ProtobufCodec } from "./protobuf.ts";

const JSON_PROTOCOL = "centrifuge-json";
const PROTOBUF_PROTOCOL = "centrifuge-protobuf";

type UpgradeDeps = OriginRules & {
  hub: Hub;
  limits: WsLimits;
  metrics: Metrics;
  guard: MemoryGuard;
  /** Whether a token in the query is accepted; default true. */
  acceptsLegacyToken?: boolean;
};

/** Builds the handler, which throws a Fault if it rejects. `ip` is the client's address as seen through trusted proxies. */
export function createWebSocketUpgrade(
  { hub, limits, metrics, guard, acceptsLegacyToken = true, ...rules }: UpgradeDeps,
): (request: Request, ip: string) => Response {
  const limiter = new ConnectionLimiter(limits);
  let protobuf: Promise<ProtobufCodec> | undefined;
  return function upgrade(request, ip) {
    const isOriginAllowed = tenantOriginCheck(request, rules, metrics);
    assertAcceptsConnections(hub, guard);
    const isProtobuf = wantsProtobuf(request);
    const protocol = offeredProtocols(request).find((name) =>
      name === (isProtobuf ? PROTOBUF_PROTOCOL : JSON_PROTOCOL)
    );
    const options = { protocol, idleTimeout: 0, limits, guard, isAuthenticated: () => false };
    const slot = limiter.acquire(ip);
    if (slot === "reject") throw tooManyConnections();
    if (slot === "close_after_upgrade") {
      return acceptSocket(request, { ...options, serve: closeOverLimit, onClosed: limiter.countRejected() });
    }
    const meta = Object.assign(
      slot,
      connectionDetails(request, acceptsLegacyToken),
      isOriginAllowed && { isOriginAllowed },
    );
    const hooks = {
      isAuthenticated: () => slot.isAuthenticated,
      owner: () => slot.owner,
      onClosed: () => slot.release(),
    };
    if (!isProtobuf) return acceptSocket(request, { ...options, ...hooks, serve: (socket) => hub.open(socket, meta) });
    protobuf ??= loadProtobuf(limits.frameMaxBytes);
    const loading = protobuf;
    const serve = async (socket: AcceptedSocket): Promise<SocketSession> => {
      const codec = await loading;
      return new ProtobufSession(codec, hub.open(new ProtobufSocket(codec, socket), meta));
    };
    return acceptSocket(request, { ...options, ...hooks, serve });
  };
}

/** `GET /ws` as a route, counted and documented like the others. `upgrade` responds synchronously. */
export function webSocketRoute(upgrade: (request: Request, ip: string) => Response): Route {
  return {
    name: "ws.connect",
    summary: "Open a WebSocket connection",
    description: "Speaks the Centrifuge client protocol in JSON, or in protobuf if the client requests it. The first " +
      "message authenticates; a token in the query is deprecated but accepted.",
    tag: "realtime",
    method: "GET",
    path: "/ws",
    auth: "public",
    faults: ["bad_request", "origin_not_allowed", "rate_limited"],
    document: {
      parameters: [{
        name: "token",
        in: "query",
        deprecated: true,
        description: "Deprecated: the JWT. URLs can end up in logs; send it in the first message instead",
        schema: { type: "string" },
      }],
      responses: { 101: { description: "Switching to the WebSocket protocol" } },
    },
    handle: (request, { ip }) => upgrade(request, ip),
  };
}

/** A connection whose client sends protobuf. */
class ProtobufSession implements SocketSession {
  readonly #protobuf: ProtobufCodec;
  readonly #connection: Connection;

  constructor(protobuf: ProtobufCodec, connection: Connection) {
    this.#protobuf = protobuf;
    this.#connection = connection;
  }

  receive(data: unknown): void {
    // Frames that the connection ignores are not decoded.
    if (!this.#connection.acceptsInput) return this.#connection.receive(data);
    for (const command of this.#protobuf.decode(data)) {
      this.#connection.receive(command);
      if (!this.#connection.acceptsInput) return;
    }
  }

  probe(): void {
    this.#connection.probe();
  }

  close(disconnect: Disconnect): void {
    this.#connection.close(disconnect);
  }

  onSocketClosed(): void {
    this.#connection.onSocketClosed();
  }
}

/** A socket whose client receives protobuf. */
class ProtobufSocket implements SocketLike {
  readonly #protobuf: ProtobufCodec;
  readonly #socket: AcceptedSocket;

  constructor(protobuf: ProtobufCodec, socket: AcceptedSocket) {
    this.#protobuf = protobuf;
    this.#socket = socket;
  }

  get readyState(): number {
    return this.#socket.readyState;
  }

  get bufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }

  send(text: string): void {
    this.#socket.send(this.#protobuf.encode(text));
  }

  close(code?: number, reason?: string): void {
    this.#socket.close(code, reason);
  }
}

/** Accepts a socket only to close it with a reason that the client can read. */
function closeOverLimit(socket: AcceptedSocket): SocketSession {
  const { code, reason } = DISCONNECT.connectionLimit;
  socket.close(code, reason);
  return { receive() {}, probe() {}, close() {}, onSocketClosed() {} };
}

/** Loaded for the first client that uses protobuf: most gateways have none. */
async function loadProtobuf(frameMaxBytes: number): Promise<ProtobufCodec> {
  const { ProtobufCodec } = await import("./protobuf.ts");
  return new ProtobufCodec(frameMaxBytes);
}

function wantsProtobuf(request: Request): boolean {
  const query = new URL(request.url).searchParams;
  return query.get("cf_protocol") === "protobuf" || query.get("format") === "protobuf" ||
    offeredProtocols(request).includes(PROTOBUF_PROTOCOL);
}

/** The subprotocols that the client offers. Only a supported one may be selected. */
function offeredProtocols(request: Request): string[] {
  return (request.headers.get("sec-websocket-protocol") ?? "").split(",").map((name) => name.trim());
}

/** To be called before the upgrade, which consumes the request. */
function connectionDetails(
  request: Request,
  acceptsLegacyToken: boolean,
): Pick<ConnectionMeta, "legacyToken" | "userAgent"> {
  const legacyToken = new URL(request.url).searchParams.get("token");
  const userAgent = userAgentOf(request);
  return {
    ...(legacyToken === null || legacyToken === "" || !acceptsLegacyToken ? {} : { legacyToken }),
    ...(userAgent === undefined ? {} : { userAgent }),
  };
}
