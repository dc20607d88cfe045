// How many calls of endpoints run at once: a bound for the node, and one for each tenant, so that slow endpoints of one tenant
// leave room for those of others.

type Waiting = { key: string; start: (release: () => void) => void };

export class CallSlots {
  readonly #total: number;
  readonly #perKey: number;
  readonly #running = new Map<string, number>();
  /** In the order of arrival; the first of a key that is below its bound is next. */
  readonly #waiting: Waiting[] = [];
  #count = 0;

  constructor({ total, perKey }: { total: number; perKey: number }) {
    this.#total = total;
    this.#perKey = perKey;
  }

  /** Resolves to a function that ends the call, once it may begin. */
  acquire(key: string): Promise<() => void> {
    return new Promise((resolve) => {
      this.#waiting.push({ key, start: resolve });
      this.#startNext();
    });
  }

  #startNext(): void {
    while (this.#count < this.#total) {
      const next = this.#waiting.findIndex(({ key }) => (this.#running.get(key) ?? 0) < this.#perKey);
      if (next < 0) return;
      const [waiting] = this.#waiting.splice(next, 1);
      if (waiting === undefined) return;
      this.#add(waiting.key, 1);
      let isReleased = false;
      waiting.start(() => {
        if (isReleased) return;
        isReleased = true;
        this.#add(waiting.key, -1);
        this.#startNext();
      });
    }
  }

  #add(key: string, change: 1 | -1): void {
    this.#count += change;
    const count = (this.#running.get(key) ?? 0) + change;
    if (count === 0) this.#running.delete(key);
    else this.#running.set(key, count);
  }
}
