// How much of the node's time the documents of one member may take: more than anybody needs who types, pastes, or comes back from
// a day offline. Whoever has taken more waits until that is made up for.
import type { Actor } from "@/core/actor.ts";
import { RecentMap } from "@/core/recent_map.ts";

/** Of each second, in the long run. */
const SHARE_MS = 100;
/** At once. */
const BURST_MS = 2000;
/** Members whose shares are remembered. */
const SHARES_MAX = 10_000;

export class Share {
  readonly #burstMs: number;
  #leftMs: number;
  #filledAt = performance.now();

  constructor(burstMs: number) {
    this.#burstMs = burstMs;
    this.#leftMs = burstMs;
  }

  /** How long it takes until there is some of it again; 0 while there is. */
  get waitMs(): number {
    const now = performance.now();
    this.#leftMs = Math.min(this.#burstMs, this.#leftMs + (now - this.#filledAt) * SHARE_MS / 1000);
    this.#filledAt = now;
    return this.#leftMs > 0 ? 0 : 1 - this.#leftMs * 1000 / SHARE_MS;
  }

  /** Takes so much of it, or gives it back. */
  spend(ms: number): void {
    this.#leftMs -= ms;
  }

  /** Takes as much of it as the work takes. */
  time<Result>(work: () => Result): Result {
    const startedAt = performance.now();
    try {
      return work();
    } finally {
      this.spend(performance.now() - startedAt);
    }
  }
}

export class Shares {
  readonly #burstMs: number;
  readonly #byMember = new RecentMap<string, Share>(SHARES_MAX);

  /** `isCapped`: without it there is no end to a share. */
  constructor({ isCapped }: { isCapped: boolean }) {
    this.#burstMs = isCapped ? BURST_MS : Infinity;
  }

  of({ tenantId, principalId }: Pick<Actor, "tenantId" | "principalId">): Share {
    const key = `${tenantId}/${principalId}`;
    const share = this.#byMember.get(key) ?? new Share(this.#burstMs);
    this.#byMember.set(key, share);
    return share;
  }
}
