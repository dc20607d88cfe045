// What the job runner does on every store.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import type { CoreTables } from "@/adapters/store/core_tables.ts";
import { JobRunner, type JobRunnerOptions } from "@/adapters/job/runner.ts";
import { tenantOfCharged } from "@/core/actor.ts";
import { chargeTo, currentAccount } from "@/core/caller.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { Fault } from "@/core/fault.ts";
import { type DeadLetterReason, defineJob, type JobDraft } from "@/core/job.ts";
import { Metrics } from "@/core/metrics.ts";
import { iso } from "@/core/time/clock.ts";
import type { Store } from "@/ports/store.ts";
import { pause, until } from "../wait.ts";
import type { Backend, OpenedStore } from "./store_backends.ts";
import { recordQueries } from "../modules/query_log.ts";
import { testOnStore } from "./store_suite.ts";

const HOUR = 3_600_000;
/** For polls that are no part of a test, however long it takes: most runners here are those of processes that have ended. */
const NEVER_MS = 24 * HOUR;

type Run = (job: { tenantId: string; payload: { n: number }; attempt: number }) => Promise<void>;

const draft = (n: number, more: Partial<JobDraft> = {}): JobDraft => ({
  tenantId: "acme",
  kind: "count",
  payload: { n },
  ...more,
});

const coreStore = ({ store }: OpenedStore): Store<CoreTables> => store as unknown as Store<CoreTables>;

function startRunner(
  opened: OpenedStore,
  run: Run,
  { abandon, metrics, store = coreStore(opened), ...options }: JobRunnerOptions & {
    abandon?: (n: number, reason: DeadLetterReason) => unknown;
    metrics?: Metrics;
    store?: Pick<Store<CoreTables>, "db" | "write" | "dialect">;
  } = {},
): JobRunner {
  const kind = defineJob({
    kind: "count",
    payload: z.strictObject({ n: z.int() }),
    maxAttempts: 3,
    run,
    onDeadLetter: async ({ payload, reason }) => void await abandon?.(payload.n, reason),
  });
  const deps = { store, kinds: [kind], clock: opened.clock };
  const runner = new JobRunner(metrics === undefined ? deps : { ...deps, metrics }, {
    pollMs: NEVER_MS,
    ...options,
  });
  opened.store.onCommit = ({ jobs }) => {
    if (jobs > 0) runner.wake();
  };
  runner.start();
  return runner;
}

/** A run whose first attempt hangs until the gate opens. */
function hangOnFirstAttempt() {
  const gate = Promise.withResolvers<void>();
  const attempts: number[] = [];
  const run: Run = async ({ attempt }) => {
    attempts.push(attempt);
    if (attempts.length === 1) await gate.promise;
  };
  return { gate, attempts, run };
}

/** A store of one runner, whose connection a test cuts: writes fail before or after their commit. */
class CutStore {
  readonly db: Store<CoreTables>["db"];
  readonly dialect: Store<CoreTables>["dialect"];
  cut: "before commit" | "after commit" | undefined;
  /** Writes that failed. */
  failures = 0;
  readonly #store: Store<CoreTables>;

  constructor(opened: OpenedStore) {
    this.#store = coreStore(opened);
    this.db = this.#store.db;
    this.dialect = this.#store.dialect;
  }

  write: Store<CoreTables>["write"] = async (work) => {
    const { cut } = this;
    const result = cut === "before commit" ? undefined : await this.#store.write(work);
    if (cut !== undefined) {
      this.failures++;
      throw new Fault("unavailable", "Away");
    }
    return result as Awaited<ReturnType<typeof work>>;
  };
}

const jobs = ({ store }: OpenedStore) =>
  coreStore({ store } as OpenedStore).db.selectFrom("job").selectAll().orderBy("id").execute();

const isEmpty = async (opened: OpenedStore): Promise<boolean> => (await jobs(opened)).length === 0;

export function jobSuite(backend: Backend): void {
  const on = (name: string, run: (opened: OpenedStore) => Promise<void>): void => testOnStore(backend, name, run);

  on("a job runs once, as soon as it is committed, and is gone", async (opened) => {
    const seen: number[] = [];
    const runner = startRunner(opened, ({ payload, tenantId, attempt }) => {
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
    const gate = Promise.withResolvers<void>();
    const runner = startRunner(opened, async () => {
      peak = Math.max(peak, ++running);
      await gate.promise;
      await pause(2);
      running--;
    }, { concurrency: 3 });
    await opened.store.write((tx) => tx.enqueue(...Array.from({ length: 12 }, (_, n) => draft(n))));
    await until(() => running === 3);
    gate.resolve();
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.equal(peak, 3);
  });

  on("while jobs of one group are worked off, those of others are not looked for again and again", async (opened) => {
    const payload = z.strictObject({ n: z.int() });
    const kinds = [
      defineJob({ kind: "long", payload, isLongRunning: true, run: () => Promise.resolve() }),
      defineJob({ kind: "count", payload, run: () => Promise.resolve() }),
    ];
    const queries: string[] = [];
    const { db, dialect, write } = coreStore(opened);
    const counted = db.withPlugin({
      transformQuery({ node }) {
        if (node.kind === "SelectQueryNode") queries.push(JSON.stringify(node));
        return node;
      },
      transformResult: ({ result }) => Promise.resolve(result),
    });
    const store = { db: counted, dialect, write: write.bind(opened.store) as Store<CoreTables>["write"] };
    const runner = new JobRunner({ store, kinds, clock: opened.clock }, { pollMs: NEVER_MS });
    opened.store.onCommit = ({ jobs }) => {
      if (jobs > 0) runner.wake();
    };
    await opened.store.write((tx) => tx.enqueue(...Array.from({ length: 30 }, (_, n) => draft(n, { kind: "long" }))));
    runner.start();
    await runner.whenIdle();
    const others = queries.filter((query) => query.includes('"count"'));
    assert.ok(queries.length - others.length >= 15, "two at a time, each claim looks for them");
    assert.ok(others.length <= 8, `${others.length} of ${queries.length}`);
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await runner.whenIdle();
    assert.ok(await isEmpty(opened), "but those that come are found");
    await runner.stop();
  });

  on("jobs that may take long leave half of the places to others", async (opened) => {
    const done = Promise.withResolvers<void>();
    let [running, peak, others] = [0, 0, 0];
    const payload = z.strictObject({ n: z.int() });
    const long = defineJob({
      kind: "long",
      payload,
      isLongRunning: true,
      async run() {
        peak = Math.max(peak, ++running);
        await done.promise;
        running--;
      },
    });
    const count = defineJob({ kind: "count", payload, run: () => Promise.resolve(void others++) });
    const runner = new JobRunner({ store: coreStore(opened), kinds: [long, count], clock: opened.clock }, {
      concurrency: 4,
      pollMs: NEVER_MS,
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

  on("jobs of one principal leave a place to others, who come in turn", async (opened) => {
    const budget = new CpuBudget({ percent: 10 });
    const enqueue = (owner: string, ...numbers: number[]): Promise<void> =>
      chargeTo(
        budget.accountOfKey(owner),
        () => opened.store.write((tx) => tx.enqueue(...numbers.map((n) => draft(n)))),
      );
    const gates = new Map<number, PromiseWithResolvers<void>>();
    const started: number[] = [];
    const owners: (string | undefined)[] = [];
    const payload = z.strictObject({ n: z.int() });
    const kind = defineJob({
      kind: "count",
      payload,
      async run({ payload: { n } }) {
        started.push(n);
        owners.push(currentAccount()?.key);
        const gate = Promise.withResolvers<void>();
        gates.set(n, gate);
        await gate.promise;
      },
    });
    await enqueue("acme/busy", ...Array.from({ length: 100 }, (_, n) => n));
    const runner = new JobRunner({ store: coreStore(opened), kinds: [kind], clock: opened.clock, cpu: budget }, {
      concurrency: 4,
      pollMs: NEVER_MS,
    });
    opened.store.onCommit = ({ jobs }) => {
      if (jobs > 0) runner.wake();
    };
    runner.start();
    await until(() => started.length === 3);
    // The fourth slot is free for any tenant.
    await enqueue("acme/bob", 1000, 1001, 1002);
    await enqueue("acme/carol", 2000, 2001);
    await until(() => started.length === 4);
    assert.equal(started[3], 1000);
    gates.get(1000)?.resolve();
    await until(() => started.length === 5);
    assert.equal(started[4], 2000);
    gates.get(2000)?.resolve();
    await until(() => started.length === 6);
    assert.equal(started[5], 1001);
    assert.deepEqual(owners, [...Array(3).fill("acme/busy"), "acme/bob", "acme/carol", "acme/bob"]);
    assert.equal((await jobs(opened)).filter(({ state }) => state === "running").length, 4);
    const all = setInterval(() => gates.forEach((gate) => gate.resolve()), 1);
    await until(() => isEmpty(opened));
    clearInterval(all);
    await runner.stop();
    assert.equal(started.length, 105);
  });

  // What PGlite is asked is not recorded.
  if (backend.name !== "pglite") {
    on("a backlog is not read for jobs of others at each of its jobs", async (opened) => {
      const budget = new CpuBudget({ percent: 10 });
      const kind = defineJob({ kind: "count", payload: z.strictObject({ n: z.int() }), run: () => Promise.resolve() });
      const drafts = Array.from({ length: 30 }, (_, n) => draft(n));
      await chargeTo(budget.accountOfKey("acme/busy"), () => opened.store.write((tx) => tx.enqueue(...drafts)));
      const runner = new JobRunner({ store: coreStore(opened), kinds: [kind], clock: opened.clock, cpu: budget }, {
        pollMs: NEVER_MS,
      });
      const queries = await recordQueries(async () => {
        runner.start();
        await until(() => isEmpty(opened));
      });
      await runner.stop();
      const searches = queries.filter(({ sql }) => sql.includes('"charged_to" not in'));
      assert.ok(searches.length < 5, `${searches.length} searches`);
    });
  }

  on("a tenant's backlog delays no other tenant, however many principals it is of", async (opened) => {
    const budget = new CpuBudget({ percent: 10 });
    const enqueue = (tenantId: string, owner: string, n: number): Promise<void> =>
      chargeTo(
        budget.accountOfKey(`${tenantId}/${owner}`),
        () => opened.store.write((tx) => tx.enqueue(draft(n, { tenantId }))),
      );
    const gates = new Map<number, PromiseWithResolvers<void>>();
    const started: number[] = [];
    const kind = defineJob({
      kind: "count",
      payload: z.strictObject({ n: z.int() }),
      async run({ payload: { n } }) {
        started.push(n);
        const gate = Promise.withResolvers<void>();
        gates.set(n, gate);
        await gate.promise;
      },
    });
    await enqueue("small", "one", 1000);
    for (let n = 0; n < 100; n++) await enqueue("large", `member${n % 20}`, n);
    const runner = new JobRunner({ store: coreStore(opened), kinds: [kind], clock: opened.clock, cpu: budget }, {
      concurrency: 4,
      pollMs: NEVER_MS,
    });
    runner.start();
    await until(() => started.length === 4);
    for (let n = 1001; n < 1004; n++) {
      await enqueue("small", "one", n);
      gates.get(n - 1)?.resolve();
      await until(() => started.length === n - 996);
      assert.equal(started.at(-1), n);
    }
    const all = setInterval(() => gates.forEach((gate) => gate.resolve()), 1);
    await until(() => isEmpty(opened));
    clearInterval(all);
    await runner.stop();
    assert.equal(started.length, 104);
  });

  on(
    "jobs that may take long are started for a tenant that has none, whoever has all places for them",
    async (opened) => {
      const budget = new CpuBudget({ percent: 10 });
      const done = Promise.withResolvers<void>();
      const started: number[] = [];
      const kind = defineJob({
        kind: "count",
        payload: z.strictObject({ n: z.int() }),
        isLongRunning: true,
        async run({ payload: { n } }) {
          started.push(n);
          await done.promise;
        },
      });
      const enqueue = (owner: string, ...numbers: number[]): Promise<void> =>
        chargeTo(
          budget.accountOfKey(owner),
          () =>
            opened.store.write((tx) =>
              tx.enqueue(...numbers.map((n) => draft(n, { tenantId: tenantOfCharged(owner) })))
            ),
        );
      const runner = new JobRunner({ store: coreStore(opened), kinds: [kind], clock: opened.clock, cpu: budget }, {
        concurrency: 4,
        pollMs: NEVER_MS,
      });
      opened.store.onCommit = ({ jobs }) => {
        if (jobs > 0) runner.wake();
      };
      runner.start();
      await enqueue("large/alice", 1);
      await enqueue("large/bob", 2, 3);
      await until(() => started.length === 2);
      await enqueue("large/carol", 4);
      await enqueue("small/one", 5, 6);
      await until(() => started.length === 3);
      assert.deepEqual(started.toSorted(), [1, 2, 5]);
      assert.equal((await runner.counts()).waiting, 3);
      done.resolve();
      await until(() => isEmpty(opened));
      await runner.stop();
    },
  );

  on("a job waits for its time", async (opened) => {
    let runs = 0;
    const runner = startRunner(opened, () => Promise.resolve(void runs++));
    await opened.store.write((tx) => tx.enqueue(draft(1, { runAt: opened.clock.ms + 5000 })));
    await runner.whenIdle();
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
    const runner = startRunner(opened, ({ attempt }) => {
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
    const runner = startRunner(opened, () => Promise.reject(new Error("Expected not to run")));
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
    const runner = startRunner(opened, async ({ payload }) => {
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

  on("where none was due, those that were due long before are looked for once a minute", async (opened) => {
    const seen: number[] = [];
    const runner = startRunner(opened, ({ payload }) => Promise.resolve(void seen.push(payload.n)));
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await runner.whenIdle();
    const add = (n: number, ageMs: number) => {
      const at = iso(opened.clock.ms - ageMs);
      return coreStore(opened).write(async (tx) => {
        await tx.enqueue(draft(n, { key: `${n}` }));
        await tx.db.updateTable("job").set({ run_at: at }).where("key", "=", `${n}`).execute();
      });
    };
    await add(2, HOUR);
    await add(3, 30_000);
    await runner.whenIdle();
    assert.deepEqual(seen, [1, 3]);
    opened.clock.ms += 60_000;
    await runner.whenIdle();
    assert.deepEqual(seen, [1, 3, 2]);
    await runner.stop();
  });

  on("a lease is renewed while its job runs", async (opened) => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const runner = startRunner(opened, () => gate, { leaseMs: 30 });
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
      return gates[attempts.length - 1]?.promise ?? Promise.reject(new Error("Expected two attempts"));
    };
    const silent = startRunner(opened, run);
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => attempts.length === 1);
    opened.clock.ms += 61_000;
    const other = startRunner(opened, run);
    await until(() => attempts.length === 2);
    gates[0]?.resolve();
    await silent.stop();
    assert.deepEqual((await jobs(opened)).map((job) => job.attempts), [2]);
    gates[1]?.resolve();
    await other.stop();
    assert.ok(await isEmpty(opened));
    assert.deepEqual(attempts, [1, 1]);
  });

  on("a job that runs is not started again by its own runner when the clock is set forward", async (opened) => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const seen: string[] = [];
    const runner = startRunner(opened, ({ payload, attempt }) => {
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
    const runner = startRunner(opened, async ({ payload: { n }, attempt }) => {
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
    const runner = startRunner(opened, ({ payload }) => Promise.resolve(void seen.push(payload.n)));
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
    const runner = startRunner(opened, run);
    await failed.promise;
    store.write = write;
    runner.wake();
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.deepEqual(seen, [1]);
  });

  on("a runner that is alone takes at once what one that is gone had begun", async (opened) => {
    const { gate, attempts, run } = hangOnFirstAttempt();
    const gone = startRunner(opened, run);
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => attempts.length === 1);
    const next = startRunner(opened, run, { isSingleNode: true });
    await until(() => isEmpty(opened));
    gate.resolve();
    await Promise.all([gone.stop(), next.stop()]);
    assert.deepEqual(attempts, [1, 1]);
  });

  on("a lease given before the clock was set back ends after its length all the same", async (opened) => {
    const { gate, attempts, run } = hangOnFirstAttempt();
    const silent = startRunner(opened, run);
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => attempts.length === 1);
    opened.clock.ms -= HOUR;
    const other = startRunner(opened, run);
    const leaseOf = async (): Promise<number> => Date.parse((await jobs(opened))[0]?.lease_until ?? "");
    await until(async () => await leaseOf() === opened.clock.ms + 60_000);
    assert.deepEqual(attempts, [1]);
    opened.clock.ms += 61_000;
    other.wake();
    await until(() => isEmpty(opened));
    gate.resolve();
    await Promise.all([silent.stop(), other.stop()]);
    assert.deepEqual(attempts, [1, 1]);
  });

  on(
    "a job that runs whenever its process ends gets five attempts over more than an hour, and others go on",
    async (opened) => {
      const { promise: never } = Promise.withResolvers<void>();
      const seen: string[] = [];
      const abandoned: unknown[] = [];
      const metrics = new Metrics();
      const run: Run = ({ payload: { n }, attempt }) => {
        seen.push(`${n}/${attempt}`);
        return n === 1 ? never : Promise.resolve();
      };
      // Runners that are stopped only at the end simulate processes that were killed.
      const runners: JobRunner[] = [];
      const restart = (): JobRunner => {
        const abandon = (...args: unknown[]): void => void abandoned.push(args);
        const runner = startRunner(opened, run, { isSingleNode: true, stopTimeoutMs: 0, metrics, abandon });
        runners.push(runner);
        return runner;
      };
      const runOthers = async (): Promise<void> => {
        // When the second has run, the runner has looked for suspects as well.
        for (let count = 0; count < 2; count++) {
          const before = seen.length;
          await opened.store.write((tx) => tx.enqueue(draft(2)));
          runners.at(-1)?.wake();
          await until(() => seen.length > before);
        }
        await until(async () => (await jobs(opened)).length === 1);
      };
      const attempts = (): string[] => seen.filter((each) => each.startsWith("1/"));
      const startedAt = opened.clock.ms;
      restart();
      await opened.store.write((tx) => tx.enqueue(draft(1)));
      await until(() => seen.length === 1);
      restart();
      await until(() => seen.length === 2);
      for (const waitMs of [60_000, 15 * 60_000, HOUR]) {
        const tried = attempts();
        restart();
        await runOthers();
        opened.clock.ms += waitMs - 1;
        // However often others end meanwhile.
        restart();
        await runOthers();
        assert.deepEqual(attempts(), tried);
        opened.clock.ms += 1;
        runners.at(-1)?.wake();
        await until(() => attempts().length > tried.length);
      }
      assert.ok(opened.clock.ms - startedAt > HOUR);
      const last = restart();
      await until(async () => (await jobs(opened))[0]?.state === "dead");
      const [job] = await jobs(opened);
      assert.deepEqual([job?.attempts, job?.deaths, job?.last_error], [
        6,
        5,
        "interrupted: the process ended 5 times during this job",
      ]);
      opened.clock.ms += HOUR;
      last.wake();
      await runOthers();
      for (const runner of runners.reverse()) await runner.stop();
      assert.deepEqual([attempts(), abandoned], [Array.from({ length: 5 }, () => "1/1"), [[1, "interrupted"]]]);
      assert.match(await metrics.registry.metrics(), /^svc_jobs_interrupted_total\{kind="count"\} 5$/m);
    },
  );

  on(
    "a dead job without a handler of its end is tried again alone, ever more rarely, until it succeeds",
    async (opened) => {
      const { promise: never } = Promise.withResolvers<void>();
      const ran: number[] = [];
      const deadUntil: number[] = [];
      let endsProcess = true;
      const startUntold = (): JobRunner => {
        const kind = defineJob({
          kind: "count",
          payload: z.strictObject({ n: z.int() }),
          run({ payload }) {
            ran.push(payload.n);
            return endsProcess ? never : Promise.resolve();
          },
        });
        const deps = { store: coreStore(opened), kinds: [kind], clock: opened.clock };
        const runner = new JobRunner(deps, { pollMs: NEVER_MS, isSingleNode: true, stopTimeoutMs: 0 });
        runner.start();
        return runner;
      };
      // Those that are stopped only at the end are killed processes.
      const runners: JobRunner[] = [];
      const startUntil = async (isSo: () => boolean | Promise<boolean>): Promise<void> => {
        runners.push(startUntold());
        await until(isSo);
      };
      await opened.store.write((tx) => tx.enqueue(draft(1), draft(2)));
      const areDead = async (): Promise<boolean> => (await jobs(opened)).every(({ state }) => state === "dead");
      await startUntil(() => ran.length === 2);
      for (let count = 3; count <= 10; count++) {
        opened.clock.ms += HOUR;
        await startUntil(() => ran.length === count);
      }
      await startUntil(areDead);
      for (let revivals = 1; revivals <= 12; revivals++) {
        const runAt = Math.max(...(await jobs(opened)).map(({ run_at }) => Date.parse(run_at)));
        deadUntil.push(runAt - opened.clock.ms);
        opened.clock.ms = runAt - 60_000;
        opened.clock.ms = runAt + 1;
        const before = ran.length;
        await startUntil(() => ran.length === before + 1);
        // The other one waits: it would not be known which of them ended the process.
        assert.equal((await jobs(opened)).filter(({ state }) => state === "running").length, 1);
        await startUntil(() => ran.length === before + 2);
        await startUntil(areDead);
      }
      const HOURS = deadUntil.map((ms) => ms / HOUR);
      assert.ok(
        HOURS.every((hours, n) => hours > Math.min(0.25 * 2 ** n, 24) / 2 && hours <= Math.min(0.25 * 2 ** n, 24)),
        `${HOURS}`,
      );
      endsProcess = false;
      opened.clock.ms += 24 * HOUR;
      await startUntil(() => isEmpty(opened));
      for (const runner of runners) await runner.stop();
    },
  );

  on("a dead job is not tried again while a newer draft with its key waits", async (opened) => {
    const { store, clock } = opened;
    const ran: number[] = [];
    const kind = defineJob({
      kind: "count",
      payload: z.strictObject({ n: z.int() }),
      maxAttempts: 1,
      run({ payload: { n } }) {
        ran.push(n);
        return ran.length === 1 ? Promise.reject(new Error("failed")) : Promise.resolve();
      },
    });
    const runner = new JobRunner({ store: coreStore(opened), kinds: [kind], clock }, { pollMs: NEVER_MS });
    runner.start();
    await store.write((tx) => tx.enqueue(draft(1, { key: "k" })));
    await runner.whenIdle();
    assert.deepEqual((await jobs(opened)).map(({ state }) => state), ["dead"]);
    await store.write((tx) =>
      tx.enqueue(draft(2, { key: "k", runAt: clock.ms + 48 * HOUR }), draft(3, { key: "other" }))
    );
    clock.ms += 24 * HOUR;
    await runner.whenIdle();
    assert.deepEqual(ran, [1, 3]);
    clock.ms += 48 * HOUR;
    await until(async () => {
      await runner.whenIdle();
      return await isEmpty(opened);
    });
    await runner.stop();
    assert.deepEqual(ran, [1, 3, 2, 1]);
  });

  on("a runner that lost its lease and lives is no death, and tells nobody that the job failed", async (opened) => {
    const gates = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
    const attempts: number[] = [];
    const told: unknown[] = [];
    const runners = [1, 2].map(() =>
      startRunner(opened, async ({ attempt }) => {
        const count = attempts.push(attempt);
        await gates[count - 1]?.promise;
        if (count < 5) throw new Fault("unavailable", "cut off");
      }, { abandon: (...args) => told.push(args) })
    );
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    for (let attempt = 1; attempt < 5; attempt++) {
      await until(() => attempts.length === attempt);
      opened.clock.ms += 61_000;
      for (const runner of runners) runner.wake();
      await until(() => attempts.length === attempt + 1);
      assert.equal((await jobs(opened))[0]?.deaths, 1);
      gates[attempt - 1]?.resolve();
      await until(async () => (await jobs(opened))[0]?.deaths === 0);
    }
    gates[4]?.resolve();
    await until(() => isEmpty(opened));
    for (const runner of runners) await runner.stop();
    assert.deepEqual([attempts, told], [[1, 1, 2, 3, 4], []]);
  });

  on("a job that outlasts its lease on every runner is dead-lettered all the same", async (opened) => {
    let [attempts, release] = [0, (): void => {}];
    const runners = [1, 2].map(() =>
      startRunner(opened, () => {
        attempts++;
        return new Promise((resolve) => release = resolve);
      })
    );
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => attempts === 1);
    while ((await jobs(opened))[0]?.state === "running") {
      const before = release;
      opened.clock.ms += 61_000;
      for (const runner of runners) runner.wake();
      await until(async () => release !== before || (await jobs(opened))[0]?.state === "dead");
      before();
      await until(async () => (await jobs(opened))[0]?.deaths === 0);
    }
    assert.equal(attempts, 8);
    for (const runner of runners) await runner.stop();
  });

  on("whoever waits for a job is told once that its attempts ran out", async (opened) => {
    const told: unknown[] = [];
    const runner = startRunner(opened, () => Promise.reject(new Fault("unavailable", "away")), {
      abandon: (...args) => told.push(args),
    });
    await opened.store.write((tx) => tx.enqueue(draft(7), draft(8, { payload: { m: 8 } })));
    await until(async () => {
      await runner.whenIdle();
      opened.clock.ms += HOUR;
      return (await jobs(opened)).every(({ state }) => state === "dead");
    });
    await runner.whenIdle();
    assert.deepEqual((await jobs(opened)).map(({ attempts }) => attempts), [3, 1]);
    assert.deepEqual(told, [[7, "failed"]]);
    await runner.stop();
  });

  on("jobs that ran when their process ended run again one at a time, beside others", async (opened) => {
    const { promise: never } = Promise.withResolvers<void>();
    const gates = new Map([1, 2].map((n) => [n, Promise.withResolvers<void>()]));
    const seen: string[] = [];
    const record = (name: string, wait: (n: number) => Promise<void>): Run => ({ payload: { n } }) => {
      seen.push(`${name}${n}`);
      return wait(n);
    };
    // No slot is free for what is claimed again: it looks on after it began the second job.
    const killed = startRunner(opened, record("killed ", () => never), { stopTimeoutMs: 0, concurrency: 2 });
    await opened.store.write((tx) => tx.enqueue(draft(1), draft(2)));
    await until(() => seen.length === 2);
    seen.length = 0;
    const next = startRunner(opened, record("", (n) => gates.get(n)?.promise ?? Promise.resolve()), {
      isSingleNode: true,
    });
    await until(() => seen.length === 1);
    await opened.store.write((tx) => tx.enqueue(draft(3)));
    await until(async () => seen.includes("3") && (await jobs(opened)).length === 2);
    assert.equal(seen.length, 2);
    const first = Number(seen[0]);
    gates.get(first)?.resolve();
    await until(() => seen.length === 3);
    for (const gate of gates.values()) gate.resolve();
    await until(() => isEmpty(opened));
    await next.stop();
    await killed.stop();
    assert.deepEqual(seen, [`${first}`, "3", `${3 - first}`]);
  });

  on(
    "a result that cannot be written is written once the store is back, and the job is not run again",
    async (opened) => {
      const store = new CutStore(opened);
      const seen: string[] = [];
      const runner = startRunner(opened, async ({ payload: { n }, attempt }) => {
        seen.push(`${n}/${attempt}`);
        await until(() => seen.length === 2 || attempt > 1);
        if (attempt === 1) store.cut = "before commit";
        if (n === 2 && attempt === 1) throw new Error("failed");
      }, { store, pollMs: 5 });
      await opened.store.write((tx) => tx.enqueue(draft(1), draft(2)));
      // Results and claims are tried again and again, also when the lease has run out.
      await until(() => store.failures > 10);
      opened.clock.ms += HOUR;
      const failures = store.failures;
      await until(() => store.failures > failures + 10);
      assert.deepEqual(seen.toSorted(), ["1/1", "2/1"]);
      store.cut = undefined;
      await until(() => isEmpty(opened));
      await runner.stop();
      assert.deepEqual(seen.toSorted(), ["1/1", "2/1", "2/2"]);
    },
  );

  on("outages, however many, are no deaths of the process that lives through them", async (opened) => {
    const store = new CutStore(opened);
    const seen: [attempt: number, deaths: number | undefined][] = [];
    const abandoned: unknown[] = [];
    const runner = startRunner(opened, async ({ attempt }) => {
      seen.push([attempt, (await jobs(opened))[0]?.deaths]);
      if (attempt === 3) return;
      store.cut = "before commit";
      throw new Fault("unavailable", "Away");
    }, { store, pollMs: 5, leaseMs: 60_000, abandon: (...told) => void abandoned.push(told) });
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    for (let outage = 1; outage < 3; outage++) {
      await until(() => seen.length === outage);
      await until(() => store.cut !== undefined);
      opened.clock.ms += HOUR;
      store.cut = undefined;
    }
    await until(() => isEmpty(opened));
    await runner.stop();
    assert.deepEqual([seen, abandoned], [[[1, 0], [2, 0], [3, 0]], []]);
  });

  on("a late result leaves the job to the runner that took it over", async (opened) => {
    const store = new CutStore(opened);
    const { gate, attempts, run } = hangOnFirstAttempt();
    const { promise: second, resolve: finishSecond } = Promise.withResolvers<void>();
    const cut = startRunner(opened, run, { store, pollMs: 5 });
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => attempts.length === 1);
    store.cut = "before commit";
    gate.resolve();
    await until(() => store.failures > 2);
    opened.clock.ms += HOUR;
    const other = startRunner(opened, async (job) => {
      await run(job);
      await second;
    });
    await until(() => attempts.length === 2);
    store.cut = undefined;
    await cut.whenIdle();
    assert.deepEqual((await jobs(opened)).map(({ state, attempts }) => [state, attempts]), [["running", 2]]);
    finishSecond();
    await until(() => isEmpty(opened));
    await Promise.all([cut.stop(), other.stop()]);
    assert.deepEqual(attempts, [1, 1]);
  });

  on(
    "a claim whose commit was in doubt is taken up at once, as the same attempt and without a death",
    async (opened) => {
      const store = new CutStore(opened);
      const seen: unknown[] = [];
      store.cut = "after commit";
      const metrics = new Metrics();
      const runner = startRunner(opened, async ({ payload: { n }, attempt }) => {
        seen.push([n, attempt, (await jobs(opened)).map(({ deaths }) => deaths)]);
      }, { store, pollMs: 5, concurrency: 1, metrics });
      await opened.store.write((tx) => tx.enqueue(draft(1)));
      await until(() => store.failures > 3);
      assert.deepEqual(seen, []);
      store.cut = undefined;
      await until(() => isEmpty(opened));
      await runner.stop();
      assert.deepEqual(seen, [[1, 1, [0]]]);
      assert.doesNotMatch(await metrics.registry.metrics(), /^svc_jobs_interrupted_total\{/m);
    },
  );

  on("a stop does not wait for a store that is away, and leaves nothing behind that writes", async (opened) => {
    const store = new CutStore(opened);
    const runs: number[] = [];
    const runner = startRunner(opened, ({ attempt }) => {
      if (runs.push(attempt) === 1) store.cut = "before commit";
      return Promise.resolve();
    }, { store, pollMs: 5, stopTimeoutMs: 1 });
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => store.failures > 2);
    await runner.stop();
    await runner.whenIdle();
    store.cut = undefined;
    assert.deepEqual((await jobs(opened)).map(({ state }) => state), ["running"]);
    assert.deepEqual(runs, [1]);
  });

  on("whoever waits for a job is told of its end once the store is back", async (opened) => {
    const store = new CutStore(opened);
    const told: string[] = [];
    const runner = startRunner(opened, ({ payload: { n }, attempt }) => {
      if (attempt === 3 && n === 1) store.cut = "before commit";
      return Promise.reject(new Error("failed"));
    }, {
      store,
      pollMs: 5,
      async abandon(n) {
        await store.write(() => Promise.resolve());
        told.push(`told of ${n}`);
        if (n === 2) throw new Error("failed");
      },
    });
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    await until(() => {
      opened.clock.ms += HOUR;
      return store.failures > 5;
    });
    assert.deepEqual(told, []);
    store.cut = undefined;
    const areDead = async (count: number): Promise<boolean> =>
      (await jobs(opened)).filter(({ state }) => state === "dead").length === count;
    await until(() => areDead(1));
    assert.deepEqual((await jobs(opened)).map(({ attempts }) => attempts), [3]);
    // A failure that a retry does not fix is only logged.
    await opened.store.write((tx) => tx.enqueue(draft(2)));
    await until(() => {
      opened.clock.ms += HOUR;
      return areDead(2);
    });
    await runner.stop();
    assert.deepEqual(told, ["told of 1", "told of 2"]);
  });

  on("a stop gives back jobs that take long, which is no death and no attempt", async (opened) => {
    const gate = Promise.withResolvers<void>();
    const attempts: number[] = [];
    const run: Run = async ({ attempt }) => {
      attempts.push(attempt);
      await gate.promise;
    };
    await opened.store.write((tx) => tx.enqueue(draft(1)));
    for (let stops = 1; stops <= 3; stops++) {
      const runner = startRunner(opened, run, { stopTimeoutMs: 0 });
      await until(() => attempts.length === stops);
      await runner.stop();
      const [job] = await jobs(opened);
      assert.deepEqual([job?.state, job?.attempts, job?.deaths], ["waiting", 0, 0]);
    }
    gate.resolve();
    const last = startRunner(opened, run);
    await until(() => isEmpty(opened));
    await last.stop();
    assert.deepEqual(attempts, [1, 1, 1, 1]);
  });

  on("stop waits for the jobs that run", async (opened) => {
    let isDone = false;
    let runs = 0;
    const runner = startRunner(opened, async () => {
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
