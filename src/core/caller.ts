// On whose behalf the running code works, known from the async context: whose validity every write checks, whichever service
// writes, and who is charged for CPU time. One context for both, since each costs every call.
import { AsyncLocalStorage } from "node:async_hooks";
import process from "node:process";
import type { Actor } from "./actor.ts";
import { nextTick } from "./time/clock.ts";
import type { CpuAccount } from "./limit/cpu_budget.ts";
import { Fault } from "./fault.ts";

type Scope = {
  readonly call: CallScope | undefined;
  readonly account: CpuAccount | undefined;
  /** Others wait for this work, too. */
  readonly isShared?: true;
};

const current = new AsyncLocalStorage<Scope | undefined>();

/** A call: writes of what it runs succeed only while the caller's token and principal are valid. */
export class CallScope implements Scope {
  readonly account: CpuAccount | undefined;
  /** How many agents led to the call. */
  readonly agentHops: number;
  #actor: Actor | undefined;

  constructor(actor: Actor, account = currentAccount(), agentHops = 0) {
    this.#actor = actor;
    this.account = account;
    this.agentHops = agentHops;
  }

  get call(): CallScope {
    return this;
  }

  /** The caller, until `end`. */
  get actor(): Actor | undefined {
    return this.#actor;
  }

  run<Result>(work: () => Result): Result {
    return current.run(this, work);
  }

  /** Timers and promises that a call started inherit its context and may outlive it, so a call that has ended is no caller. */
  end(): void {
    this.#actor = undefined;
  }
}

/** Runs work that begins here: the async context in which the runtime calls it belongs to other work. */
export function runOutsideCalls<Result>(run: () => Result): Result {
  return current.run(undefined, run);
}

/** Runs something as a caller: its writes succeed only while the caller's token and principal are valid. */
export async function runAsCaller<Result>(actor: Actor, run: () => Result | Promise<Result>): Promise<Result> {
  const scope = new CallScope(actor);
  try {
    return await scope.run(run);
  } finally {
    scope.end();
  }
}

/** Throws after a wait, in which the token may have been revoked, or the caller or its owner disabled. */
export async function assertStillAuthorized(
  actor: Actor,
  revalidate: (actor: Actor) => Promise<Actor | undefined>,
): Promise<void> {
  if (await revalidate(actor) !== undefined) return;
  throw new Fault("token_revoked", "The token was revoked, or the principal or its owner disabled");
}

/** Runs something without a caller: the gateway's own work, or work that many callers share and that checks each of them itself. */
export function runAsSystem<Result>(run: () => Result): Result {
  return current.run({ call: undefined, account: currentAccount(), isShared: true }, run);
}

/** Runs the work, and what it starts, on this account. */
export function chargeTo<Result>(account: CpuAccount | undefined, work: () => Result): Result {
  const scope = current.getStore();
  if (account === undefined || scope?.account === account && scope.isShared !== true) return work();
  return current.run({ call: scope?.call, account }, work);
}

/** Runs a call that has no token, since its address is the credential, on the account of the principal that is responsible for that. */
export async function runOnAccount<Result>(account: CpuAccount, work: () => Promise<Result>): Promise<Result> {
  const wait = account.beginCall();
  if (wait !== undefined) await wait;
  try {
    return await chargeTo(account, work);
  } finally {
    account.endCall();
  }
}

/**
 * Runs a command of a socket on its caller's account, in its turn on the thread, as dispatch does for operations. It does not wait for
 * its share: clients send such commands for all of their channels at once, with a timeout for each. Throws `rate_limited` while the
 * account owes too much.
 */
export async function runInTurn<Result>(account: CpuAccount | undefined, work: () => Promise<Result>): Promise<Result> {
  if (account === undefined) return await work();
  const turn = account.takeTurn();
  if (turn !== undefined) await turn;
  account.assertAvailable();
  return await chargeTo(account, () => account.measure(work));
}

/** The caller of the running code; `undefined` for the gateway's own work. */
export function currentCaller(): Actor | undefined {
  return current.getStore()?.call?.actor;
}

/** How many agents led to the running code, as far as calls know. */
export function currentAgentHops(): number {
  return current.getStore()?.call?.agentHops ?? 0;
}

/** The account that the running code is charged to. */
export function currentAccount(): CpuAccount | undefined {
  return current.getStore()?.account;
}

/** The account whose own work the running code is; `undefined` for work that others wait for, too. */
export function ownAccount(): CpuAccount | undefined {
  const scope = current.getStore();
  return scope?.isShared === true ? undefined : scope?.account;
}

/** Starts charging elapsed time to the account; the returned function stops, and charges what was not charged meanwhile. */
export function beginCharge(account = currentAccount()): () => void {
  if (account === undefined) return () => {};
  const [startedAt, consumedMs] = [performance.now(), account.consumedMs];
  return () => account.consume(Math.max(0, performance.now() - startedAt - (account.consumedMs - consumedMs)));
}

/** Charges the rest of this tick to the account: the running callback, and what follows from promises that it resolves. */
export function chargeTick(account: CpuAccount | undefined): void {
  if (account === undefined) return;
  const end = beginCharge(account);
  // A tick of node's begins when no promise has anything left to do.
  queueMicrotask(() => process.nextTick(end));
}

/** Yields to others: resolves in the next tick that this account may use. */
export function nextSlice(): Promise<void> {
  return currentAccount()?.waitForSlice() ?? nextTick();
}

/** Resolves when the next step of a call may use the thread, which may be at once; unlike a slice, it does not wait for its share. */
export async function nextTurn(): Promise<void> {
  await currentAccount()?.takeTurn();
}

/** Longest time of one slice on the thread. */
const SLICE_MS = 4;

/**
 * Returns a function for loops that keep the thread busy: it yields when the slice is over, and resolves to whether it did. The
 * work's time is charged, less what its statements were; a gap longer than a slice is a wait for something else. `pause` as for
 * `runInSlices`.
 */
export function createYielder(pause = nextSlice): () => Promise<boolean> {
  const account = currentAccount();
  let since = performance.now();
  let [chargedAt, consumedMs] = [since, account?.consumedMs ?? 0];
  return async () => {
    const now = performance.now();
    account?.consume(Math.max(0, Math.min(now - chargedAt, SLICE_MS) - (account.consumedMs - consumedMs)));
    [chargedAt, consumedMs] = [now, account?.consumedMs ?? 0];
    if (now - since < SLICE_MS) return false;
    await pause();
    since = chargedAt = performance.now();
    consumedMs = account?.consumedMs ?? 0;
    return true;
  };
}

/**
 * Up to `limit` rows of a list of which few may fit. `read` reads a slice, and returns at most `left` of its rows and where the next one
 * begins. Others are served in between.
 */
export async function collectInSlices<Row, Position>(
  from: Position | undefined,
  limit: number,
  read: (from: Position | undefined, left: number) => Promise<{ rows: readonly Row[]; next: Position | undefined }>,
): Promise<Row[]> {
  const found: Row[] = [];
  const yieldIfDue = createYielder();
  for (;;) {
    const { rows, next } = await read(from, limit - found.length);
    found.push(...rows);
    if (next === undefined || found.length === limit) return found;
    from = next;
    await yieldIfDue();
  }
}

/** Work in small steps; a number says for how many of them a larger one counts. */
export type Steps<Result = void> = Generator<number | undefined, Result, undefined>;

/**
 * Runs work in slices, each of which is charged; others are served in between. `pause` resolves when the next slice may run: within
 * a transaction `nextTick`, since others wait for its end.
 */
export async function runInSlices<Result>(work: Steps<Result>, pause = nextSlice): Promise<Result> {
  for (;;) {
    const step = measureCpu(() => {
      const startedAt = performance.now();
      let step = work.next();
      while (step.done !== true && performance.now() - startedAt < SLICE_MS) step = work.next();
      return step;
    });
    if (step.done === true) return step.value;
    await pause();
  }
}

/** Runs all of the work in this tick: it is known to be short. */
export function runAtOnce<Result>(work: Steps<Result>): Result {
  let step = work.next();
  while (step.done !== true) step = work.next();
  return step.value;
}

/** Runs synchronous work and charges its time to the current account. */
export function measureCpu<Result>(work: () => Result): Result {
  return measureOn(currentAccount(), work);
}

/** Runs synchronous work and charges its time to the account, if there is one. */
export function measureOn<Result>(account: CpuAccount | undefined, work: () => Result): Result {
  return account === undefined ? work() : account.measure(work);
}
