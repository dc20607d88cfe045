// Which calls have the next tick of the event loop. A message takes several ticks, and a tick ends when all that began in it has
// paused. So once calls have used some time of a tick, others wait for the next ticks, which begin with the calls of those that have
// used least of their share: however many others call at once, a caller that uses little waits for one call of theirs in each tick.
import process from "node:process";
import { setImmediate } from "node:timers";
import { onNextTick } from "@/runtime/input_tick.ts";

/** Time of a tick after which no further call begins in it. */
const TICK_MS = 4;

/** How many members that wait are considered for the next turn, in the order of their arrival. */
const CONSIDERED_MAX = 500;

/** What a turn counts for besides its time, so that of equal members none has two turns in a row. */
const TURN_MS = 0.01;

/** How far a member that arrives may be ahead of those that are served: others use at most this before its turn. */
const AHEAD_MAX_MS = 500;

/**
 * A member that takes turns with others: a tenant, or a principal with the others of its tenant. The next is the one that has used
 * least of its share. One that arrives gains nothing from its absence, and does not wait long for what it used before.
 */
export class TurnTaker {
  readonly #group: TurnTaker | undefined;
  readonly #share: number;
  /** In ms of its share, as all below. */
  #usedMs = 0;
  /** What the member that was served last had used. */
  #servedMs = 0;
  /** Members that wait; one that was served is then the last. */
  readonly #waiting = new Set<TurnTaker>();
  /** What begins its own calls. */
  readonly #calls: (() => void)[] = [];

  constructor(group?: TurnTaker, share = 1) {
    this.#group = group;
    this.#share = share;
  }

  get isWaiting(): boolean {
    return this.#calls.length > 0 || this.#waiting.size > 0;
  }

  /** Counts time that it used. */
  use(ms: number): void {
    this.#usedMs += ms / this.#share;
    this.#group?.use(ms);
  }

  /** Arrives, and is served at once. */
  pass(): void {
    this.#arrive();
    this.#group?.pass();
    this.#group?.noteServed(this);
  }

  /** Arrives, and waits. */
  wait(begin: () => void): void {
    this.#arrive();
    this.#calls.push(begin);
    this.#group?.addWaiting(this);
  }

  addWaiting(member: TurnTaker): void {
    this.#arrive();
    this.#waiting.add(member);
    this.#group?.addWaiting(this);
  }

  noteServed(member: TurnTaker): void {
    this.#servedMs = Math.max(this.#servedMs, member.#usedMs);
  }

  /** Removes the call that is next. */
  takeNext(): (() => void) | undefined {
    let next: TurnTaker | undefined;
    for (const member of this.#waiting.keys().take(CONSIDERED_MAX)) {
      if (next === undefined || member.#usedMs <= next.#usedMs) next = member;
    }
    if (next === undefined) return this.#calls.shift();
    this.noteServed(next);
    next.#usedMs += TURN_MS / next.#share;
    const call = next.takeNext();
    this.#waiting.delete(next);
    if (next.isWaiting) this.#waiting.add(next);
    return call;
  }

  #arrive(): void {
    if (this.isWaiting || this.#group === undefined) return;
    const servedMs = this.#group.#servedMs;
    this.#usedMs = Math.min(Math.max(this.#usedMs, servedMs), servedMs + AHEAD_MAX_MS / this.#share);
  }
}

export class CpuTurns {
  /** Turns of all tenants. */
  readonly all = new TurnTaker();
  /** Used in this tick. */
  #usedMs = 0;
  #isScheduled = false;

  /** Counts time that a call used. */
  add(caller: TurnTaker, ms: number): void {
    caller.use(ms);
    this.#usedMs += ms;
    this.#schedule();
  }

  /** Resolves when a caller may go on; `undefined` if it may at once. */
  take(caller: TurnTaker): Promise<void> | undefined {
    if (!this.all.isWaiting && this.#usedMs < TICK_MS) return void caller.pass();
    return new Promise((begin) => {
      caller.wait(begin);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // While nobody waits, a tick does nothing.
    if (this.all.isWaiting) onNextTick(this.#beginTick);
    else setImmediate(this.#beginTick);
  }

  readonly #beginTick = (): void => {
    this.#isScheduled = false;
    this.#usedMs = 0;
    this.#beginNext();
  };

  readonly #beginNext = (): void => {
    if (!this.all.isWaiting) return;
    if (this.#usedMs >= TICK_MS) return this.#schedule();
    this.all.takeNext()?.();
    // Once no promise has anything left to do, what this call took until it paused is known.
    queueMicrotask(() => process.nextTick(this.#beginNext));
  };
}
