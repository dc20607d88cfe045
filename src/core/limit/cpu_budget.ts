// The share of a node's CPU time that one principal with its agents may use while others are served.
//
// One thread serves all callers, so a caller that keeps it busy delays all others. CPU time is measured where it is spent:
// operations up to their first wait, bodies read and written, statements of SQLite, loops that yield. It is charged to the
// principal on whose behalf the code runs (see caller.ts). A principal that has used up its share waits while others
// are served, call by call and slice by slice, however many calls it makes at once; with too many waiting it is rejected. So do all
// principals of a tenant together, while other tenants are served; those who have used little then go first. Within their shares they
// take turns (see cpu_turns.ts).
import { onNextTick } from "@/runtime/input_tick.ts";
import { type Actor, chargedTo, tenantOfCharged } from "../actor.ts";
import { CpuTurns, TurnTaker } from "./cpu_turns.ts";
import { Fault } from "../fault.ts";
import { LruMap } from "../lru_map.ts";
import { Activity, RecentUse, type TenantCpu, TenantCpus } from "./tenant_cpu.ts";

/** Enough to open an application with all that it loads. */
const BURST_MS = 500;
/** Debt at which a socket is closed, since it cannot wait. Enough to catch up after a day offline. */
const SOCKET_DEBT_MAX_MS = 3500;
/**
 * Use at the full share that an account may have in store, and the part of the share that remains after it. One import takes its
 * share; work that lasts minutes takes less, so that its slices delay few calls of others.
 */
const SUSTAINED_MS = 5000;
const SUSTAINED_FACTOR = 0.4;
/** How far the store may be overdrawn: what was used at once counts once, as debt. */
const SUSTAINED_DEBT_MAX_MS = 1000;
/** What a running call counts for until its time is known. */
const CALL_RESERVE_MS = 10;
/** Calls of one principal that may wait, and the longest wait of a call before it is rejected. */
const WAITING_CALLS_MAX = 10;
const CALL_WAIT_MS = 5000;
/** Longest wait of a job for its start: its principal's debt may have another cause. */
const JOB_WAIT_MS = 2000;
/** Largest debt of an account, so that it is paid back within a bounded time. */
const DEBT_MAX_MS = 4000;
/** Longest pause before a waiting slice is checked again. */
const PAUSE_MAX_MS = 250;
/** Slices of one principal that may wait. */
const WAITING_SLICES_MAX = 200;
const ACCOUNTS_MAX = 10_000;

type CpuBudgetOptions = {
  /** Share of the node's time for one principal, in percent; `undefined` when limits are off. */
  percent: number | undefined;
  /** The same for all principals of one tenant. */
  tenantPercent?: number | undefined;
  /** A service may use this many times as much as a person; half of the node's time at most. */
  serviceFactor?: number;
  /** Monotonic clock, ms. */
  now?: () => number;
};

/** The accounts of all principals. */
export class CpuBudget {
  readonly now: () => number;
  readonly turns = new CpuTurns();
  readonly #percent: number | undefined;
  readonly #serviceFactor: number;
  readonly #tenants: TenantCpus | undefined;
  readonly #accounts = new LruMap<string, CpuAccount>(ACCOUNTS_MAX);
  /** All calls with one token share an actor. */
  readonly #byActor = new WeakMap<object, CpuAccount>();
  readonly #activity = new Activity<CpuAccount>();

  constructor({ percent, tenantPercent, serviceFactor = 1, now = () => performance.now() }: CpuBudgetOptions) {
    this.now = now;
    this.#percent = percent;
    this.#serviceFactor = serviceFactor;
    this.#tenants = tenantPercent === undefined ? undefined : new TenantCpus(tenantPercent, this.turns.all);
  }

  /** The account that calls of an actor are charged to. */
  accountOf(actor: Pick<Actor, "tenantId" | "ownerId" | "principalId" | "kind">): CpuAccount {
    let account = this.#byActor.get(actor);
    if (account === undefined) {
      // What acts for somebody, such as an incoming webhook, gives that one no larger share.
      account = this.accountOfKey(chargedTo(actor), actor.kind === "service" && actor.ownerId === null);
      this.#byActor.set(actor, account);
    }
    return account;
  }

  /** The account of a key as returned by `chargedTo`. */
  accountOfKey(key: string, isService = false): CpuAccount {
    const known = this.#accounts.get(key);
    if (known !== undefined) return known;
    const percent = this.#percent ?? Infinity;
    const share = isService ? Math.max(percent, Math.min(50, percent * this.#serviceFactor)) : percent;
    const tenant = this.#tenants?.of(tenantOfCharged(key), this.now());
    const account = new CpuAccount(this, key, share / 100, tenant);
    this.#accounts.set(key, account);
    return account;
  }

  /** Notes that an account is served now. */
  markActive(account: CpuAccount, now: number): void {
    this.#activity.mark(account, now);
    account.tenant?.markActive(now);
  }

  /** Whether another account is served at this time. */
  isContended(account: CpuAccount, now: number): boolean {
    return this.#activity.isContended(account, now);
  }
}

/** A call that has not begun, or the next slice of something under way; `until`: it waits no longer. */
type Waiting = { isNewCall: boolean; until: number; resolve: () => void };

/** The CPU time that one principal and its agents have left on this node. */
export class CpuAccount {
  readonly key: string;
  /** What all principals of its tenant have; absent if that is not limited. */
  readonly tenant: TenantCpu | undefined;
  /** All that was charged, so that a longer measurement can subtract what was charged within it. */
  consumedMs = 0;
  readonly #budget: CpuBudget;
  readonly #turns: TurnTaker;
  readonly #share: number;
  readonly #reducedShare: number;
  #remainingMs = BURST_MS;
  #sustainedMs = SUSTAINED_MS;
  #filledAt: number;
  readonly #recent = new RecentUse();
  readonly #waiting: Waiting[] = [];
  #inFlight = 0;
  #waitingCalls = 0;
  #isScheduled = false;
  #isTiming = false;
  #isCutOff = false;
  #sliceStart = { at: -Infinity, consumedMs: 0 };

  constructor(budget: CpuBudget, key: string, share: number, tenant?: TenantCpu) {
    this.key = key;
    this.tenant = tenant;
    this.#budget = budget;
    this.#turns = new TurnTaker(tenant?.turns ?? budget.turns.all, share);
    this.#share = share;
    this.#reducedShare = share * SUSTAINED_FACTOR;
    this.#filledAt = budget.now();
  }

  /** Resolves when a call or slice may use the thread; `undefined` if it may at once. Not to be awaited in a transaction. */
  takeTurn(): Promise<void> | undefined {
    return this.#share === Infinity ? undefined : this.#budget.turns.take(this.#turns);
  }

  /** Time in ms until the account and its tenant have time again; 0 while they have, and while nobody else needs it. */
  get waitMs(): number {
    const now = this.#budget.now();
    return Math.max(this.#ownWaitMs(now), this.tenant?.waitMs(now, this.#recent) ?? 0);
  }

  #ownWaitMs(now: number): number {
    if (this.#share === Infinity) return 0;
    this.#fill(now);
    if (this.#remainingMs > 0 || !this.#budget.isContended(this, now)) return 0;
    const reducedMs = Math.min(-this.#remainingMs, Math.max(0, -this.#sustainedMs)) / this.#reducedShare;
    return Math.ceil(1 + reducedMs - (this.#remainingMs + reducedMs * this.#reducedShare) / this.#share);
  }

  /**
   * Notes that it is served now. Returns whether its debt exceeded what a socket may owe while others are served, and is not
   * paid back yet.
   */
  isOverdrawn(): boolean {
    const now = this.#budget.now();
    this.#budget.markActive(this, now);
    if (this.#remainingMs > 0 || this.#ownWaitMs(now) === 0) return this.#isCutOff = false;
    return this.#isCutOff ||= this.#remainingMs <= -SOCKET_DEBT_MAX_MS;
  }

  /** Charges so much time; a negative value gives it back. */
  consume(ms: number, now: number = this.#budget.now()): void {
    this.consumedMs += ms;
    if (this.#share === Infinity) return;
    this.#budget.turns.add(this.#turns, ms);
    this.#fill(now);
    // Time that no other account needs is free: it causes no debt.
    const isContended = this.#budget.isContended(this, now);
    const least = isContended ? -DEBT_MAX_MS : Math.min(this.#remainingMs, 0);
    this.#remainingMs = Math.max(least, this.#remainingMs - ms);
    if (isContended) this.#sustainedMs = Math.max(-SUSTAINED_DEBT_MAX_MS, this.#sustainedMs - ms);
    this.#recent.add(ms, now);
    this.tenant?.consume(ms, now);
  }

  /** Runs the work and charges its time. */
  measure<Result>(work: () => Result): Result {
    // Nested work is measured by the outer one.
    if (this.#share === Infinity || this.#isTiming) return work();
    this.#isTiming = true;
    const startedAt = this.#budget.now();
    try {
      return work();
    } finally {
      this.#isTiming = false;
      const now = this.#budget.now();
      this.consume(now - startedAt, now);
    }
  }

  /**
   * Begins a call; `endCall` ends it. Returns `undefined` when the call may run at once, else a promise to wait for. The promise
   * rejects with `rate_limited` when too many calls wait, or would wait too long.
   */
  beginCall(now = this.#budget.now()): Promise<void> | undefined {
    this.#budget.markActive(this, now);
    if (!this.#hasTime(now)) return this.#waitToBegin();
    this.#countCall();
    return undefined;
  }

  /** The call has ended. */
  endCall(): void {
    this.#inFlight--;
    this.tenant?.endCall();
  }

  #countCall(): void {
    this.#inFlight++;
    this.tenant?.beginCall();
  }

  /** Throws `rate_limited` when the debt exceeds what a socket may owe while others are served. */
  assertAvailable(): void {
    if (this.isOverdrawn()) throw this.#rateLimited();
  }

  /** Resolves in a later tick in which no other slice of this account runs, once the account has time. */
  waitForSlice(maxWaitMs: number = Infinity): Promise<void> {
    return this.#wait({ isNewCall: false, until: this.#budget.now() + maxWaitMs });
  }

  #wait(what: Omit<Waiting, "resolve">): Promise<void> {
    if (this.#waiting.length >= WAITING_SLICES_MAX) return Promise.reject(this.#rateLimited());
    return new Promise((resolve) => {
      this.#waiting.push({ ...what, resolve });
      if (this.#isScheduled) return;
      this.#isScheduled = true;
      onNextTick(this.#runNextSlice);
    });
  }

  /** The same for the start of a job, with a bounded wait. */
  waitForJobSlice(): Promise<void> {
    return this.waitForSlice(JOB_WAIT_MS);
  }

  readonly #runNextSlice = (): void => {
    const now = this.#budget.now();
    const ownRestMs = this.#budget.isContended(this, now) ? this.#restsUntil(now) - now : 0;
    const restMs = Math.max(ownRestMs, this.tenant?.restMs(now, this.#recent) ?? 0);
    if (restMs >= 1) return void setTimeout(this.#runNextSlice, restMs);
    const next = this.#takeWaiting(now);
    if (next === undefined) {
      return void setTimeout(this.#runNextSlice, Math.min(Math.max(1, this.waitMs), PAUSE_MAX_MS));
    }
    const turn = this.takeTurn();
    if (turn === undefined) this.#beginSlice(next);
    else void turn.then(() => this.#beginSlice(next));
  };

  /** Removes the first one for which there is time. */
  #takeWaiting(now: number): Waiting | undefined {
    const [mayBegin, mayGoOn] = [this.#hasTime(now), this.#hasTime(now, false)];
    const at = this.#waiting.findIndex(({ isNewCall, until }) => (isNewCall ? mayBegin : mayGoOn) || until <= now);
    return at < 0 ? undefined : this.#waiting.splice(at, 1)[0];
  }

  #beginSlice({ resolve }: Waiting): void {
    this.#sliceStart = { at: this.#budget.now(), consumedMs: this.consumedMs };
    resolve();
    if (this.#waiting.length > 0) onNextTick(this.#runNextSlice);
    else this.#isScheduled = false;
  }

  /**
   * A slice is followed by a pause as long as it took: what others do, such as one message, takes several ticks, and would wait
   * for a slice in each of them.
   */
  #restsUntil(now: number): number {
    const { at, consumedMs } = this.#sliceStart;
    return Math.min(at + 2 * (this.consumedMs - consumedMs), now + PAUSE_MAX_MS);
  }

  async #waitToBegin(): Promise<void> {
    if (this.#waitingCalls >= WAITING_CALLS_MAX || this.waitMs > CALL_WAIT_MS) throw this.#rateLimited();
    this.#waitingCalls++;
    try {
      await this.#wait({ isNewCall: true, until: Infinity });
      this.#countCall();
    } finally {
      this.#waitingCalls--;
    }
  }

  /**
   * Whether there is time for one more call beside the running ones, or for a slice of one of these, which would wait for each
   * other if they counted; or whether nobody else needs it.
   */
  #hasTime(now: number, isNewCall = true): boolean {
    if (this.#share === Infinity) return true;
    if (this.tenant?.hasTime(now, isNewCall, this.#recent) === false) return false;
    const reservedMs = isNewCall ? this.#inFlight * CALL_RESERVE_MS : 0;
    // The common case first: it computes no refill.
    if (this.#remainingMs - reservedMs > 0) return true;
    this.#fill(this.#budget.now());
    return this.#remainingMs - reservedMs > 0 || !this.#budget.isContended(this, now);
  }

  #rateLimited(): Fault {
    const detail = this.#ownWaitMs(this.#budget.now()) > 0
      ? "This principal and its agents have used their share of the server's CPU time"
      : "This tenant has used its share of the server's CPU time";
    return new Fault("rate_limited", detail, { retryAfterMs: Math.max(1000, this.waitMs) });
  }

  #fill(now: number): void {
    const elapsedMs = Math.max(0, now - this.#filledAt);
    const share = this.#sustainedMs > 0 ? this.#share : this.#reducedShare;
    this.#remainingMs = Math.min(BURST_MS, this.#remainingMs + elapsedMs * share);
    this.#sustainedMs = Math.min(SUSTAINED_MS, this.#sustainedMs + elapsedMs * this.#reducedShare);
    this.#filledAt = now;
  }
}
