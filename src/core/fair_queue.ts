// Work that runs one piece at a time on a node, such as in a worker that takes a core. Owners take turns, so one that asks for
// much delays the others by one piece each.
import { Fault } from "./fault.ts";

/** One owner may have this part of the places, so that nobody fills the queue alone. */
const OWNER_SHARE = 4;
const RETRY_MS = 2000;

export class FairQueue {
  readonly #name: string;
  readonly #places: number;
  #taken = 0;
  /** Who has work here, in the order of their turns. The first of the first one runs. */
  readonly #owners = new Map<string, (() => void)[]>();

  /** `places` counts the running work too. */
  constructor(name: string, places: number) {
    this.#name = name;
    this.#places = places;
  }

  /**
   * What `work` resolves to, once it had its turn. `owner` is a key as returned by `chargedTo`. Throws `rate_limited` if the owner
   * has no place left, and `unavailable` if nobody has.
   */
  async run<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
    this.assertPlace(owner);
    const own = this.#owners.get(owner) ?? [];
    const turn = Promise.withResolvers<void>();
    own.push(turn.resolve);
    this.#owners.set(owner, own);
    if (this.#taken++ === 0) turn.resolve();
    await turn.promise;
    try {
      return await work();
    } finally {
      this.#taken--;
      own.shift();
      // Behind those who came meanwhile.
      this.#owners.delete(owner);
      if (own.length > 0) this.#owners.set(owner, own);
      const [next] = this.#owners.values();
      next?.[0]?.();
    }
  }

  /** Throws what `run` would throw instead of waiting. */
  assertPlace(owner: string): void {
    if ((this.#owners.get(owner)?.length ?? 0) >= this.#places / OWNER_SHARE) {
      const detail = `This principal and its agents have too many requests in the ${this.#name} queue`;
      throw new Fault("rate_limited", detail, { retryAfterMs: RETRY_MS });
    }
    if (this.#taken >= this.#places) {
      throw new Fault("unavailable", `The ${this.#name} queue is full`, { retryAfterMs: RETRY_MS });
    }
  }
}
