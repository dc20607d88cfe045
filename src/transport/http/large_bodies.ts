// Bounds how many large request bodies are handled at the same time. Each takes several times its size until it is collected, so a
// few callers with many requests at once would fill the memory. A principal and its agents have one at a time, and so cannot keep
// others from reading theirs by sending slowly; of those that are read, a few are parsed and handled at once.
import { type Actor, chargedTo } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";

const HANDLED_MAX = 4;
const WAITING_PER_OWNER = 8;

type Owner = Pick<Actor, "tenantId" | "principalId" | "ownerId">;

export class LargeBodies {
  readonly handled = new Queue(HANDLED_MAX);
  readonly #owners = new Map<string, Queue>();

  /** A body that may turn out to be large. */
  bodyOf(owner: Owner): LargeBody {
    return new LargeBody(this, owner);
  }

  /** Resolves when the owner may send one; call the returned function when nothing needs it any longer. */
  async enter(owner: Owner): Promise<() => void> {
    const key = chargedTo(owner);
    const queue = this.#owners.get(key) ?? new Queue(1);
    this.#owners.set(key, queue);
    if (queue.waiting >= WAITING_PER_OWNER) {
      throw new Fault("rate_limited", "Too many large requests at the same time", { retryAfterMs: 1000 });
    }
    await queue.enter();
    return () => {
      queue.leave();
      if (queue.isIdle) this.#owners.delete(key);
    };
  }
}

/** A body, from its first byte until nothing needs it; without effect unless it is large. */
export class LargeBody implements Disposable {
  readonly #bodies: LargeBodies;
  readonly #owner: Owner;
  #leave: (() => void) | undefined;
  #isHandled = false;
  #isDisposed = false;

  constructor(bodies: LargeBodies, owner: Owner) {
    this.#bodies = bodies;
    this.#owner = owner;
  }

  /** It is large: resolves when it may be read. Throws `rate_limited` if its owner has too many that wait. */
  async enter(): Promise<void> {
    this.#leave = await this.#bodies.enter(this.#owner);
    this.#assertNeeded();
  }

  /** Resolves when the body, which has been read, may be parsed. */
  async beginHandling(): Promise<void> {
    if (this.#leave === undefined) return;
    await this.#bodies.handled.enter();
    this.#isHandled = true;
    this.#assertNeeded();
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    if (this.#isHandled) this.#bodies.handled.leave();
    this.#isHandled = false;
    this.#leave?.();
    this.#leave = undefined;
  }

  /** Its request may have ended while it waited. */
  #assertNeeded(): void {
    if (!this.#isDisposed) return;
    this[Symbol.dispose]();
    throw new Fault("unavailable", "The request has ended");
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
