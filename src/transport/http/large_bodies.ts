// Bounds how many large request bodies are handled at the same time. Each takes several times its size until it is collected, so a
// few callers with many requests at once would fill the memory. A principal and its agents have one at a time, and so cannot keep
// others from reading theirs by sending slowly; of those that are read, a few are parsed and handled at once.
import { type Actor, chargedTo, tenantOfCharged } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { type Slot, Slots } from "@/core/limit/slots.ts";

const HANDLED_MAX = 4;
const WAITING_PER_OWNER = 8;

type Owner = Pick<Actor, "tenantId" | "principalId" | "ownerId">;

export class LargeBodies {
  readonly #read = new Slots({ perKey: [1] });
  readonly #handled = new Slots({ total: HANDLED_MAX });

  /** A body that may turn out to be large. */
  bodyOf(owner: Owner): LargeBody {
    return new LargeBody(this, chargedTo(owner));
  }

  /** Resolves when the owner may send one. */
  async beginReading(owner: string): Promise<Slot> {
    if (this.#read.load(owner) > WAITING_PER_OWNER) {
      throw new Fault("rate_limited", "Too many large requests at the same time", { retryAfterMs: 1000 });
    }
    return await this.#read.acquire([owner]);
  }

  /** Resolves when one may be parsed. Those of a tenant that has fewer are first. */
  beginHandling(owner: string): Promise<Slot> {
    return this.#handled.acquire([tenantOfCharged(owner), owner]);
  }
}

/** A body, from its first byte until nothing needs it; without effect unless it is large. */
export class LargeBody implements Disposable {
  readonly #bodies: LargeBodies;
  readonly #owner: string;
  readonly #slots = new DisposableStack();
  #isLarge = false;

  constructor(bodies: LargeBodies, owner: string) {
    this.#bodies = bodies;
    this.#owner = owner;
  }

  /** It is large: resolves when it may be read. Throws `rate_limited` if its owner has too many that wait. */
  async enter(): Promise<void> {
    this.#isLarge = true;
    this.#add(await this.#bodies.beginReading(this.#owner));
  }

  /** Resolves when the body, which has been read, may be parsed. */
  async beginHandling(): Promise<void> {
    if (this.#isLarge) this.#add(await this.#bodies.beginHandling(this.#owner));
  }

  [Symbol.dispose](): void {
    this.#slots.dispose();
  }

  /** Its request may have ended while it waited. */
  #add(slot: Slot): void {
    if (!this.#slots.disposed) return void this.#slots.use(slot);
    slot[Symbol.dispose]();
    throw new Fault("unavailable", "The request has ended");
  }
}
