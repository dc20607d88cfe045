// The time a request may take. Work that runs on past it is told to stop, and nobody waits for it.
import { Fault } from "@/core/fault.ts";
import type { Exchange } from "./exchange.ts";

type Waiting = { endsAt: number; end: () => void };

/**
 * One limit for many requests. All have the same time, so they end in the order in which they came, and one timer does for
 * all of them. It is set at the end of a turn of the event loop: most requests are answered by then and need none.
 */
export class Deadlines {
  readonly #limitMs: number;
  readonly #waiting = new Set<Waiting>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLooking = false;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** The answer of `work`, or `unavailable` after the time. */
  run(exchange: Exchange, work: Promise<Response>): Promise<Response> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        const fault = new Fault("unavailable", `The request took longer than ${Math.round(this.#limitMs / 1000)} s`);
        reject(fault);
        exchange.abort(fault);
      };
      const waiting = { endsAt: performance.now() + this.#limitMs, end };
      this.#waiting.add(waiting);
      this.#look();
      work.then((response) => {
        this.#leave(waiting);
        resolve(response);
      }, (error) => {
        this.#leave(waiting);
        reject(error);
      });
    });
  }

  #leave(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    if (this.#waiting.size > 0 || this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    if (this.#isLooking || this.#timer !== undefined) return;
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
      this.#arm();
    });
  }

  #arm(): void {
    const [first] = this.#waiting;
    if (first === undefined || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const now = performance.now();
      for (const waiting of this.#waiting) {
        if (waiting.endsAt > now) break;
        this.#waiting.delete(waiting);
        waiting.end();
      }
      this.#arm();
    }, first.endsAt - performance.now());
  }
}
