// For Deno 2.9.6. Bounds work whose thread cannot be terminated.
//
// Fault: `terminate()` of a worker that computes returns at once, but its thread continues to compute forever:
//
//   const worker = new Worker("data:text/javascript,for(;;);", { type: "module" });
//   setTimeout(() => worker.terminate(), 100); // One core stays busy until the process ends.
//
// Delete it when tests/runtime_test.ts says that the thread ends: then a worker can be terminated after a
// timeout any number of times.
import process from "node:process";
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

/**
 * Runs synchronous work; stops it, with all that it calls, and throws after `timeoutMs`. Work that had the processor for less than
 * half of that runs again: its process was stopped, or the machine is busy.
 */
export function runWithTimeout<Result>(work: () => Result, timeoutMs: number): Result {
  const before = process.threadCpuUsage();
  while (true) {
    try {
      return runInNewContext("work()", { work }, { timeout: timeoutMs });
    } catch (thrown) {
      const { user, system } = process.threadCpuUsage(before);
      // The error is of the other context's realm, so no instance of this one's Error.
      const code = typeof thrown === "object" && thrown !== null && "code" in thrown ? thrown.code : undefined;
      if (code !== "ERR_SCRIPT_EXECUTION_TIMEOUT" || (user + system) / 1000 >= timeoutMs / 2) throw thrown;
    }
  }
}
