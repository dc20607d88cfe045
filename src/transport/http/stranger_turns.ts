// Responses to requests that ran on no caller's account, such as those of strangers and refusals. The runtime takes longer for a
// request than the gateway for most of these, and reads the next one of a connection as soon as the response leaves. So few leave in
// each tick, and addresses take turns: calls that take several ticks wait for few of them, however many connections are busy.
import { addressLimitKey } from "../shared/client_address.ts";

const PER_TICK = 4;

export class StrangerTurns {
  /** By address; one that had its turn is then the last. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Resolves when a response to this address may leave: in the next tick, unless many wait. */
  take(ip: string): Promise<void> {
    return new Promise((resolve) => {
      const address = addressLimitKey(ip);
      const others = this.#waiting.get(address);
      if (this.#waiting.size === 0) setImmediate(this.#release);
      if (others === undefined) this.#waiting.set(address, [resolve]);
      else others.push(resolve);
    });
  }

  readonly #release = (): void => {
    for (const [address, responses] of this.#waiting.entries().take(PER_TICK)) {
      responses.shift()?.();
      this.#waiting.delete(address);
      if (responses.length > 0) this.#waiting.set(address, responses);
    }
    if (this.#waiting.size > 0) setImmediate(this.#release);
  };
}
