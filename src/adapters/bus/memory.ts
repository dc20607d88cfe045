// The bus of a single node: synchronous calls, and the reference implementation of the contract.
import { logOf } from "@/core/log.ts";
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";

type Listener = (message: BusMessage) => void;

const log = logOf("bus");

/** Delivers within the process. What a listener publishes during a delivery is queued, so the order is preserved. */
export class MemoryBus implements Bus {
  readonly isHealthy = true;
  readonly isCurrent = true;
  onLost: () => void = () => {};
  onRecovered: () => void = () => {};
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #waiting: { topic: string; message: BusMessage }[] = [];
  #isDelivering = false;

  publish(topic: string, message: BusMessage): void {
    if (!this.#listeners.has(topic)) return;
    this.#waiting.push({ topic, message });
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      for (const listener of this.#listeners.get(next.topic) ?? []) deliver(listener, next.message);
    }
    this.#isDelivering = false;
  }

  flush(): undefined {
    return undefined;
  }

  subscribe(topic: string, listener: Listener): Promise<BusSubscription> {
    // Wrapped, so that one function may subscribe twice and each subscription ends alone.
    const own: Listener = (message) => listener(message);
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(own));
    const close = (): void => {
      listeners.delete(own);
      if (listeners.size === 0 && this.#listeners.get(topic) === listeners) this.#listeners.delete(topic);
    };
    return Promise.resolve({ close });
  }

  close(): Promise<void> {
    this.#listeners.clear();
    return Promise.resolve();
  }
}

/** The failure of one listener does not affect others. */
function deliver(listener: Listener, message: BusMessage): void {
  try {
    listener(message);
  } catch (thrown) {
    log.error("bus listener failed", { cause: thrown instanceof Error ? thrown.stack : String(thrown) });
  }
}
