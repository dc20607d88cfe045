// Over which of its connections a pool reads: none behind a slow statement while there is another, and one is left to other tenants.
import { Activity } from "@/core/limit/tenant_cpu.ts";

/** A statement that runs for longer is slow. */
const SLOW_MS = 5;

/** `tenants`: whose statements are pending, and how many of each. `plansForValues`: how its session plans statements. */
export type Reader = { pending: number; tenants: Map<string, number>; respondedAt: number; plansForValues: boolean };

export class ReaderChoice {
  readonly #activity = new Activity<string>();

  /**
   * The one with least to do, among such one that plans as this statement needs. While other tenants read, too, one has statements
   * on all but one at most.
   */
  pick<One extends Reader>(readers: readonly One[], tenant: string | undefined, plansForValues: boolean): One {
    const allowed = tenant === undefined ? readers : this.#allowed(readers, tenant);
    const slowBefore = performance.now() - SLOW_MS;
    const isSlow = ({ pending, respondedAt }: Reader): boolean =>
      pending > 0 && respondedAt < slowBefore || respondedAt === -Infinity;
    // Among equals one that is known to respond.
    return allowed.reduce((best, one) => {
      const difference = Number(isSlow(one)) - Number(isSlow(best)) || one.pending - best.pending ||
        Number(best.plansForValues === plansForValues) - Number(one.plansForValues === plansForValues) ||
        best.respondedAt - one.respondedAt;
      return difference < 0 ? one : best;
    });
  }

  #allowed<One extends Reader>(readers: readonly One[], tenant: string): readonly One[] {
    const now = performance.now();
    this.#activity.mark(tenant, now);
    const most = readers.length - 1;
    const own = readers.filter(({ tenants }) => tenants.has(tenant));
    return most > 0 && own.length >= most && this.#activity.isContended(tenant, now) ? own.slice(0, most) : readers;
  }
}

/** Counts a statement of a tenant that was sent, or answered. */
export function addPending({ tenants }: Reader, tenant: string | undefined, count: 1 | -1): void {
  if (tenant === undefined) return;
  const pending = (tenants.get(tenant) ?? 0) + count;
  if (pending === 0) tenants.delete(tenant);
  else tenants.set(tenant, pending);
}
