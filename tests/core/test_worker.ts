// A worker for tests: it returns its input, how many requests it received, what it may do, or never.
import { serveWorker } from "@/core/worker.ts";

let requestCount = 0;

const handlers = {
  answer: () => "answered",
  count: () => ++requestCount,
  permissions: () =>
    (["read", "write", "net", "env", "run", "sys", "ffi"] as const)
      .filter((name) => Deno.permissions.querySync({ name }).state === "granted"),
  work: () => {
    for (const startedAt = performance.now(); performance.now() - startedAt < 100;) Math.sqrt(requestCount);
  },
  wait: () => new Promise(() => {}),
};

serveWorker((order: keyof typeof handlers | Int32Array) => {
  if (typeof order === "string") return handlers[order]();
  // Works until the flag is set, and then for long enough to be measured.
  Atomics.wait(order, 0, 0);
  handlers.work();
});
