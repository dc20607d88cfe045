// Waiting for something to happen on any of several streams, for those who poll. Built on the bus, so it may miss: look again.
import type { Bus, BusSubscription } from "@/ports/bus.ts";
import { streamKey } from "@/ports/store.ts";

/** A running watch. Hears from when it was opened. */
export interface Watching {
  /** Resolves to true once something happened since the last call, to false when it is over: time, signal or shutdown. */
  next(timeoutMs: number, signal?: AbortSignal): Promise<boolean>;
  close(): void;
}

/** Opens watches, and ends them all at shutdown. */
export class StreamWatch {
  readonly #bus: Bus;
  readonly #stopping = new AbortController();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Resolves once nothing of these streams can be missed any more, short of what the bus itself loses. */
  async open(tenantId: string, streams: readonly string[]): Promise<Watching> {
    const stopped = this.#stopping.signal;
    let hasHappened = false;
    let wake: (() => void) | undefined;
    const subscriptions: BusSubscription[] = [];
    const close = (): void => {
      for (const subscription of subscriptions.splice(0)) subscription.close();
    };
    try {
      for (const stream of streams) {
        subscriptions.push(
          await this.#bus.subscribe(streamKey(tenantId, stream), ({ kind }) => {
            if (kind !== "events") return;
            hasHappened = true;
            wake?.();
          }),
        );
      }
    } catch (error) {
      close();
      throw error;
    }
    return {
      close,
      async next(timeoutMs, signal) {
        if (!hasHappened && timeoutMs > 0 && signal?.aborted !== true && !stopped.aborted) {
          const { promise, resolve } = Promise.withResolvers<void>();
          wake = resolve;
          const timer = setTimeout(resolve, timeoutMs);
          signal?.addEventListener("abort", wake);
          stopped.addEventListener("abort", wake);
          await promise;
          clearTimeout(timer);
          signal?.removeEventListener("abort", wake);
          stopped.removeEventListener("abort", wake);
        }
        const isAwake = hasHappened;
        hasHappened = false;
        return isAwake;
      },
    };
  }

  /** Ends all waiting, now and from now on. */
  stop(): void {
    this.#stopping.abort();
  }
}
