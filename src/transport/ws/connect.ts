// Authentication of a connection: the connect command at its start, and refresh for as long as it lives.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { logFailure, logOf } from "@/core/log.ts";
import { CLOSE, ORIGIN_REFUSED, type Verdict } from "./close.ts";
import type { Connection } from "./connection.ts";
import type { Feeds } from "./feeds.ts";
import { type CommandOf, ERRORS, wireErrorOf, WireFault } from "./frame.ts";
import type { WsLimits } from "./limits.ts";
import type { Opened, Subscriber } from "./subscribe.ts";

export type Identity = {
  /** Throws `unauthenticated`, `token_expired` or `token_revoked`. */
  authenticate: (token: string) => Actor | Promise<Actor>;
  /** Somebody authenticated earlier with the rights left to them; `undefined` when they may not stay. */
  revalidate?: (actor: Actor) => Promise<Actor | undefined>;
  /** `data` of the connect reply. */
  welcome: (actor: Actor) => Promise<unknown>;
};

export type EntranceDeps = {
  identity: Identity;
  subscriber: Subscriber;
  feeds: Feeds;
  clock: Clock;
  limits: WsLimits;
  version: string;
  onLegacyToken: () => void;
};

const LEGACY_TOKEN = {
  code: "legacy_query_token",
  detail: "A token in the URL can end up in logs; send it in the connect command",
};

/** Some clients count seconds in 31 bits. */
const TTL_MAX_SECONDS = 2 ** 31 - 1;

const log = logOf("ws");

export class Entrance {
  readonly #deps: EntranceDeps;

  constructor(deps: EntranceDeps) {
    this.#deps = deps;
  }

  /** Lets a connection in, or closes it, or answers with an error after which it is not heard any more. */
  async connect(connection: Connection, { id, body }: CommandOf<"connect">): Promise<void> {
    const { identity, subscriber, feeds, limits } = this.#deps;
    const isLegacy = body.token === "" && connection.meta.legacyToken !== undefined;
    let opened: Opened;
    let data: unknown;
    try {
      const actor = await identity.authenticate(body.token || (connection.meta.legacyToken ?? ""));
      if (connection.isClosed) return;
      if (!mayAct(connection, actor)) return connection.close(ORIGIN_REFUSED);
      const self = principalStream(actor.principalId);
      const { connectionsPerPrincipal = Infinity } = limits;
      if (feeds.sizeOf(actor.tenantId, self) >= connectionsPerPrincipal) {
        // Sockets of a network that is gone count until they miss a pong: who comes back from there tries again.
        throw new WireFault({ ...ERRORS.limitExceeded, temporary: true }, `${connectionsPerPrincipal} connections`);
      }
      connection.actor = actor;
      const recovery = body.subs[self] ?? { recover: false, offset: 0, epoch: "" };
      const confirm = () => this.#confirm(connection, actor);
      opened = await subscriber.subscribeToSelf(connection, actor.principalId, recovery, confirm);
      data = await identity.welcome(actor);
      opened.subscription.assertOpen();
    } catch (thrown) {
      return this.#refuse(connection, id, thrown);
    }
    if (connection.isClosed || connection.actor === undefined) return;
    if (isLegacy) this.#warn(connection, connection.actor);
    const reply = {
      client: connection.client,
      version: this.#deps.version,
      ping: limits.pingMs / 1000,
      pong: true,
      ...this.#lifetime(connection.actor),
      data: isLegacy ? { ...objectOf(data), deprecations: [LEGACY_TOKEN] } : data,
    };
    const subs = `{${JSON.stringify(opened.subscription.feed.channel)}:${opened.body()}}`;
    connection.welcome();
    connection.reply(id, "connect", `${JSON.stringify(reply).slice(0, -1)},"subs":${subs}}`);
    opened.subscription.goLive();
  }

  /** Takes a newer token of the same principal. */
  async refresh(connection: Connection, { id, body }: CommandOf<"refresh">): Promise<void> {
    let actor: Actor;
    try {
      actor = await this.#deps.identity.authenticate(body.token);
    } catch (thrown) {
      const fault = Fault.from(thrown);
      // An error 109 would be final for the client here; closed as expired it comes back and gets a new token.
      if (fault.code === "token_expired") return connection.close(CLOSE.expired);
      const verdict = verdictOf(fault);
      if (verdict === undefined) {
        tell(connection, id, "refresh", fault);
        throw new WireFault(wireErrorOf(fault));
      }
      return connection.close(verdict);
    }
    const { actor: before } = connection;
    if (connection.isClosed || before === undefined) return;
    if (before.principalId !== actor.principalId || before.tenantId !== actor.tenantId) {
      return connection.close(CLOSE.invalidToken);
    }
    connection.renew(actor);
    const { client } = connection;
    connection.reply(id, "refresh", JSON.stringify({ client, version: this.#deps.version, ...this.#lifetime(actor) }));
  }

  async #confirm(connection: Connection, actor: Actor): Promise<void> {
    const { revalidate } = this.#deps.identity;
    const current = revalidate === undefined ? actor : await revalidate(actor);
    if (current === undefined) throw new Fault("token_revoked", "The token is not valid any more");
    if (connection.actor === actor) connection.actor = current;
  }

  /** A ttl of 0, or `expires` without one, sends clients into a loop. */
  #lifetime({ expiresAt }: Actor): { expires: true; ttl: number } | Record<never, never> {
    if (expiresAt === undefined) return {};
    const seconds = Math.ceil((expiresAt - this.#deps.clock.now()) / 1000);
    return { expires: true, ttl: Math.min(Math.max(1, seconds), TTL_MAX_SECONDS) };
  }

  #refuse(connection: Connection, id: number, thrown: unknown): void {
    if (connection.isClosed) return;
    if (thrown instanceof WireFault) return connection.refuse(id, thrown.error);
    const fault = Fault.from(thrown);
    const verdict = fault.code === "token_expired" ? undefined : verdictOf(fault);
    if (verdict !== undefined) return connection.close(verdict);
    tell(connection, id, "connect", fault);
    connection.refuse(id, wireErrorOf(fault));
  }

  #warn(connection: Connection, { tenantId, principalId }: Actor): void {
    this.#deps.onLegacyToken();
    const { client, meta: { userAgent } } = connection;
    log.warn("deprecated: a token came in the URL query", {
      client,
      tenant: tenantId,
      principal: principalId,
      ...(userAgent === undefined ? {} : { userAgent }),
    });
  }
}

/** Says which command of which connection, for the log. */
export function requestIdOf(connection: Connection, id: number): string {
  return `${connection.client}-${id}`;
}

/** Whether the page of a connection may act in the tenant that its token names. */
export function mayAct({ meta }: Connection, actor: Actor): boolean {
  return meta.mayActIn === undefined || meta.mayActIn(actor.tenantId);
}

/** Logs why a command failed, if that is our failure. */
export function tell(connection: Connection, id: number, method: string, fault: Fault): void {
  if (fault.kind.status >= 500) logFailure(log, fault, { requestId: requestIdOf(connection, id), method });
}

/** How a refused token ends the connection; `undefined` where the client should try again. */
function verdictOf(fault: Fault): Verdict | undefined {
  if (fault.kind.retryable || fault.kind.status >= 500) return undefined;
  if (fault.code === "token_revoked") return CLOSE.forced;
  return fault.kind.status === 401 ? CLOSE.invalidToken : CLOSE.permissionDenied;
}

function objectOf(data: unknown): Record<string, unknown> {
  return typeof data === "object" && data !== null ? { ...data } : { value: data };
}
