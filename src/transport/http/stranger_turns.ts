// Responses to requests that ran on no caller's account, such as those of strangers and refusals. The runtime takes longer for a
// request than the gateway for most of these, and reads the next one of a connection as soon as the response leaves. So few leave at
// once, and addresses take turns: calls that take several ticks wait for few of them, however many connections are busy.
import { addressLimitKey } from "../shared/client_address.ts";

/** How many leave at once. A long one counts as another one for each part of this length. */
const AT_ONCE = 24;
const PART_BYTES = 16 * 1024;
/** What a refusal counts as: a client that has none of its requests served can wait, and may have any number of addresses. */
const REFUSAL_WEIGHT = 4;

type WaitingResponse = { weight: number; leave: () => void };

export class StrangerTurns {
  /** By address; one that had its turn is then the last. */
  readonly #waiting = new Map<string, WaitingResponse[]>();

  /** Resolves when a response to this address may leave: in the next tick, unless many wait. */
  take(ip: string, bytes: number, isRefusal = false): Promise<void> {
    return new Promise((leave) => {
      const address = addressLimitKey(ip);
      const response = { weight: (isRefusal ? REFUSAL_WEIGHT : 1) + bytes / PART_BYTES, leave };
      const others = this.#waiting.get(address);
      if (this.#waiting.size === 0) setImmediate(this.#release);
      if (others === undefined) this.#waiting.set(address, [response]);
      else others.push(response);
    });
  }

  readonly #release = (): void => {
    let left = AT_ONCE;
    for (const [address, responses] of this.#waiting) {
      const next = responses.shift();
      this.#waiting.delete(address);
      if (responses.length > 0) this.#waiting.set(address, responses);
      next?.leave();
      left -= next?.weight ?? 0;
      if (left <= 0) break;
    }
    // Many immediates may run before the runtime looks for input again; a timer runs after it has.
    if (this.#waiting.size > 0) setTimeout(() => setImmediate(this.#release), 0);
  };
}
