// Bounds how many large request bodies are handled at the same time. Each takes several times its size until it is collected, so a
// few callers with many requests at once would fill the memory. A principal and its agents have one at a time, and so cannot keep
// others from reading theirs by sending slowly; of those that are read, a few are parsed and handled at once.
import { type Actor, chargedTo } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";

/** The limit of bodies of most operations. */
export const LARGE_BYTES = 256 * 1024;
const HANDLED_MAX = 4;
const WAITING_PER_OWNER = 8;

export class LargeBodies {
  readonly #owners = new Map<string, Queue>();
  readonly #handled = new Queue(HANDLED_MAX);

  /** Resolves when the caller may send its body. Throws `rate_limited` if it has too many that wait. */
  async enter(actor: Pick<Actor, "tenantId" | "principalId" | "ownerId">): Promise<LargeBody> {
    const owner = chargedTo(actor);
    const queue = this.#owners.get(owner) ?? new Queue(1);
    this.#owners.set(owner, queue);
    if (queue.waiting >= WAITING_PER_OWNER) {
      throw new Fault("rate_limited", "Too many large requests at the same time", { retryAfterMs: 1000 });
    }
    await queue.enter();
    return new LargeBody(this.#handled, () => {
      queue.leave();
      if (queue.isIdle) this.#owners.delete(owner);
    });
  }
}

/** One body, from its first byte until nothing needs it. */
export class LargeBody implements Disposable {
  readonly #handled: Queue;
  #leave: (() => void) | undefined;
  #isHandled = false;

  constructor(handled: Queue, leave: () => void) {
    this.#handled = handled;
    this.#leave = leave;
  }

  /** Resolves when the body, which has been read, may be parsed. */
  async beginHandling(): Promise<void> {
    await this.#handled.enter();
    this.#isHandled = true;
    if (this.#leave !== undefined) return;
    // Its request has ended meanwhile.
    this[Symbol.dispose]();
    throw new Fault("unavailable", "The request has ended");
  }

  [Symbol.dispose](): void {
    if (this.#isHandled) this.#handled.leave();
    this.#isHandled = false;
    this.#leave?.();
    this.#leave = undefined;
  }
}

/** Places, and who waits for one, in order. */
class Queue {
  readonly #waiting: (() => void)[] = [];
  readonly #places: number;
  #taken = 0;

  constructor(places: number) {
    this.#places = places;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get isIdle(): boolean {
    return this.#taken === 0;
  }

  async enter(): Promise<void> {
    if (this.#taken < this.#places) {
      this.#taken++;
      return;
    }
    const turn = Promise.withResolvers<void>();
    this.#waiting.push(turn.resolve);
    await turn.promise;
  }

  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#taken--;
    else next();
  }
}
