// Writers that wait for a batch. Owners take turns, each with its writers in the order in which they came.
import type { CpuAccount } from "@/core/cpu_budget.ts";

/** Without an owner: what it writes is for several callers. */
type Writer = { readonly owner: CpuAccount | undefined };

export class WaitingWriters<W extends Writer> {
  /** Those of each owner, the owner whose turn is next first. A writer without one has a turn of its own. */
  readonly #turns = new Map<CpuAccount | W, W[]>();
  /** Those that are tried again: they go first. */
  #retried: W[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(writer: W): void {
    this.#size++;
    const turn = writer.owner ?? writer;
    const writers = this.#turns.get(turn);
    if (writers === undefined) this.#turns.set(turn, [writer]);
    else writers.push(writer);
  }

  addFirst(writer: W): void {
    this.#size++;
    this.#retried = [writer, ...this.#retried];
  }

  has(isAllowed: (writer: Writer) => boolean): boolean {
    return this.#retried.some(isAllowed) ||
      this.#turns.values().some(([first]) => first !== undefined && isAllowed(first));
  }

  /** Removes the next writer of those whose owners are allowed, if there is one. */
  take(isAllowed: (writer: Writer) => boolean): W | undefined {
    const retried = this.#retried.find(isAllowed);
    if (retried !== undefined) {
      this.#size--;
      this.#retried = this.#retried.filter((other) => other !== retried);
      return retried;
    }
    for (const [turn, writers] of this.#turns) {
      const [first] = writers;
      if (first === undefined || !isAllowed(first)) continue;
      this.#size--;
      this.#turns.delete(turn);
      writers.shift();
      if (writers.length > 0) this.#turns.set(turn, writers);
      return first;
    }
    return undefined;
  }

  takeAll(): W[] {
    const all = [...this.#retried, ...this.#turns.values().flatMap((writers) => writers)];
    this.#turns.clear();
    this.#retried = [];
    this.#size = 0;
    return all;
  }
}
