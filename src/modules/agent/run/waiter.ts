// Waiting for runs, until they end or need a decision or a reply. Signals may be lost, so a run is also read again from time to time.
import type { Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { RunSignals } from "./signals.ts";
import { RunStore } from "./store.ts";

const RECHECK_MS = 2000;

export class RunWaiter {
  readonly #deps: { store: Store<AgentTables>; signals: RunSignals };
  readonly #draining = new AbortController();

  constructor(deps: { store: Store<AgentTables>; signals: RunSignals }) {
    this.#deps = deps;
  }

  /** Aborts when the node stops. */
  get draining(): AbortSignal {
    return this.#draining.signal;
  }

  /** The run once it neither waits for a node nor is executed, or after the time. */
  async settled(run: RunRow, seconds: number, signal: AbortSignal | undefined): Promise<RunRow> {
    const { store } = this.#deps;
    // Within a transaction, such as that of a stored response, nothing would change.
    if (seconds === 0 || store.isInTransaction) return run;
    const until = performance.now() + seconds * 1000;
    let current = run;
    while (isActive(current) && performance.now() < until && signal?.aborted !== true && !this.draining.aborted) {
      await this.changed(run, Math.min(RECHECK_MS, until - performance.now()), signal);
      current = await new RunStore(store.db).find(run.tenant_id, run.id) ?? current;
    }
    return current;
  }

  /** Resolves when the run changes, after the time, and when the signal aborts. */
  async changed(run: Pick<RunRow, "tenant_id" | "id">, ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, Math.max(1, ms));
    const unsubscribe = this.onChanged(run, resolve, signal);
    await promise;
    clearTimeout(timer);
    unsubscribe();
  }

  /** Calls `listener` when the run changes, and when the signal aborts or the node stops; the returned function ends that. */
  onChanged(
    { tenant_id, id }: Pick<RunRow, "tenant_id" | "id">,
    listener: () => void,
    signal?: AbortSignal,
  ): () => void {
    const unsubscribe = this.#deps.signals.subscribe((tenantId, runId) => {
      if (tenantId === tenant_id && runId === id) listener();
    });
    signal?.addEventListener("abort", listener);
    this.draining.addEventListener("abort", listener);
    if (signal?.aborted === true || this.draining.aborted) listener();
    return () => {
      unsubscribe();
      signal?.removeEventListener("abort", listener);
      this.draining.removeEventListener("abort", listener);
    };
  }

  /** Ends all waits. */
  drain(): void {
    this.#draining.abort();
  }
}

function isActive({ status }: RunRow): boolean {
  return status === "queued" || status === "running";
}
