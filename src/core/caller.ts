// The caller of the running code, so that every write can check that the caller is still valid, whichever service writes.
import { AsyncLocalStorage } from "node:async_hooks";
import type { Actor } from "./actor.ts";

/** Timers and promises that a call started inherit its context and may outlive it, so a call that has ended is no caller. */
type Call = { actor: Actor; isRunning: boolean };

const current = new AsyncLocalStorage<Call | undefined>();

/** Runs something as a caller: its writes succeed only while the caller's token and principal are valid. */
export async function runAsCaller<Result>(actor: Actor, run: () => Result | Promise<Result>): Promise<Result> {
  const call: Call = { actor, isRunning: true };
  try {
    return await current.run(call, run);
  } finally {
    call.isRunning = false;
  }
}

/** Runs something without a caller: the gateway's own work, or work that many callers share and that checks each of them itself. */
export function runAsSystem<Result>(run: () => Result): Result {
  return current.run(undefined, run);
}

/** The caller of the running code; `undefined` for the gateway's own work. */
export function currentCaller(): Actor | undefined {
  const call = current.getStore();
  return call?.isRunning === true ? call.actor : undefined;
}
