// For Deno 2.9.6. Lets worker threads give way to the thread that serves.
//
// A worker that computes competes with the serving thread for the cores of a small machine, and `Worker` has no priority.
// On Linux `setpriority` of process 0 is that of the calling thread alone; elsewhere it would be that of the process.
//
// Delete it when `Worker` takes a priority.
import os from "node:os";

/** About a tenth of a core that another thread keeps busy: work still ends well before its deadline. */
const WORKER_PRIORITY = 10;
const PERMISSION = { name: "sys", kind: "setPriority" } as const;

/** What a worker needs to lower its own priority, as far as this process may give it. */
export function priorityPermission(): { sys?: ["setPriority"] } {
  const isGranted = Deno.build.os === "linux" && Deno.permissions.querySync(PERMISSION).state === "granted";
  return isGranted ? { sys: ["setPriority"] } : {};
}

/** Called in a worker. */
export function lowerThreadPriority(): void {
  if (priorityPermission().sys === undefined) return;
  try {
    os.setPriority(0, WORKER_PRIORITY);
  } catch {
    // The process has a lower priority than that, and may not raise it.
  }
}
