// How many sockets the editors of a principal have, those of its owner, and those of its tenant.
import { type Actor, chargedTo } from "@/core/actor.ts";
import { OwnerTally } from "@/core/limit/owner_tally.ts";
import type { EditorSocket } from "./editor_socket.ts";

export type SocketLimits = {
  connectionsPerPrincipal?: number | undefined;
  /** Connections of a principal and its agents together. */
  connectionsPerOwner?: number | undefined;
  connectionsPerTenant?: number | undefined;
};
type Holder = { principal: string; owner: string };

export class SocketCounts {
  readonly #limits: SocketLimits;
  readonly #ofPrincipals = new OwnerTally();
  readonly #ofOwners = new OwnerTally();
  readonly #holders = new Map<EditorSocket, Holder>();

  constructor(limits: SocketLimits) {
    this.#limits = limits;
  }

  /** Counts a socket for its principal, which may have become another one; false if there are enough of others. */
  add(socket: EditorSocket, actor: Actor): boolean {
    const holder = { principal: `${actor.tenantId}/${actor.principalId}`, owner: chargedTo(actor) };
    const { connectionsPerPrincipal = Infinity, connectionsPerOwner = Infinity, connectionsPerTenant = Infinity } =
      this.#limits;
    const previous = this.#holders.get(socket);
    this.delete(socket);
    const isFull = this.#ofPrincipals.ofOwner(holder.principal) >= connectionsPerPrincipal ||
      this.#ofOwners.ofOwner(holder.owner) >= connectionsPerOwner ||
      this.#ofOwners.ofTenant(holder.owner) >= connectionsPerTenant;
    const counted = isFull ? previous : holder;
    if (counted !== undefined) this.#count(socket, counted);
    return !isFull;
  }

  delete(socket: EditorSocket): void {
    const holder = this.#holders.get(socket);
    if (holder === undefined) return;
    this.#holders.delete(socket);
    this.#ofPrincipals.add(holder.principal, -1);
    this.#ofOwners.add(holder.owner, -1);
  }

  #count(socket: EditorSocket, holder: Holder): void {
    this.#holders.set(socket, holder);
    this.#ofPrincipals.add(holder.principal, 1);
    this.#ofOwners.add(holder.owner, 1);
  }
}
