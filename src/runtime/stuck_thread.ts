// For Deno 2.9.6. Bounds work whose thread cannot be terminated.
//
// Fault: `terminate()` of a worker that computes returns at once, but its thread continues to compute forever:
//
//   const worker = new Worker("data:text/javascript,for(;;);", { type: "module" });
//   setTimeout(() => worker.terminate(), 100); // One core stays busy until the process ends.
//
// Delete it when tests/runtime_test.ts says that the thread ends: then a worker can be terminated after a
// timeout any number of times.
import { runInNewContext } from "node:vm";

/** With this many stuck threads no more workers are started until one of them ends. */
const STUCK_MAX = 2;
let stuck = 0;

/** Whether one more worker may be started. */
export function mayStartWorker(): boolean {
  return stuck < STUCK_MAX;
}

/** To be called for a worker that did not respond in time; returns what to call, once, when its work ends after all. */
export function countStuckThread(): () => void {
  stuck++;
  return () => stuck--;
}

/** Runs synchronous work; stops it, with all that it calls, and throws after `timeoutMs`. */
export function runWithTimeout<Result>(work: () => Result, timeoutMs: number): Result {
  return runInNewContext("work()", { work }, { timeout: timeoutMs });
}
