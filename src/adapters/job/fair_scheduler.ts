// Which jobs are next: tenants with nothing running, then round robin over principals, and never all slots of a runner for one of
// them.
import { tenantOfCharged } from "@/core/actor.ts";
import type { DueJob } from "./queries.ts";

/** Due jobs considered for one choice. */
const CANDIDATES_MAX = 64;
/** Principals in one round; beyond that a new one begins. */
const ROUND_MAX = 100;

/** Finds due jobs, but none that is charged to one of `except`, and, where tenants are named, only of other tenants than those. */
export type FindDueJobs = (
  except: readonly string[],
  limit: number,
  exceptTenants?: readonly string[],
) => Promise<readonly DueJob[]>;

/** Remembers whose jobs were started in this round. */
export class FairScheduler {
  readonly #served = new Set<string>();
  /** The first two tenants that had jobs. */
  readonly #tenants = new Set<string>();

  /**
   * Up to `slotsWithOthers` jobs to start of tenants with nothing running; else up to `slots`: of principals not served in this round,
   * else of those with nothing running, else of any, but then the last slot stays free for others. The gateway's own jobs do not
   * wait.
   */
  async choose(
    find: FindDueJobs,
    { slots, slotsWithOthers }: { slots: number; slotsWithOthers: number },
    running: ReadonlySet<string>,
  ): Promise<string[]> {
    // With a tenant alone there is none to look for; but one that finds no slot was not seen.
    const ofOthers = slots <= 0 || this.#tenants.size > 1
      ? await this.#firstOfOtherTenants(find, running, slotsWithOthers)
      : [];
    if (ofOthers.length > 0 || slots <= 0) return ofOthers;
    const waiting = new Set([...running, ...this.#served]);
    const first = await this.#firstOfEach(find, waiting, slots);
    if (first.length > 0 || waiting.size === 0) return first;
    if (this.#served.size > 0) {
      this.#served.clear();
      const next = await this.#firstOfEach(find, running, slots);
      if (next.length > 0 || running.size === 0) return next;
    }
    return slots > 1 ? (await find([], slots - 1)).map(({ id }) => id) : [];
  }

  /** One job of each tenant with nothing running: a backlog of one delays no other, however many principals it is of. */
  async #firstOfOtherTenants(find: FindDueJobs, running: ReadonlySet<string>, slots: number): Promise<string[]> {
    if (running.size === 0) return [];
    const busy = new Set([...running].map(tenantOfCharged));
    const due = await find([], CANDIDATES_MAX, [...busy]);
    const first = Map.groupBy(due, ({ id, charged_to: owner }) => owner === null ? id : tenantOfCharged(owner));
    return [...first.values()].flatMap(([job]) => job?.id ?? []).slice(0, slots);
  }

  async #firstOfEach(find: FindDueJobs, except: ReadonlySet<string>, slots: number): Promise<string[]> {
    const chosen: string[] = [];
    const owners = new Set<string>();
    for (const { id, charged_to: owner } of await find([...except], CANDIDATES_MAX)) {
      if (owner !== null && owners.has(owner)) continue;
      if (chosen.length === slots) break;
      if (owner !== null) owners.add(owner);
      if (owner !== null && this.#tenants.size < 2) this.#tenants.add(tenantOfCharged(owner));
      chosen.push(id);
    }
    for (const owner of owners) this.#served.add(owner);
    if (this.#served.size > ROUND_MAX) this.#served.clear();
    return chosen;
  }
}
