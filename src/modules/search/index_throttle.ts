// Pauses between steps of background indexing: gives priority to senders, but bounds the backlog under a flood.
import { delay } from "@/core/time/clock.ts";

/** The time source; tests control it. */
export type ThrottleTime = {
  monotonicMs(): number;
  /** Resolves after `ms`, or as soon as the signal aborts. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
};

/** Pauses as multiples of the previous step: without load, under load, and under load with a large backlog. */
const REST_QUIET = 2;
const REST_BUSY = 29;
const REST_BEHIND = 9;
/** A search cannot index more events than this within its time. */
const BACKLOG_LARGE = 5000;
/** Bounds the pause after a step that was slow only because the database stalled. */
const REST_MAX_MS = 2000;

export class IndexThrottle {
  readonly #time: ThrottleTime;
  readonly #batch: number;
  #startedAt = 0;
  #arrived = 0;
  #backlog = 0;

  /** `batch`: events per step; if more than that arrive during a step, there is load. */
  constructor(batch: number, time: ThrottleTime = { monotonicMs: () => performance.now(), pause: delay }) {
    this.#batch = batch;
    this.#time = time;
  }

  /** Counts an event to index. */
  countEvent(): void {
    this.#arrived++;
    this.#backlog++;
  }

  /** Applies a backlog found in the store. */
  raiseBacklog(backlog: number): void {
    this.#backlog = Math.max(this.#backlog, backlog);
  }

  /** Resets the backlog, because events that searches and other nodes indexed were not subtracted. */
  clearBacklog(): void {
    this.#backlog = 0;
  }

  beginStep(): void {
    this.#startedAt = this.#time.monotonicMs();
  }

  /** Pauses after a step that indexed `indexed` events. */
  async restAfterStep(indexed: number, signal: AbortSignal): Promise<void> {
    this.#backlog = Math.max(0, this.#backlog - indexed);
    const isBusy = this.#arrived > this.#batch;
    this.#arrived = 0;
    const factor = !isBusy ? REST_QUIET : this.#backlog > BACKLOG_LARGE ? REST_BEHIND : REST_BUSY;
    await this.wait((this.#time.monotonicMs() - this.#startedAt) * factor, signal);
  }

  /** Pauses for `ms`, at most `REST_MAX_MS`. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    await this.#time.pause(Math.min(ms, REST_MAX_MS), signal);
  }
}
