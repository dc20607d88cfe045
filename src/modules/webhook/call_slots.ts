// How many calls of endpoints run at once: a bound for the node, one for each tenant, and one for each owner of webhooks in it, so
// that slow endpoints of one leave room for those of others.
import { streamKey } from "@/ports/store.ts";

type Bounds = { total: number; perTenant: number; perOwner: number };
type Waiting = { tenant: string; owner: string; start: (release: () => void) => void };

export class CallSlots {
  readonly #bounds: Bounds;
  /** Calls of tenants, and of owners, by key. */
  readonly #running = new Map<string, number>();
  /** In the order of arrival. */
  readonly #waiting: Waiting[] = [];
  #count = 0;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  /** Resolves to a function that ends the call, once it may begin. */
  acquire(tenantId: string, ownerId: string): Promise<() => void> {
    return new Promise((resolve) => {
      this.#waiting.push({ tenant: tenantId, owner: streamKey(tenantId, ownerId), start: resolve });
      this.#startNext();
    });
  }

  #startNext(): void {
    while (this.#count < this.#bounds.total) {
      const next = this.#next();
      if (next === undefined) return;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      this.#add(next, 1);
      let isReleased = false;
      next.start(() => {
        if (isReleased) return;
        isReleased = true;
        this.#add(next, -1);
        this.#startNext();
      });
    }
  }

  /** Of the tenant with the fewest calls, and of the owner with the fewest in it, the one that has waited longest. */
  #next(): Waiting | undefined {
    const { perTenant, perOwner } = this.#bounds;
    let next: Waiting | undefined;
    let fewest = { ofTenant: perTenant, ofOwner: perOwner };
    for (const waiting of this.#waiting) {
      const ofTenant = this.#running.get(waiting.tenant) ?? 0;
      const ofOwner = this.#running.get(waiting.owner) ?? 0;
      if (ofTenant >= perTenant || ofOwner >= perOwner) continue;
      if (ofTenant > fewest.ofTenant || ofTenant === fewest.ofTenant && ofOwner >= fewest.ofOwner) continue;
      next = waiting;
      fewest = { ofTenant, ofOwner };
    }
    return next;
  }

  #add({ tenant, owner }: Waiting, change: 1 | -1): void {
    this.#count += change;
    for (const key of [tenant, owner]) {
      const count = (this.#running.get(key) ?? 0) + change;
      if (count === 0) this.#running.delete(key);
      else this.#running.set(key, count);
    }
  }
}
