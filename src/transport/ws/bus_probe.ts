// Checks the bus by a message that this node publishes and must receive.
import type { Bus, BusSubscription } from "@/ports/bus.ts";

/** Readiness waits for it, and a load balancer waits for readiness for no more than a second or a few. */
const TIMEOUT_MS = 500;

export class BusProbe {
  readonly #bus: Bus;
  readonly #timeoutMs: number;
  readonly #channel = `canary:${crypto.randomUUID()}`;
  readonly #waiting = new Map<string, () => void>();
  #subscription: Promise<BusSubscription> | undefined;
  #sent = 0;

  constructor(bus: Bus, timeoutMs = TIMEOUT_MS) {
    this.#bus = bus;
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves when the message is received; rejects after the timeout. */
  async probe(): Promise<void> {
    const json = String(++this.#sent);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => reject(new Error(`No response from the bus within ${this.#timeoutMs} ms`)),
      this.#timeoutMs,
    );
    this.#waiting.set(json, resolve);
    this.#subscribe().then(() =>
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

  /** Subscribes at the first probe; a failed subscription is retried with the next probe. */
  #subscribe(): Promise<BusSubscription> {
    return this.#subscription ??= this.#bus.subscribe(this.#channel, (message) => {
      if (message.kind === "ephemeral") this.#waiting.get(message.event.json)?.();
    }).catch((thrown) => {
      this.#subscription = undefined;
      throw thrown;
    });
  }
}
