// Work that nobody waits for before the node stops, such as reading the rights of an editor again.
export class RunningWork {
  readonly #all = new Set<Promise<void>>();

  add<Result>(work: Promise<Result>): Promise<Result> {
    // Failures are those of `work`, which the caller receives.
    const end = Promise.allSettled([work]).then(() => void this.#all.delete(end));
    this.#all.add(end);
    return work;
  }

  /** Resolves when no work is running; what starts meanwhile is waited for as well. */
  async idle(): Promise<void> {
    while (this.#all.size > 0) await Promise.all(this.#all);
  }
}
