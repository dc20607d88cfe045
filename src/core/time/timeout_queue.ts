// One timeout for many concurrent pieces of work, such as requests or statements.

/** An entry of the queue, a linked list. */
type PendingTimeout = {
  expiresAt: number;
  expire: () => void;
  previous: PendingTimeout | undefined;
  next: PendingTimeout | undefined;
};

/**
 * All have the same timeout, so they expire in the order in which they were added, and one timer serves all. It is set at the end
 * of a tick: most requests have their response by then and need none.
 *
 * A linked list, neither a Set nor a timer for each: a long-lived Set, like the runtime's table of timers, is rebuilt in V8's old
 * space after a number of changes. What the old tables refer to, each request with its response, would live until the next full
 * collection.
 */
export class TimeoutQueue {
  readonly #timeoutMs: number;
  #first: PendingTimeout | undefined;
  #last: PendingTimeout | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isArmScheduled = false;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** What `work` resolves to; after the timeout it rejects with what `onTimeout` returns. */
  run<Result>(work: Promise<Result>, onTimeout: () => Error): Promise<Result> {
    return new Promise((resolve, reject) => {
      const waiting = this.#append(() => reject(onTimeout()));
      work.then((result) => {
        this.#remove(waiting);
        resolve(result);
      }, (error) => {
        this.#remove(waiting);
        reject(error);
      });
    });
  }

  /** Calls `onLate` after the timeout, unless the function that it returns was called before. */
  start(onLate: () => void): () => void {
    const waiting = this.#append(onLate);
    return () => this.#remove(waiting);
  }

  #append(expire: () => void): PendingTimeout {
    const waiting: PendingTimeout = {
      expiresAt: performance.now() + this.#timeoutMs,
      expire,
      previous: this.#last,
      next: undefined,
    };
    if (this.#last === undefined) this.#first = waiting;
    else this.#last.next = waiting;
    this.#last = waiting;
    this.#scheduleArm();
    return waiting;
  }

  /** Does nothing when it was removed before. */
  #remove(waiting: PendingTimeout): void {
    const { previous, next } = waiting;
    if (previous !== undefined) previous.next = next;
    else if (this.#first === waiting) this.#first = next;
    if (next !== undefined) next.previous = previous;
    else if (this.#last === waiting) this.#last = previous;
    waiting.previous = undefined;
    waiting.next = undefined;
    if (this.#first !== undefined || this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #scheduleArm(): void {
    if (this.#isArmScheduled || this.#timer !== undefined) return;
    this.#isArmScheduled = true;
    setImmediate(() => {
      this.#isArmScheduled = false;
      this.#arm();
    });
  }

  #arm(): void {
    if (this.#first === undefined || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const now = performance.now();
      while (this.#first !== undefined && this.#first.expiresAt <= now) {
        const { expire } = this.#first;
        this.#remove(this.#first);
        expire();
      }
      this.#arm();
    }, Math.max(1, this.#first.expiresAt - performance.now()));
  }
}
