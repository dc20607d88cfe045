// Chores: what a gateway does from time to time by itself, whatever becomes of it.
import { inTime } from "./clock.ts";
import { failureOf, logOf } from "./log.ts";

/** By name, for the log. */
type ChoreList = Readonly<Record<string, () => unknown>>;

/** A stop waits so long for the chore at work; one that takes longer fails when the store closes. */
const PATIENCE_MS = 5000;

const log = logOf("chore");

/** Does all chores one after the other: soon, then each time so long after the last. */
export class Chores {
  readonly #list: ChoreList;
  readonly #everyMs: number;
  #timer: ReturnType<typeof setTimeout>;
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(list: ChoreList, { firstMs, everyMs }: { firstMs: number; everyMs: number }) {
    this.#list = list;
    this.#everyMs = everyMs;
    this.#timer = setTimeout(() => this.#begin(), firstMs);
  }

  /** Does them now. One that fails is due again next time, and is in nobody's way. */
  async run(): Promise<void> {
    for (const [name, chore] of Object.entries(this.#list)) {
      if (this.#isStopped) return;
      try {
        await chore();
      } catch (cause) {
        log.warning("failed; it is tried again next time", { name, ...failureOf(cause) });
      }
    }
  }

  /** Begins none any more, and gives the one at work some time. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    if (this.#running !== undefined) await inTime(this.#running, PATIENCE_MS);
  }

  #begin(): void {
    this.#running = this.run().then(() => {
      if (!this.#isStopped) this.#timer = setTimeout(() => this.#begin(), this.#everyMs);
    });
  }
}
