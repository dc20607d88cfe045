// The best of many scores, found in one pass.

/** A row and its score. */
export type Scored = { n: number; score: number };

/** A heap of at most `max` entries with the worst one first. */
export class BestScores {
  readonly #max: number;
  readonly #heap: Scored[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  /** What a score must exceed. */
  get least(): number {
    return this.#heap.length < this.#max ? -Infinity : this.#heap[0]?.score ?? -Infinity;
  }

  add(n: number, score: number): void {
    if (score <= this.least) return;
    const heap = this.#heap;
    if (heap.length === this.#max) {
      heap[0] = { n, score };
      this.#sink();
      return;
    }
    heap.push({ n, score });
    for (let at = heap.length - 1; at > 0;) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfLess(at, parent)) return;
      at = parent;
    }
  }

  /** Best first. */
  sorted(): Scored[] {
    return this.#heap.toSorted((a, b) => b.score - a.score || a.n - b.n);
  }

  #sink(): void {
    for (let at = 0;;) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      const least = this.#scoreAt(right) < this.#scoreAt(left) ? right : left;
      if (!this.#swapIfLess(least, at)) return;
      at = least;
    }
  }

  #scoreAt(at: number): number {
    return this.#heap[at]?.score ?? Infinity;
  }

  /** Swaps two entries if the score of the first one is lower. */
  #swapIfLess(at: number, other: number): boolean {
    const [one, two] = [this.#heap[at], this.#heap[other]];
    if (one === undefined || two === undefined || one.score >= two.score) return false;
    this.#heap[at] = two;
    this.#heap[other] = one;
    return true;
  }
}
