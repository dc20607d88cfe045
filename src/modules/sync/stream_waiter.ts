// Waits for events on any of several streams, for long polls. The bus may lose events, so callers read again after a wait.
import type { Bus, BusSubscription } from "@/ports/bus.ts";
import { streamKey } from "@/ports/store.ts";

/** A watch on streams; receives what happens after it was opened. */
interface StreamWait {
  /** Resolves to true on an event since the last call, to false on timeout, abort or shutdown. */
  next(timeoutMs: number, signal?: AbortSignal): Promise<boolean>;
  /** Whether the node stops, so that nothing more happens here. */
  readonly isStopped: boolean;
  close(): void;
}

/** Opens watches, and ends them all at shutdown. */
export class StreamWaiter {
  readonly #bus: Bus;
  readonly #stopping = new AbortController();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Resolves once all streams are subscribed; from then on only the bus itself may lose events. */
  async open(tenantId: string, streams: readonly string[]): Promise<StreamWait> {
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
    } catch (thrown) {
      close();
      throw thrown;
    }
    return {
      close,
      get isStopped() {
        return stopped.aborted;
      },
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
        const result = hasHappened;
        hasHappened = false;
        return result;
      },
    };
  }

  /** Ends all waits; later ones end at once. */
  stop(): void {
    this.#stopping.abort();
  }
}
