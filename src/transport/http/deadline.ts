// The time a request may take. Work that runs on past it is told to stop, and nobody waits for it.
import { Deadlines } from "@/core/deadline.ts";
import { Fault } from "@/core/fault.ts";
import type { Exchange } from "./exchange.ts";

/** One limit for all requests. */
export class RequestDeadlines {
  readonly #limitMs: number;
  readonly #deadlines: Deadlines;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
    this.#deadlines = new Deadlines(limitMs);
  }

  /** The answer of `work`, or `unavailable` after the time. */
  run(exchange: Exchange, work: Promise<Response>): Promise<Response> {
    return this.#deadlines.run(work, () => {
      const fault = new Fault("unavailable", `The request took longer than ${Math.round(this.#limitMs / 1000)} s`);
      exchange.abort(fault);
      return fault;
    });
  }
}
