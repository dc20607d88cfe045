// What the job runner does on every store.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import type { CoreTables } from "@/adapters/core_tables.ts";
import { JobRunner, type JobRunnerOptions } from "@/adapters/job_runner.ts";
import { Fault } from "@/core/fault.ts";
import { defineJob, type JobDraft } from "@/core/job.ts";
import type { Store } from "@/ports/store.ts";
import { pause, until } from "../wait.ts";
import type { Backend, Opened } from "./store_backends.ts";
import { onStore } from "./store_suite.ts";

const HOUR = 3_600_000;

type Run = (job: { tenantId: string; payload: { n: number }; attempt: number }) => Promise<void>;

const draft = (n: number, more: Partial<JobDraft> = {}): JobDraft => ({
  tenantId: "acme",
  kind: "count",
  payload: { n },
  ...more,
});

const coreOf = ({ store }: Opened): Store<CoreTables> => store as unknown as Store<CoreTables>;

function runnerOf(opened: Opened, run: Run, options: JobRunnerOptions = {}): JobRunner {
  const kind = defineJob({ kind: "count", payload: z.strictObject({ n: z.int() }), maxAttempts: 3, run });
  const runner = new JobRunner({ store: coreOf(opened), kinds: [kind], clock: opened.clock }, {
    pollMs: 60_000,
    ...options,
  });
  opened.store.onCommit = ({ jobs }) => {
    if (jobs > 0) runner.wake();
  };
  runner.start();
  return runner;
}

/** A run whose first attempt goes silent until the gate opens. */
function silentAtFirst() {
  const gate = Promise.withResolvers<void>();
  const attempts: number[] = [];
  const run: Run = async ({ attempt }) => {
    attempts.push(attempt);
    if (attempt === 1) await gate.promise;
  };
  return { gate, attempts, run };
}

const jobs = ({ store }: Opened) =>
  coreOf({ store } as Opened).db.selectFrom("job").selectAll().orderBy("id").execute();

const isEmpty = async (opened: Opened): Promise<boolean> => (await jobs(opened)).length === 0;

export function jobSuite(backend: Backend): void {
  const on = (name: string, run: (opened: Opened) => Promise<void>): void => onStore(backend, name, run);

  on("a job runs once, as soon as it is committed, and is gone", async (opened) => {
    const seen: number[] = [];
    const runner = runnerOf(opened, ({ payload, tenantId, attempt }) => {
      assert.deepEqual([tenantId, attempt], ["acme", 1]);
      seen.push(payload.n);
      return Promise.resolve();
    });
    await opened.store.write((tx) => tx.enqueue(...Array.from({ length: 20 }, (_, n) => draft(n))));
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.deepEqual(seen.sort((a, b) => a - b), Array.from({ length: 20 }, (_, n) => n));
  });

  on("no more jobs run at once than allowed", async (opened) => {
    let [running, peak] = [0, 0];
    const runner = runnerOf(opened, async () => {
      peak = Math.max(peak, ++running);
      await pause(2);
      running--;
    }, { concurrency: 3 });
    await opened.store.write((tx) => tx.enqueue(...Array.from({ length: 12 }, (_, n) => draft(n))));
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.equal(peak, 3);
  });

  on("jobs that may take long leave half of the places to others", async (opened) => {
    const done = Promise.withResolvers<void>();
    let [running, peak, others] = [0, 0, 0];
    const payload = z.strictObject({ n: z.int() });
    const long = defineJob({
      kind: "long",
      payload,
      isLong: true,
      async run() {
        peak = Math.max(peak, ++running);
        await done.promise;
        running--;
      },
    });
    const count = defineJob({ kind: "count", payload, run: () => Promise.resolve(void others++) });
    const runner = new JobRunner({ store: coreOf(opened), kinds: [long, count], clock: opened.clock }, {
      concurrency: 4,
      pollMs: 60_000,
    });
    opened.store.onCommit = ({ jobs }) => {
      if (jobs > 0) runner.wake();
    };
    runner.start();
    await opened.store.write((tx) =>
      tx.enqueue(...Array.from({ length: 5 }, (_, n) => draft(n, { kind: "long" })), draft(5), draft(6), draft(7))
    );
    await until(() => others === 3 && running === 2);
    done.resolve();
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.deepEqual([peak, others], [2, 3]);
  });

  on("a job waits for its time", async (opened) => {
    let runs = 0;
    const runner = runnerOf(opened, () => Promise.resolve(void runs++));
    await opened.store.write((tx) => tx.enqueue(draft(1, { runAt: opened.clock.ms + 5000 })));
    assert.deepEqual(await runner.counts(), { waiting: 0, scheduled: 1, running: 0, dead: 0 });
    opened.clock.ms += 5001;
    assert.deepEqual(await runner.counts(), { waiting: 1, scheduled: 0, running: 0, dead: 0 });
    assert.equal(runs, 0);
    runner.wake();
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.equal(runs, 1);
  });

  on("a job that fails is tried again later and dead-lettered in the end, without its payload", async (opened) => {
    const attempts: number[] = [];
    const runner = runnerOf(opened, ({ attempt }) => {
      attempts.push(attempt);
      if (attempt === 1) throw new Fault("unavailable", "secret text");
      throw new TypeError("secret text");
    });
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    for (const attempt of [1, 2]) {
      // In this order: before it is claimed it waits as well, and may run while it is read.
      await until(async () => attempts.length === attempt && (await jobs(opened))[0]?.state === "waiting");
      const [job] = await jobs(opened);
      assert.equal(job?.last_error, attempt === 1 ? "unavailable" : "TypeError");
      const waitMs = Date.parse(job?.run_at ?? "") - opened.clock.ms;
      assert.ok(waitMs >= 500 * 2 ** (attempt - 1) && waitMs <= 1000 * 2 ** (attempt - 1), `waits ${waitMs} ms`);
      opened.clock.ms += waitMs + 1;
      runner.wake();
    }
    await until(async () => (await jobs(opened))[0]?.state === "dead");
    opened.clock.ms += 3_600_000;
    runner.wake();
    await runner.stop();
    assert.deepEqual(attempts, [1, 2, 3]);
    assert.deepEqual(await runner.counts(), { waiting: 0, scheduled: 0, running: 0, dead: 1 });
  });

  on("a payload that does not fit is dead at once", async (opened) => {
    const runner = runnerOf(opened, () => Promise.reject(new Error("Expected not to run")));
    await opened.store.write((tx) => tx.enqueue({ ...draft(1), payload: { n: "secret" } }));
    await until(async () => (await jobs(opened))[0]?.state === "dead");
    await runner.stop();
    const [job] = await jobs(opened);
    assert.equal(job?.attempts, 1);
    assert.doesNotMatch(job?.last_error ?? "", /secret/);
  });

  on("a second draft with a key moves the one that waits", async (opened) => {
    const { store, clock } = opened;
    await store.write((tx) => tx.enqueue(draft(1, { key: "k", runAt: clock.ms + 1000 }), draft(7), draft(8)));
    await store.write((tx) => tx.enqueue(draft(2, { key: "k", runAt: clock.ms + 9000 }), draft(3, { key: "other" })));
    const rows = await jobs(opened);
    assert.equal(rows.length, 4);
    const keyed = rows.find((job) => job.key === "k");
    assert.deepEqual([keyed?.payload, Date.parse(keyed?.run_at ?? "")], [`{"n":2}`, clock.ms + 9000]);
  });

  on("a draft with the key of a running job waits its turn, and stands for it when that fails", async (opened) => {
    const seen: number[] = [];
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const runner = runnerOf(opened, async ({ payload }) => {
      seen.push(payload.n);
      if (payload.n !== 1) return;
      await gate;
      throw new Error("failed");
    });
    await opened.store.write((tx) => tx.enqueue(draft(1, { key: "k" })));
    await until(() => seen.length === 1);
    await opened.store.write((tx) => tx.enqueue(draft(2, { key: "k", runAt: opened.clock.ms + 50 })));
    assert.equal((await jobs(opened)).length, 2);
    open();
    await until(async () => (await jobs(opened)).length === 1);
    opened.clock.ms += 51;
    runner.wake();
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.deepEqual(seen, [1, 2]);
  });

  on("a lease is renewed while its job runs", async (opened) => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const runner = runnerOf(opened, () => gate, { leaseMs: 30 });
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    const leaseOf = async (): Promise<string> => (await jobs(opened))[0]?.lease_until ?? "";
    await until(async () => await leaseOf() !== "");
    const lease = await leaseOf();
    opened.clock.ms += 20;
    await until(async () => await leaseOf() > lease);
    open();
    await runner.stop();
    assert.ok(await isEmpty(opened));
  });

  on("a job whose runner went silent is taken over, and stays with the one that took it", async (opened) => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const attempts: number[] = [];
    const run: Run = ({ attempt }) => {
      attempts.push(attempt);
      return gates[attempt - 1]?.promise ?? Promise.reject(new Error("Expected two attempts"));
    };
    const silent = runnerOf(opened, run);
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => attempts.length === 1);
    opened.clock.ms += 61_000;
    const other = runnerOf(opened, run);
    await until(() => attempts.length === 2);
    gates[0]?.resolve();
    await silent.stop();
    assert.deepEqual((await jobs(opened)).map((job) => job.attempts), [2]);
    gates[1]?.resolve();
    await other.stop();
    assert.ok(await isEmpty(opened));
    assert.deepEqual(attempts, [1, 2]);
  });

  on("a job that runs is not started again by its own runner when the clock is set forward", async (opened) => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const seen: string[] = [];
    const runner = runnerOf(opened, ({ payload, attempt }) => {
      seen.push(`${payload.n}/${attempt}`);
      return payload.n === 1 ? gate : Promise.resolve();
    });
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => seen.length === 1);
    for (const n of [2, 3]) {
      opened.clock.ms += HOUR;
      await opened.store.write((tx) => tx.enqueue(draft(n)));
      await until(async () => seen.length >= n && (await jobs(opened)).length === 1);
    }
    open();
    await runner.stop();
    assert.deepEqual(seen, ["1/1", "2/1", "3/1"]);
    assert.ok(await isEmpty(opened));
  });

  on("a clock set back holds up neither what was due at once nor what is tried again", async (opened) => {
    const { store, clock } = opened;
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const seen: string[] = [];
    const runner = runnerOf(opened, async ({ payload: { n }, attempt }) => {
      seen.push(`${n}/${attempt}`);
      if (n === 1 && attempt === 1) throw new Error("failed");
      if (n === 2) await gate;
    }, { concurrency: 1 });
    await store.write((tx) => tx.enqueue(draft(1)));
    await until(async () => (await jobs(opened))[0]?.last_error === "Error");
    await store.write((tx) => tx.enqueue(draft(2)));
    await until(() => seen.length === 2);
    const runAt = clock.ms + 1000;
    await store.write((tx) => tx.enqueue(draft(3), draft(4, { runAt })));
    clock.ms -= HOUR;
    open();
    await until(async () => (await jobs(opened)).length === 1);
    await runner.stop();
    assert.deepEqual(seen.toSorted(), ["1/1", "1/2", "2/1", "3/1"]);
    const [left] = await jobs(opened);
    assert.deepEqual([left?.payload, Date.parse(left?.run_at ?? "")], [`{"n":4}`, runAt]);
  });

  on("a clock set back does not hold up what a second draft wanted at once", async (opened) => {
    const { store, clock } = opened;
    const seen: number[] = [];
    await store.write((tx) => tx.enqueue(draft(1, { key: "k", runAt: clock.ms + 2 * HOUR })));
    clock.ms += HOUR;
    await store.write((tx) => tx.enqueue(draft(2, { key: "k" })));
    clock.ms -= HOUR;
    const runner = runnerOf(opened, ({ payload }) => Promise.resolve(void seen.push(payload.n)));
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.deepEqual(seen, [2]);
  });

  on("what a clock set back would hold up is brought forward also when that failed at first", async (opened) => {
    const { store, clock } = opened;
    const seen: number[] = [];
    const run: Run = ({ payload }) => Promise.resolve(void seen.push(payload.n));
    await store.write((tx) => tx.enqueue(draft(1)));
    clock.ms -= HOUR;
    const write = store.write.bind(store);
    const failed = Promise.withResolvers<void>();
    store.write = () => {
      failed.resolve();
      return Promise.reject(new Fault("unavailable", "Away"));
    };
    const runner = runnerOf(opened, run);
    await failed.promise;
    store.write = write;
    runner.wake();
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.deepEqual(seen, [1]);
  });

  on("a runner that is alone takes at once what one that is gone had begun", async (opened) => {
    const { gate, attempts, run } = silentAtFirst();
    const gone = runnerOf(opened, run);
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => attempts.length === 1);
    const next = runnerOf(opened, run, { isAlone: true });
    await until(() => isEmpty(opened));
    gate.resolve();
    await Promise.all([gone.stop(), next.stop()]);
    assert.deepEqual(attempts, [1, 2]);
  });

  on("a lease given before the clock was set back ends after its length all the same", async (opened) => {
    const { gate, attempts, run } = silentAtFirst();
    const silent = runnerOf(opened, run);
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => attempts.length === 1);
    opened.clock.ms -= HOUR;
    const other = runnerOf(opened, run);
    const leaseOf = async (): Promise<number> => Date.parse((await jobs(opened))[0]?.lease_until ?? "");
    await until(async () => await leaseOf() === opened.clock.ms + 60_000);
    assert.deepEqual(attempts, [1]);
    opened.clock.ms += 61_000;
    other.wake();
    await until(() => isEmpty(opened));
    gate.resolve();
    await Promise.all([silent.stop(), other.stop()]);
    assert.deepEqual(attempts, [1, 2]);
  });

  on("stop waits for the jobs that run", async (opened) => {
    let isDone = false;
    let runs = 0;
    const runner = runnerOf(opened, async () => {
      runs++;
      await pause(10);
      isDone = true;
    }, { concurrency: 1 });
    await opened.store.write((tx) => tx.enqueue(draft(1), draft(2)));
    await until(() => runs === 1);
    await runner.stop();
    assert.ok(isDone);
    assert.deepEqual([runs, (await jobs(opened)).length], [1, 1]);
  });
}
