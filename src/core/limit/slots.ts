// Bounds how much work runs at once, so that what one owner asks for leaves room for others. What waits starts in a fair order.
import { tenantOfCharged } from "../actor.ts";
import { Fault, type FaultCode } from "../fault.ts";
import { OwnerTally } from "./owner_tally.ts";

/**
 * How many slots there are: in all, and for each key of a level. `places`: how much may run or wait, in the same way, and what is
 * thrown beyond that. For those who have nothing there are `firstFactor` times as many, so that a few who fill the places refuse none
 * to them.
 */
type SlotLimits = {
  total?: number;
  perKey?: readonly number[];
  places?: { total: number; perKey: readonly number[]; firstFactor?: number; full: () => Error };
};
/** Disposing it ends the work. `hasWaited`: there was none when it was asked for. */
export type Slot = Disposable & { hasWaited: boolean };
type Waiting = { hasWaited: boolean; start: (slot: Slot) => void };

/** What one key has and waits for, with all below it: a tenant, with each of its owners. */
class Party {
  readonly #key: string;
  readonly #parent: Party | undefined;
  taken = 0;
  waiting = 0;
  /** Parties of the next level, in the order of their turns. */
  readonly members = new Map<string, Party>();
  /** What waits on the last level. */
  readonly queue: Waiting[] = [];

  constructor(key = "", parent?: Party) {
    this.#key = key;
    this.#parent = parent;
  }

  member(key: string): Party {
    const member = this.members.get(key) ?? new Party(key, this);
    this.members.set(key, member);
    return member;
  }

  /** Counts here and above; a party with nothing left is forgotten. */
  add({ taken = 0, waiting = 0 }: { taken?: number; waiting?: number }): void {
    this.taken += taken;
    this.waiting += waiting;
    if (this.taken + this.waiting === 0) this.#parent?.members.delete(this.#key);
    this.#parent?.add({ taken, waiting });
  }

  /** Has its next turn after the others. */
  endTurn(): void {
    const members = this.#parent?.members;
    if (members?.delete(this.#key)) members.set(this.#key, this);
    this.#parent?.endTurn();
  }
}

/** A slot is requested with a key for each level, the widest first, such as the tenant and the owner. */
export class Slots {
  readonly #total: number;
  readonly #perKey: readonly number[];
  readonly #places: SlotLimits["places"];
  readonly #all = new Party();

  constructor({ total = Infinity, perKey = [], places }: SlotLimits) {
    this.#total = total;
    this.#perKey = perKey;
    this.#places = places;
  }

  /** Throws if there is no place left, not even one to wait. */
  assertPlace(keys: readonly string[]): void {
    if (this.#places === undefined) return;
    const { total, perKey, firstFactor = 1, full } = this.#places;
    const factor = this.load(...keys) === 0 ? firstFactor : 1;
    const isFull = perKey.some((most, level) => this.load(...keys.slice(0, level + 1)) >= factor * most);
    if (isFull || this.load() >= factor * total) throw full();
  }

  /** Resolves to a slot; rejects as `assertPlace` throws, and with the signal's reason when that aborts first. */
  async acquire(keys: readonly string[], signal?: AbortSignal): Promise<Slot> {
    signal?.throwIfAborted();
    this.assertPlace(keys);
    const { promise, resolve, reject } = Promise.withResolvers<Slot>();
    const waiting: Waiting = { hasWaited: false, start: resolve };
    const owner = keys.reduce((party, key) => party.member(key), this.#all);
    owner.queue.push(waiting);
    owner.add({ waiting: 1 });
    this.#startNext();
    waiting.hasWaited = true;
    const onAbort = (): void => {
      const at = owner.queue.indexOf(waiting);
      if (at < 0) return;
      owner.queue.splice(at, 1);
      owner.add({ waiting: -1 });
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** How much runs or waits under these keys, by default in all. */
  load(...keys: string[]): number {
    let party: Party | undefined = this.#all;
    for (const key of keys) party = party?.members.get(key);
    return party === undefined ? 0 : party.taken + party.waiting;
  }

  #startNext(): void {
    while (this.#all.waiting > 0 && this.#all.taken < this.#total) {
      const owner = this.#nextOf(this.#all);
      const next = owner?.queue.shift();
      if (owner === undefined || next === undefined) return;
      owner.add({ taken: 1, waiting: -1 });
      let isReleased = false;
      next.start({
        hasWaited: next.hasWaited,
        [Symbol.dispose]: () => {
          if (!isReleased) this.#release(owner);
          isReleased = true;
        },
      });
    }
  }

  /** The party that may start something and has the fewest slots, level by level; among equals, the one whose turn it is. */
  #nextOf(party: Party, level = 0): Party | undefined {
    if (party.queue.length > 0) return party;
    let next: Party | undefined;
    let fewest = this.#perKey[level] ?? Infinity;
    for (const member of party.members.values()) {
      if (member.waiting === 0 || member.taken >= fewest) continue;
      const owner = this.#nextOf(member, level + 1);
      if (owner === undefined) continue;
      next = owner;
      fewest = member.taken;
      if (fewest === 0) break;
    }
    return next;
  }

  #release(owner: Party): void {
    owner.endTurn();
    owner.add({ taken: -1 });
    this.#startNext();
  }
}

/** An owner may have this part of the places, so that none fills the queue alone. */
const OWNER_SHARE = 4;
const RETRY_MS = 2000;

/** Work that runs one piece at a time on a node, such as in a worker that takes a core. Tenants take turns, and owners in them. */
export class FairQueue {
  readonly #name: string;
  readonly #places: number;
  readonly #slots = new Slots({ total: 1 });

  /** `places` are those of a tenant, and count the running work too. */
  constructor(name: string, places: number) {
    this.#name = name;
    this.#places = places;
  }

  /**
   * What `work` resolves to, once it had its turn. `owner` is a key as returned by `chargedTo`. Throws `rate_limited` if the owner
   * has no place left, and `unavailable` if its tenant has none.
   */
  async run<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
    this.assertPlace(owner);
    using _slot = await this.#slots.acquire([tenantOfCharged(owner), owner]);
    return await work();
  }

  /** Throws what `run` would throw instead of waiting. */
  assertPlace(owner: string): void {
    const tenant = tenantOfCharged(owner);
    const own = this.#slots.load(tenant, owner);
    if (own >= this.#places / OWNER_SHARE) {
      const detail = `This principal and its agents have too many requests in the ${this.#name} queue`;
      throw new Fault("rate_limited", detail, { retryAfterMs: RETRY_MS });
    }
    // A few who fill the places refuse none to those who have nothing in the queue, nor do those of one tenant to another.
    const places = own === 0 ? 2 * this.#places : this.#places;
    if (this.#slots.load(tenant) >= places || this.#slots.load() >= 2 * places) {
      throw new Fault("unavailable", `The ${this.#name} queue is full`, { retryAfterMs: RETRY_MS });
    }
  }
}

const PLACE_RETRY_MS = 1000;
/** `perOwner`: of a principal and its agents. */
type PlaceLimits = { perOwner: number; perTenant: number; perNode: number };

/** Places for work that mostly waits, such as streams. A tenant has a part of those of a node, so that none takes all. */
export class Places {
  readonly #what: string;
  readonly #limits: PlaceLimits;
  readonly #code: FaultCode;
  readonly #taken = new OwnerTally();

  /** `what` they are for, in the plural; `code` is that of the fault if there is none left. */
  constructor(what: string, limits: PlaceLimits, code: FaultCode = "rate_limited") {
    this.#what = what;
    this.#limits = limits;
    this.#code = code;
  }

  /** Whose places are all taken, of those that this owner could have; `undefined`: there is one. */
  fullOf(owner: string): "owner" | "tenant" | "node" | undefined {
    const { perOwner, perTenant, perNode } = this.#limits;
    if (this.#taken.ofOwner(owner) >= perOwner) return "owner";
    if (this.#taken.ofTenant(owner) >= perTenant) return "tenant";
    return this.#taken.total >= perNode ? "node" : undefined;
  }

  /** A place until it is disposed. `owner` is a key as returned by `chargedTo`. */
  enter(owner: string): Disposable {
    const full = this.fullOf(owner);
    if (full !== undefined) {
      const who = full === "owner" ? `At most ${this.#limits.perOwner}` : "Too many";
      throw new Fault(this.#code, `${who} ${this.#what} at the same time`, { retryAfterMs: PLACE_RETRY_MS });
    }
    this.#taken.add(owner, 1);
    let isTaken = true;
    return {
      [Symbol.dispose]: () => {
        if (isTaken) this.#taken.add(owner, -1);
        isTaken = false;
      },
    };
  }
}
