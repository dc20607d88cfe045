// Workers may do nothing but compute, take one order after the other, and are terminated after a deadline, until they end.
import assert from "node:assert/strict";
import { chargeTo } from "@/core/caller.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { runInWorker, WorkerThread } from "@/core/worker.ts";
import { eventually, until } from "../wait.ts";

const WORKER = new URL("./test_worker.ts", import.meta.url);

Deno.test("a worker has no permissions unless they are given to it", async () => {
  assert.deepEqual(await runInWorker(WORKER, "test", "permissions"), []);
});

Deno.test("a worker takes one order after the other, and waiting callers fail when it is terminated", async () => {
  const thread = new WorkerThread<string, number>(WORKER, "test");
  assert.deepEqual([await thread.run("count"), await thread.run("count")], [1, 2]);
  const waiting = assert.rejects(thread.run("wait"), { message: "The worker was ended" });
  thread[Symbol.dispose]();
  await waiting;
});

Deno.test("the CPU time of a worker is charged to the caller", async () => {
  const account = new CpuBudget({ percent: 10 }).accountOfKey("principal", false);
  await chargeTo(account, () => runInWorker(WORKER, "test", "work"));
  // The runtime counts the time of a thread in steps of 10 ms.
  assert.ok(account.consumedMs >= 10, `${account.consumedMs} ms`);
});

Deno.test("a worker that misses its deadline is abandoned, and after two of them none starts until one has ended", async () => {
  assert.equal(await runInWorker(WORKER, "test", "answer", { timeoutMs: 60_000 }), "answered");
  const account = new CpuBudget({ percent: 10 }).accountOfKey("principal", false);
  // It blocks its thread as work that computes does, until the first byte is set.
  const locks = [0, 0].map(() => new Int32Array(new SharedArrayBuffer(4)));
  for (const lock of locks) {
    const giveUp = () => runInWorker(WORKER, "test", lock, { timeoutMs: 1 });
    await chargeTo(account, () => assert.rejects(giveUp, { code: "limit_reached" }));
  }
  await assert.rejects(runInWorker(WORKER, "test", "answer"), { code: "unavailable" });
  assert.equal(account.consumedMs, 0);
  for (const lock of locks) {
    Atomics.store(lock, 0, 1);
    Atomics.notify(lock, 0);
  }
  await eventually(async () => assert.equal(await runInWorker(WORKER, "test", "answer"), "answered"));
  // Their work is charged to the caller, although it got no result.
  await until(() => account.consumedMs > 0);
});
