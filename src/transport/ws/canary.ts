// A probe that goes out on the bus and must come back: whether this node hears what it is told.
import type { Bus, BusSubscription } from "@/ports/bus.ts";

export class Canary {
  readonly #bus: Bus;
  readonly #timeoutMs: number;
  readonly #channel = `canary:${crypto.randomUUID()}`;
  readonly #waiting = new Map<string, () => void>();
  #subscription: Promise<BusSubscription> | undefined;
  #sent = 0;

  constructor(bus: Bus, timeoutMs = 2000) {
    this.#bus = bus;
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves when the probe came back; rejects when it did not in time. */
  async probe(): Promise<void> {
    const json = String(++this.#sent);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => reject(new Error(`The bus did not answer within ${this.#timeoutMs} ms`)),
      this.#timeoutMs,
    );
    this.#waiting.set(json, resolve);
    this.#listen().then(() =>
      this.#bus.publish(this.#channel, {
        kind: "ephemeral",
        event: { tenantId: "", channel: this.#channel, json },
      }), reject);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(json);
    }
  }

  close(): void {
    this.#subscription?.then((subscription) => subscription.close(), () => {});
    this.#subscription = undefined;
  }

  /** Listens from the first probe on; a failure to is tried again with the next. */
  #listen(): Promise<BusSubscription> {
    return this.#subscription ??= this.#bus.subscribe(this.#channel, (message) => {
      if (message.kind === "ephemeral") this.#waiting.get(message.event.json)?.();
    }).catch((thrown) => {
      this.#subscription = undefined;
      throw thrown;
    });
  }
}
