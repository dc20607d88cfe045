// Signals that a run changed, for all nodes: runners look for work, and those that wait for a run read it again.
import { defineSignal } from "@/core/event/event.ts";
import { type Bus, type BusSubscription, CONTROL_TOPIC } from "@/ports/bus.ts";

export const runChanged = defineSignal("run", { isHint: true });

type Listener = (tenantId: string, runId: string) => void;

export class RunSignals {
  readonly #bus: Bus;
  readonly #listeners = new Set<Listener>();
  #subscription: Promise<BusSubscription> | undefined;

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  start(): void {
    this.#subscription ??= this.#bus.subscribe(CONTROL_TOPIC, (message) => {
      if (message.kind !== "signal" || !runChanged.matches(message.signal)) return;
      const { tenantId, id } = message.signal;
      for (const listener of this.#listeners) listener(tenantId, id);
    });
  }

  /** Returns a function that ends the subscription. */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async stop(): Promise<void> {
    (await this.#subscription)?.close();
  }
}
