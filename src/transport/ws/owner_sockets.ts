// Limits shared by all connections of a principal and its agents on this node: their number and command rate.
import { type Actor, chargedTo } from "@/core/actor.ts";
import type { Rate } from "@/core/operation.ts";
import { LruMap } from "@/core/lru_map.ts";
import { CommandLimiter } from "./command_limiter.ts";
import type { WsLimits } from "../shared/socket_limits.ts";

/** How many connections of a principal and its agents may send at the full rate at the same time. */
const FULL_RATE_SOCKETS = 3;

const OWNERS_MAX = 20_000;

type Owner = { sockets: number; limiter: CommandLimiter };

export class OwnerSockets {
  readonly #limits: WsLimits;
  readonly #connectionsMax: number;
  /** Retained after the last connection closed, so that reconnecting does not reset the limit. */
  readonly #owners = new LruMap<string, Owner>(OWNERS_MAX);
  readonly #keys = new WeakMap<object, string>();

  constructor(limits: WsLimits) {
    const times = (rate: Rate): Rate => ({
      perSecond: rate.perSecond * FULL_RATE_SOCKETS,
      burst: rate.burst * FULL_RATE_SOCKETS,
    });
    const { rate, publishRate, subscriptionsMax, connectionsPerOwner = Infinity } = limits;
    this.#connectionsMax = connectionsPerOwner;
    this.#limits = {
      ...limits,
      ...(rate === undefined ? {} : { rate: times(rate) }),
      ...(publishRate === undefined ? {} : { publishRate: times(publishRate) }),
      subscriptionsMax: subscriptionsMax * FULL_RATE_SOCKETS,
    };
  }

  /** Counts a connection for the owner of its actor. Returns the shared limiter; `undefined` beyond the limit. */
  add(connection: object, actor: Actor, now: number): CommandLimiter | undefined {
    const key = chargedTo(actor);
    const owner = this.#owners.get(key) ?? { sockets: 0, limiter: new CommandLimiter(this.#limits, now) };
    if (owner.sockets >= this.#connectionsMax) return undefined;
    owner.sockets++;
    this.#owners.set(key, owner);
    this.#keys.set(connection, key);
    return owner.limiter;
  }

  remove(connection: object): void {
    const key = this.#keys.get(connection);
    const owner = key === undefined ? undefined : this.#owners.get(key);
    if (key === undefined || owner === undefined) return;
    this.#keys.delete(connection);
    owner.sockets--;
  }
}
