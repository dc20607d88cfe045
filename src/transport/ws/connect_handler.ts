// Authenticates connections: the `connect` command at the start, `refresh` later.
import type { Actor } from "@/core/actor.ts";
import { runInTurn } from "@/core/caller.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { Clock } from "@/core/time/clock.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { logFailure, logOf } from "@/core/log.ts";
import { DISCONNECT, type Disconnect, ORIGIN_NOT_ALLOWED, withDetail } from "../shared/disconnect.ts";
import type { Connection } from "./connection.ts";
import type { ChannelRegistry } from "./channel_registry.ts";
import { type CommandOf, encodeReply, ERRORS, ProtocolError, type Recovery, replyErrorOf } from "./protocol.ts";
import type { WsLimits } from "../shared/socket_limits.ts";
import { type OwnerSockets, tooMany } from "./owner_sockets.ts";
import type { OpenedSubscription, SubscribeHandler } from "./subscribe_handler.ts";

export type Identity = {
  /** Throws `unauthenticated`, `token_expired` or `token_revoked`. */
  authenticate: (token: string) => Actor | Promise<Actor>;
  /** The actor with its current rights; `undefined` if it must be disconnected. */
  revalidate?: (actor: Actor) => Promise<Actor | undefined>;
  /** `data` of the connect reply. */
  connectData: (actor: Actor) => Promise<unknown>;
};

type ConnectHandlerDeps = {
  identity: Identity;
  subscribeHandler: SubscribeHandler;
  channelRegistry: ChannelRegistry;
  ownerSockets: OwnerSockets;
  clock: Clock;
  /** CPU time of callers; absent where it is not limited. */
  cpu: CpuBudget | undefined;
  limits: WsLimits;
  version: string;
  onLegacyToken: () => void;
};

const LEGACY_TOKEN = {
  code: "legacy_query_token",
  detail: "Tokens in URLs can end up in logs; send the token in the connect command",
};

/** Some clients store seconds in 31 bits. */
const TTL_MAX_SECONDS = 2 ** 31 - 1;

/** Clients refresh their token this much before it expires, or a tenth of its life: later, their calls would fail. */
const REFRESH_MARGIN_SECONDS = 5;

const log = logOf("ws");

export class ConnectHandler {
  readonly #deps: ConnectHandlerDeps;

  constructor(deps: ConnectHandlerDeps) {
    this.#deps = deps;
  }

  /** Authenticates a connection, or closes it, or replies with an error after which input is ignored. */
  async connect(connection: Connection, { id, body }: CommandOf<"connect">): Promise<void> {
    const { identity, ownerSockets, limits, cpu } = this.#deps;
    const isLegacy = body.token === "" && connection.meta.legacyToken !== undefined;
    let opened: OpenedSubscription;
    let data: unknown;
    try {
      const token = body.token || (connection.meta.legacyToken ?? "");
      if (token === "") throw new Fault("unauthenticated", "Expected an access token in the connect command");
      const actor = await identity.authenticate(token);
      connection.meta.onKnown?.();
      if (connection.isClosed) return;
      if (!hasAllowedOrigin(connection, actor)) return connection.close(ORIGIN_NOT_ALLOWED);
      connection.queue.shared = ownerSockets.add(connection, actor, this.#deps.clock.now());
      connection.actor = actor;
      [opened, data] = await runInTurn(cpu?.accountOf(actor), () => this.#open(connection, actor, body.subs));
      opened.subscription.assertOpen();
    } catch (thrown) {
      return this.#reject(connection, id, thrown);
    }
    if (connection.isClosed || connection.actor === undefined) return;
    if (isLegacy) this.#warnLegacyToken(connection, connection.actor);
    const reply = {
      client: connection.client,
      version: this.#deps.version,
      ping: limits.pingMs / 1000,
      pong: true,
      ...this.#lifetime(connection.actor),
      data: isLegacy ? { ...objectOf(data), deprecations: [LEGACY_TOKEN] } : data,
    };
    const subs = `{${JSON.stringify(opened.subscription.fanout.channel)}:${opened.body()}}`;
    connection.markReady();
    connection.reply(encodeReply(id, "connect", `${JSON.stringify(reply).slice(0, -1)},"subs":${subs}}`));
    opened.subscription.activate();
  }

  /** Subscribes to the principal's own stream, and reads the data of the reply. */
  async #open(
    connection: Connection,
    actor: Actor,
    recoveries: Readonly<Record<string, Recovery>>,
  ): Promise<[OpenedSubscription, unknown]> {
    const { identity, subscribeHandler, channelRegistry, limits: { connectionsPerPrincipal = Infinity } } = this.#deps;
    // It may have waited for its turn.
    if (connection.isClosed) throw new ProtocolError(ERRORS.internal);
    const stream = principalStream(actor.principalId);
    if (channelRegistry.sizeOf(actor.tenantId, stream) >= connectionsPerPrincipal) {
      throw tooMany(`at most ${connectionsPerPrincipal} connections of a principal`);
    }
    const recovery = recoveries[stream] ?? { recover: false, offset: 0, epoch: "" };
    const confirm = () => this.#revalidate(connection, actor);
    const opened = await subscribeHandler.subscribeToOwnStream(connection, actor.principalId, recovery, confirm);
    return [opened, await identity.connectData(actor)];
  }

  /** Accepts a newer token of the same principal. */
  async refresh(connection: Connection, { id, body }: CommandOf<"refresh">): Promise<void> {
    let actor: Actor;
    try {
      actor = await this.#deps.identity.authenticate(body.token);
    } catch (thrown) {
      const fault = Fault.from(thrown);
      // Clients do not retry after error 109 here; closed as expired, they reconnect with a new token.
      if (fault.code === "token_expired") return connection.close(DISCONNECT.expired);
      const disconnect = disconnectFor(fault);
      if (disconnect === undefined) {
        logCommandFailure(connection, id, "refresh", fault);
        throw new ProtocolError(replyErrorOf(fault));
      }
      return connection.close(disconnect);
    }
    const { actor: previous } = connection;
    if (connection.isClosed || previous === undefined) return;
    if (previous.principalId !== actor.principalId || previous.tenantId !== actor.tenantId) {
      return connection.close(withDetail(DISCONNECT.invalidToken, "the token belongs to another principal"));
    }
    connection.updateActor(actor);
    const { client } = connection;
    connection.reply(
      encodeReply(id, "refresh", JSON.stringify({ client, version: this.#deps.version, ...this.#lifetime(actor) })),
    );
  }

  async #revalidate(connection: Connection, actor: Actor): Promise<void> {
    const { revalidate } = this.#deps.identity;
    const current = revalidate === undefined ? actor : await revalidate(actor);
    if (current === undefined) throw new Fault("token_revoked", "The token is no longer valid");
    if (connection.actor === actor) connection.actor = current;
  }

  /** Clients loop after a ttl of 0, or `expires` without ttl. */
  #lifetime({ expiresAt }: Actor): { expires: true; ttl: number } | Record<never, never> {
    if (expiresAt === undefined) return {};
    const left = (expiresAt - this.#deps.clock.now()) / 1000;
    const seconds = Math.floor(left - Math.min(left / 10, REFRESH_MARGIN_SECONDS));
    return { expires: true, ttl: Math.min(Math.max(1, seconds), TTL_MAX_SECONDS) };
  }

  #reject(connection: Connection, id: number, thrown: unknown): void {
    if (connection.isClosed) return;
    if (thrown instanceof ProtocolError) return connection.rejectConnect(id, thrown.error);
    const fault = Fault.from(thrown);
    if (fault.spec.status !== 401 || fault.code === "token_expired") connection.meta.onKnown?.();
    const disconnect = fault.code === "token_expired" ? undefined : disconnectFor(fault);
    if (disconnect !== undefined) return connection.close(disconnect);
    logCommandFailure(connection, id, "connect", fault);
    connection.rejectConnect(id, replyErrorOf(fault));
  }

  #warnLegacyToken(connection: Connection, { tenantId, principalId }: Actor): void {
    this.#deps.onLegacyToken();
    const { client, meta: { userAgent } } = connection;
    log.warn("deprecated: token in the URL query", {
      client,
      tenant: tenantId,
      principal: principalId,
      ...(userAgent === undefined ? {} : { userAgent }),
    });
  }
}

/** Identifies a command of a connection in logs. */
export function requestIdOf(connection: Connection, id: number): string {
  return `${connection.client}-${id}`;
}

/** Whether the tenant of the token allows the web origin of the connection. */
export function hasAllowedOrigin({ meta }: Connection, actor: Actor): boolean {
  return meta.isOriginAllowed === undefined || meta.isOriginAllowed(actor.tenantId);
}

/** Logs a failed command unless the client caused it. */
export function logCommandFailure(connection: Connection, id: number, method: string, fault: Fault): void {
  if (fault.spec.status >= 500) logFailure(log, fault, { requestId: requestIdOf(connection, id), method });
}

/** How a rejected token ends the connection; `undefined` if the client should retry. */
function disconnectFor(fault: Fault): Disconnect | undefined {
  if (fault.spec.retryable || fault.spec.status >= 500) return undefined;
  if (fault.code === "token_revoked") return DISCONNECT.forced;
  return fault.spec.status === 401 ? withDetail(DISCONNECT.invalidToken, fault.message) : DISCONNECT.permissionDenied;
}

function objectOf(data: unknown): Record<string, unknown> {
  return typeof data === "object" && data !== null ? { ...data } : { value: data };
}
