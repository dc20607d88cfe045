// A worker for tests: it returns its input, how many requests it received, what it may do, or never.
import { serveWorker } from "@/core/worker.ts";

let requestCount = 0;

const handlers = {
  answer: () => "answered",
  count: () => ++requestCount,
  permissions: () =>
    (["read", "write", "net", "env", "run", "sys", "ffi"] as const)
      .filter((name) => Deno.permissions.querySync({ name }).state === "granted"),
  // Steps, not time: where others have the processor, time passes without work.
  work: () => {
    let sum = requestCount;
    for (let step = 0; step < 5e7; step++) sum = (sum * 31 + step) | 0;
    return sum;
  },
  wait: () => new Promise(() => {}),
};

serveWorker((order: keyof typeof handlers | Int32Array) => {
  if (typeof order === "string") return handlers[order]();
  // Works until the flag is set, and then for long enough to be measured.
  Atomics.wait(order, 0, 0);
  return handlers.work();
});
