// Periodic maintenance, such as deleting what has expired.
import { withTimeout } from "./time/clock.ts";
import { failureOf, logOf } from "./log.ts";

/** By name, for the log. */
type MaintenanceTasks = Readonly<Record<string, () => unknown>>;

/** A stop waits this long for the running task; one that takes longer fails when the store closes. */
const STOP_TIMEOUT_MS = 5000;

const log = logOf("maintenance");

/** Runs all tasks one after the other: after `firstMs`, then each time `everyMs` after the last run. */
export class MaintenanceScheduler {
  readonly #tasks: MaintenanceTasks;
  readonly #intervalMs: number;
  #timer: ReturnType<typeof setTimeout>;
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(tasks: MaintenanceTasks, { firstMs, everyMs }: { firstMs: number; everyMs: number }) {
    this.#tasks = tasks;
    this.#intervalMs = everyMs;
    this.#timer = setTimeout(() => this.#runScheduled(), firstMs);
  }

  /** Runs all tasks now. One that fails does not stop the others, and runs again next time. */
  async run(): Promise<void> {
    for (const [name, task] of Object.entries(this.#tasks)) {
      if (this.#isStopped) return;
      try {
        await task();
      } catch (cause) {
        log.warn("maintenance task failed; will retry", { name, ...failureOf(cause) });
      }
    }
  }

  /** Starts no more tasks, and waits for the running one for a while. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    if (this.#running !== undefined) await withTimeout(this.#running, STOP_TIMEOUT_MS);
  }

  #runScheduled(): void {
    this.#running = this.run().then(() => {
      if (!this.#isStopped) this.#timer = setTimeout(() => this.#runScheduled(), this.#intervalMs);
    });
  }
}
