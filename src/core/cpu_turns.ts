// Which calls have the next tick of the event loop. A message takes several ticks, and a tick ends when all that began in it has
// paused. So once calls have used some time of a tick, others wait for the next ones, in which those go first whose callers have
// used least of their share: however many others call at once, one that uses little waits for one call of theirs in each tick.
import process from "node:process";
import { setImmediate } from "node:timers";

/** Time of a tick after which no further call begins in it. */
const TICK_MS = 4;

/** Those among whom the next one is looked for: who was there first. */
const CONSIDERED_MAX = 500;

/** What a turn counts for besides its time: among equals nobody has two in a row. */
const TURN_MS = 0.01;

/** How far ahead of those that are served one counts that comes: what others then use at most before its turn. */
const AHEAD_MAX_MS = 500;

/**
 * Who takes turns with others: a tenant, or a principal with the others of its tenant. Next is who has used least of its share. Who
 * comes was not away to its advantage, and need not wait long for what it used before.
 */
export class TurnTaker {
  readonly #group: TurnTaker | undefined;
  readonly #share: number;
  /** In ms of its share, as all below. */
  #usedMs = 0;
  /** What the member had used that was served last. */
  #servedMs = 0;
  /** Members that wait; who was served is then the last. */
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

  /** Comes, and is served at once. */
  pass(): void {
    this.#come();
    this.#group?.pass();
    this.#group?.noteServed(this);
  }

  /** Comes, and waits. */
  wait(begin: () => void): void {
    this.#come();
    this.#calls.push(begin);
    this.#group?.addWaiting(this);
  }

  addWaiting(member: TurnTaker): void {
    this.#come();
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

  #come(): void {
    if (this.isWaiting || this.#group === undefined) return;
    const servedMs = this.#group.#servedMs;
    this.#usedMs = Math.min(Math.max(this.#usedMs, servedMs), servedMs + AHEAD_MAX_MS / this.#share);
  }
}

export class CpuTurns {
  /** Of all tenants. */
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
    setImmediate(this.#beginTick);
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
