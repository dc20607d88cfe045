// One limit of time for many pieces of work that run side by side, such as requests or statements.

/** One of those who wait, between the one before and the one after it. */
type Waiting = { endsAt: number; end: () => void; before: Waiting | undefined; after: Waiting | undefined };

/**
 * All have the same time, so they end in the order in which they came, and one timer does for all of them. It is set at the
 * end of a turn of the event loop: most requests are answered by then and need none.
 *
 * A chain, not a Set, and no timer for each: the tables of an old Set, as those in which the runtime keeps timers, are made
 * anew in the old space at every so many changes, and what the dead tables point to, each request with its answer, would
 * live until the next full collection.
 */
export class Deadlines {
  readonly #limitMs: number;
  #first: Waiting | undefined;
  #last: Waiting | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLooking = false;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** What `work` resolves to; after the time it rejects with what `late` returns. */
  run<Result>(work: Promise<Result>, late: () => Error): Promise<Result> {
    return new Promise((resolve, reject) => {
      const waiting = this.#enter(() => reject(late()));
      work.then((result) => {
        this.#leave(waiting);
        resolve(result);
      }, (error) => {
        this.#leave(waiting);
        reject(error);
      });
    });
  }

  #enter(end: () => void): Waiting {
    const waiting: Waiting = { endsAt: performance.now() + this.#limitMs, end, before: this.#last, after: undefined };
    if (this.#last === undefined) this.#first = waiting;
    else this.#last.after = waiting;
    this.#last = waiting;
    this.#look();
    return waiting;
  }

  /** For the second time, or after its end, it does nothing. */
  #leave(waiting: Waiting): void {
    const { before, after } = waiting;
    if (before !== undefined) before.after = after;
    else if (this.#first === waiting) this.#first = after;
    if (after !== undefined) after.before = before;
    else if (this.#last === waiting) this.#last = before;
    waiting.before = undefined;
    waiting.after = undefined;
    if (this.#first !== undefined || this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    if (this.#isLooking || this.#timer !== undefined) return;
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
      this.#arm();
    });
  }

  #arm(): void {
    if (this.#first === undefined || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const now = performance.now();
      while (this.#first !== undefined && this.#first.endsAt <= now) {
        const { end } = this.#first;
        this.#leave(this.#first);
        end();
      }
      this.#arm();
    }, this.#first.endsAt - performance.now());
  }
}
