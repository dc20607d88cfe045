// The time that one step of a model may take.
import { ModelError, type ModelTimeLimits } from "@/ports/model.ts";
import { OutboundError } from "@/ports/outbound.ts";

/** Ends a step that takes too long, and says why it ended. */
export class StepTimer {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal;
  readonly #limits: ModelTimeLimits;
  readonly #total: ReturnType<typeof setTimeout>;
  readonly #cancel = (): void => this.#controller.abort(this.#caller.reason);
  /** Whether a part of the response was received: headers and pings may be there long before. */
  hasBegun = false;
  #idle: ReturnType<typeof setTimeout>;
  #isLate = false;

  constructor(caller: AbortSignal, limits: ModelTimeLimits) {
    this.#caller = caller;
    this.#limits = limits;
    this.#total = setTimeout(() => this.#end(), limits.totalMs);
    this.#idle = setTimeout(() => this.#end(), limits.firstPartMs);
    caller.addEventListener("abort", this.#cancel, { once: true });
    if (caller.aborted) this.#cancel();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Something arrived. */
  restart(): void {
    clearTimeout(this.#idle);
    const { firstPartMs, idleMs } = this.#limits;
    if (!this.signal.aborted) this.#idle = setTimeout(() => this.#end(), this.hasBegun ? idleMs : firstPartMs);
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
        // While the consumer works, the provider is not late.
        clearTimeout(this.#idle);
        yield result.value;
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

  #end(): void {
    this.#isLate = true;
    this.#controller.abort(new OutboundError("timed_out", "The model took too long"));
  }
}
