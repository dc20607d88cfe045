// Which jobs are next: round robin over principals, and never all slots of a runner for one of them.
import type { DueJob } from "./job_queries.ts";

/** Due jobs considered for one choice. */
const CANDIDATES_MAX = 64;
/** Principals in one round; beyond that a new one begins. */
const ROUND_MAX = 100;

/** Finds due jobs, but none that is charged to one of `except`. */
export type FindDueJobs = (except: readonly string[], limit: number) => Promise<readonly DueJob[]>;

/** Remembers whose jobs were started in this round. */
export class FairScheduler {
  readonly #served = new Set<string>();

  /**
   * Up to `slots` jobs to start: of principals not served in this round, else of those with nothing running, else of any, but then
   * the last slot stays free for others. The gateway's own jobs do not wait.
   */
  async choose(find: FindDueJobs, slots: number, running: ReadonlySet<string>): Promise<string[]> {
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

  async #firstOfEach(find: FindDueJobs, except: ReadonlySet<string>, slots: number): Promise<string[]> {
    const chosen: string[] = [];
    const owners = new Set<string>();
    for (const { id, charged_to: owner } of await find([...except], CANDIDATES_MAX)) {
      if (owner !== null && owners.has(owner)) continue;
      if (chosen.length === slots) break;
      if (owner !== null) owners.add(owner);
      chosen.push(id);
    }
    for (const owner of owners) this.#served.add(owner);
    if (this.#served.size > ROUND_MAX) this.#served.clear();
    return chosen;
  }
}
