// Workers may do nothing but compute, take one order after the other, and are given up after a deadline, not without end.
import assert from "node:assert/strict";
import { chargeTo } from "@/core/caller.ts";
import { CpuBudget } from "@/core/cpu_budget.ts";
import { runInWorker, WorkerThread } from "@/core/worker.ts";

const WORKER = new URL("./test_worker.ts", import.meta.url);

Deno.test("a worker has no permissions unless they are given to it", async () => {
  assert.deepEqual(await runInWorker(WORKER, "test", "permissions"), []);
});

Deno.test("a worker takes one order after the other, and whoever waits is told when it is ended", async () => {
  const thread = new WorkerThread<string, number>(WORKER, "test");
  assert.deepEqual([await thread.run("count"), await thread.run("count")], [1, 2]);
  const waiting = assert.rejects(thread.run("wait"), { message: "The worker was ended" });
  thread[Symbol.dispose]();
  await waiting;
});

Deno.test("the CPU time of a worker is charged to whoever asks", async () => {
  const account = new CpuBudget({ percent: 10 }).accountOfKey("principal", false);
  await chargeTo(account, () => runInWorker(WORKER, "test", "work"));
  // The runtime counts the time of a thread in steps of 10 ms.
  assert.ok(account.consumedMs >= 10, `${account.consumedMs} ms`);
});

Deno.test("a worker that does not answer in time is given up, and after two of them no more are started", async () => {
  assert.equal(await runInWorker(WORKER, "test", "answer", { timeoutMs: 60_000 }), "answered");
  for (let stuck = 0; stuck < 2; stuck++) {
    await assert.rejects(runInWorker(WORKER, "test", "wait", { timeoutMs: 1 }), { code: "limit_reached" });
  }
  await assert.rejects(runInWorker(WORKER, "test", "answer"), { code: "unavailable" });
});
