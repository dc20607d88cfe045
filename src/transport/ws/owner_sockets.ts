// Limits shared by connections of this node: their number by owner and by tenant, and the command rate of an owner.
import { type Actor, chargedTo } from "@/core/actor.ts";
import type { Rate } from "@/core/operation.ts";
import { LruMap } from "@/core/lru_map.ts";
import { OwnerTally } from "@/core/limit/owner_tally.ts";
import { CommandLimiter } from "./command_limiter.ts";
import { ERRORS, ProtocolError } from "./protocol.ts";
import type { WsLimits } from "../shared/socket_limits.ts";

/** How many connections of a principal and its agents may send at the full rate at the same time. */
const FULL_RATE_SOCKETS = 3;

const OWNERS_MAX = 20_000;

export class OwnerSockets {
  readonly #limits: WsLimits;
  readonly #connections = new OwnerTally();
  /** Retained after the last connection closed, so that reconnecting does not reset the limit. */
  readonly #limiters = new LruMap<string, CommandLimiter>(OWNERS_MAX);
  readonly #keys = new WeakMap<object, string>();

  constructor(limits: WsLimits) {
    const times = (rate: Rate): Rate => ({
      perSecond: rate.perSecond * FULL_RATE_SOCKETS,
      burst: rate.burst * FULL_RATE_SOCKETS,
    });
    const { rate, publishRate, subscriptionsMax } = limits;
    this.#limits = {
      ...limits,
      ...(rate === undefined ? {} : { rate: times(rate) }),
      ...(publishRate === undefined ? {} : { publishRate: times(publishRate) }),
      subscriptionsMax: subscriptionsMax * FULL_RATE_SOCKETS,
    };
  }

  /** Counts a connection for the owner of its actor. Returns the shared limiter; throws beyond a limit. */
  add(connection: object, actor: Actor, now: number): CommandLimiter {
    const { connectionsPerOwner = Infinity, connectionsPerTenant = Infinity } = this.#limits;
    const owner = chargedTo(actor);
    if (this.#connections.ofOwner(owner) >= connectionsPerOwner) {
      throw tooMany(`at most ${connectionsPerOwner} connections of a principal and its agents`);
    }
    if (this.#connections.ofTenant(owner) >= connectionsPerTenant) {
      throw tooMany(`at most ${connectionsPerTenant} connections of a tenant to this node`);
    }
    const limiter = this.#limiters.get(owner) ?? new CommandLimiter(this.#limits, now);
    this.#limiters.set(owner, limiter);
    if (!limiter.countConnection(now)) throw tooMany("a principal and its agents connect too often");
    this.#connections.add(owner, 1);
    this.#keys.set(connection, owner);
    return limiter;
  }

  remove(connection: object): void {
    const owner = this.#keys.get(connection);
    if (owner === undefined) return;
    this.#keys.delete(connection);
    this.#connections.add(owner, -1);
  }
}

/** Temporary, since sockets of a lost network count until they miss a pong: a client that reconnects must retry. */
export function tooMany(detail: string): ProtocolError {
  return new ProtocolError({ ...ERRORS.limitExceeded, temporary: true }, detail);
}
