// What a runner need not look for again: of which groups no job was due, and since when. On PostgreSQL, finished jobs stay in the
// index for as long as any transaction was open before, such as a backup, and each search would read all of them.
import { iso, MINUTE_MS } from "@/core/time/clock.ts";

/** A job is seen no later after it was due: writes may take some seconds, and the clocks of nodes differ. */
const LATE_MS = MINUTE_MS;
/** After this time, all jobs are looked for, whenever they were due. */
const RECHECK_MS = MINUTE_MS;

/** Counts what may have made jobs due. Commits that enqueue some made no suspects: those come with time, or when a job fails. */
export type Wakes = Readonly<{ any: number; suspect: number }>;

type Search = { wake: number; atMs: number; allAtMs: number };

export class Drained {
  #wakes: Wakes = { any: 0, suspect: 0 };
  readonly #searches = new Map<string, Search>();
  /** Searches since a wake that found nothing, by the wake: to look again for jobs of others would read a backlog again. */
  readonly #empty = new Map<string, number>();

  get wakes(): Wakes {
    return this.#wakes;
  }

  wake({ isCommit = false } = {}): void {
    const { any, suspect } = this.#wakes;
    this.#wakes = { any: any + 1, suspect: isCommit ? suspect : suspect + 1 };
    this.#empty.clear();
  }

  /** What `read` finds, unless the same search found nothing at this wake. */
  async find<Job>(search: unknown, wake: number, read: () => Promise<readonly Job[]>): Promise<readonly Job[]> {
    const key = JSON.stringify(search);
    if (this.#empty.get(key) === wake) return [];
    const found = await read();
    if (found.length === 0) this.#empty.set(key, wake);
    return found;
  }

  /** The clock was set back. */
  forget(): void {
    this.#searches.clear();
  }

  /** Whether no job of a group is due, as found at this wake. */
  has(group: string, wake: number): boolean {
    return this.#searches.get(group)?.wake === wake;
  }

  /** When the oldest job of a group was due, at the earliest. */
  earliest(group: string, nowMs: number): string {
    const search = this.#searches.get(group);
    return search === undefined || nowMs >= search.allAtMs + RECHECK_MS ? "" : iso(search.atMs - LATE_MS);
  }

  /** No job of a group is due that was at `earliest` or later. */
  add(group: string, { wake, nowMs, earliest }: { wake: number; nowMs: number; earliest: string }): void {
    const allAtMs = earliest === "" ? nowMs : this.#searches.get(group)?.allAtMs ?? nowMs;
    this.#searches.set(group, { wake, atMs: nowMs, allAtMs });
  }
}
