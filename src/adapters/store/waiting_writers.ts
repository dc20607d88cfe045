// Writers that wait for a batch. Tenants take turns, in them their owners, each with its writers in the order in which they came.
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";

/** Without an owner: what it writes is for several callers. */
type Writer = { readonly owner: CpuAccount | undefined };

/** Those of each owner, the owner whose turn is next first. A writer without one has a turn of its own. */
type Turns<W> = Map<CpuAccount | W, W[]>;

export class WaitingWriters<W extends Writer> {
  /** By tenant, the one whose turn is next first. An owner without one, and a writer without owner, has a turn of its own. */
  readonly #tenants = new Map<unknown, Turns<W>>();
  /** Those that are tried again: they go first. */
  #retried: W[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(writer: W): void {
    this.#size++;
    const turn = writer.owner ?? writer;
    const tenant = writer.owner?.tenant ?? turn;
    const turns = this.#tenants.get(tenant);
    if (turns === undefined) return void this.#tenants.set(tenant, new Map([[turn, [writer]]]));
    const writers = turns.get(turn);
    if (writers === undefined) turns.set(turn, [writer]);
    else writers.push(writer);
  }

  addFirst(writer: W): void {
    this.#size++;
    this.#retried = [writer, ...this.#retried];
  }

  has(isAllowed: (writer: Writer) => boolean): boolean {
    return this.#retried.some(isAllowed) ||
      this.#tenants.values().some((turns) => turns.values().some(([first]) => first !== undefined && isAllowed(first)));
  }

  /** Removes the next writer of those whose owners are allowed, if there is one. */
  take(isAllowed: (writer: Writer) => boolean): W | undefined {
    const retried = this.#retried.find(isAllowed);
    if (retried !== undefined) {
      this.#size--;
      this.#retried = this.#retried.filter((other) => other !== retried);
      return retried;
    }
    for (const [tenant, turns] of this.#tenants) {
      const writer = takeFrom(turns, isAllowed);
      if (writer === undefined) continue;
      this.#size--;
      this.#tenants.delete(tenant);
      if (turns.size > 0) this.#tenants.set(tenant, turns);
      return writer;
    }
    return undefined;
  }

  takeAll(): W[] {
    const waiting = this.#tenants.values().flatMap((turns) => turns.values()).flatMap((writers) => writers);
    const all = [...this.#retried, ...waiting];
    this.#tenants.clear();
    this.#retried = [];
    this.#size = 0;
    return all;
  }
}

/** Removes the next writer of a tenant, if there is one that is allowed. */
function takeFrom<W extends Writer>(turns: Turns<W>, isAllowed: (writer: Writer) => boolean): W | undefined {
  for (const [turn, writers] of turns) {
    const [first] = writers;
    if (first === undefined || !isAllowed(first)) continue;
    turns.delete(turn);
    writers.shift();
    if (writers.length > 0) turns.set(turn, writers);
    return first;
  }
  return undefined;
}
