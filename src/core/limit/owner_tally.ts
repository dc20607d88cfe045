// Counts how much of something, such as places or bytes, each owner has, and their tenants and the node in all.
import { tenantOfCharged } from "../actor.ts";

export class OwnerTally {
  /** By owner and by tenant. Addresses, which are owners of what strangers have, are of one tenant. */
  readonly #amounts = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** `owner` is a key as returned by `chargedTo`, or an address. */
  ofOwner(owner: string): number {
    return this.#amounts.get(owner) ?? 0;
  }

  /** The tally of all owners in the tenant of this one. */
  ofTenant(owner: string): number {
    return this.#amounts.get(tenantOf(owner)) ?? 0;
  }

  /** A negative amount is given back. */
  add(owner: string, amount: number): void {
    this.#total += amount;
    for (const key of [owner, tenantOf(owner)]) {
      const left = (this.#amounts.get(key) ?? 0) + amount;
      if (left > 0) this.#amounts.set(key, left);
      else this.#amounts.delete(key);
    }
  }
}

function tenantOf(owner: string): string {
  return owner.includes("/") ? tenantOfCharged(owner) : "";
}
