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
  changed({ tenant_id, id }: Pick<RunRow, "tenant_id" | "id">, ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        unsubscribe();
        signal?.removeEventListener("abort", end);
        this.draining.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, Math.max(1, ms));
      const unsubscribe = this.#deps.signals.subscribe((tenantId, runId) => {
        if (tenantId === tenant_id && runId === id) end();
      });
      signal?.addEventListener("abort", end);
      this.draining.addEventListener("abort", end);
      if (signal?.aborted === true || this.draining.aborted) end();
    });
  }

  /** Ends all waits. */
  drain(): void {
    this.#draining.abort();
  }
}

function isActive({ status }: RunRow): boolean {
  return status === "queued" || status === "running";
}
