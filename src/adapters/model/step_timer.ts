// The time that one step of a model may take.
import { clearTimeout, setTimeout } from "node:timers";
import { ModelError, type ModelTimeLimits } from "@/ports/model.ts";
import { OutboundError } from "@/ports/outbound.ts";

/** Ends a step that takes too long, and says why it ended. */
export class StepTimer {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal;
  readonly #limits: ModelTimeLimits;
  readonly #total: ReturnType<typeof setTimeout>;
  readonly #cancel = (): void => this.#controller.abort(this.#caller.reason);
  /** Until something arrives. Refreshed, since a timer for each part of a response costs more than the rest of what is done here. */
  #idle: ReturnType<typeof setTimeout>;
  #hasBegun = false;
  /** While the consumer works, the provider is not late. */
  #isConsuming = false;
  #isLate = false;

  constructor(caller: AbortSignal, limits: ModelTimeLimits) {
    this.#caller = caller;
    this.#limits = limits;
    this.#total = setTimeout(() => this.#end(), limits.totalMs);
    this.#idle = this.#startIdle(limits.firstPartMs);
    caller.addEventListener("abort", this.#cancel, { once: true });
    if (caller.aborted) this.#cancel();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** A part of the response was received: headers and pings may be there long before. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    clearTimeout(this.#idle);
    this.#idle = this.#startIdle(this.#limits.idleMs);
  }

  /** Something arrived. */
  restart(): void {
    if (!this.signal.aborted) this.#idle.refresh();
  }

  /** The parts of a stream; ends at once when the step ends, whatever the stream does. */
  async *watch<Part>(stream: ReadableStream<Part>): AsyncGenerator<Part> {
    const reader = stream.getReader();
    // A promise of its own for each read: one for all of them would keep every part until the step ends.
    let endRead = (_reason: unknown): void => {};
    const abort = (): void => endRead(this.signal.reason);
    const read = (): Promise<ReadableStreamReadResult<Part>> =>
      new Promise((resolve, reject) => {
        endRead = reject;
        if (this.signal.aborted) abort();
        else reader.read().then(resolve, reject);
      });
    this.signal.addEventListener("abort", abort, { once: true });
    try {
      for (let result = await read(); !result.done; result = await read()) {
        this.#isConsuming = true;
        yield result.value;
        this.#isConsuming = false;
        this.restart();
      }
    } finally {
      this.signal.removeEventListener("abort", abort);
      // The connection ends by the signal; a stream that fails meanwhile has nothing to add.
      void reader.cancel().catch(() => {});
    }
  }

  /** What a failure was really: packages report an abort in the middle of a stream as one of the provider. */
  failure(thrown: unknown): unknown {
    if (this.#caller.aborted) return new ModelError("cancelled", { isRetryable: false });
    return this.#isLate ? new ModelError("timed_out", { isRetryable: true }) : thrown;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    clearTimeout(this.#total);
    this.#caller.removeEventListener("abort", this.#cancel);
    this.#controller.abort();
  }

  #startIdle(ms: number): ReturnType<typeof setTimeout> {
    return setTimeout(() => {
      if (!this.#isConsuming) this.#end();
    }, ms);
  }

  #end(): void {
    this.#isLate = true;
    this.#controller.abort(new OutboundError("timed_out", "The model took too long"));
  }
}
