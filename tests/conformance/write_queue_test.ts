// What the write queue does with connections of which some cannot begin, and who pays for a commit.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { ConnectionLost, type Rows, type SqlConnection } from "@/adapters/store/sql_session.ts";
import { WriteQueue } from "@/adapters/store/write_queue.ts";
import { chargeTo, currentAccount } from "@/core/caller.ts";
import { nextTick, systemClock } from "@/core/time/clock.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { replace } from "../replace.ts";

/** A connection without a database, that can be made to fail. */
class FakeConnection implements SqlConnection {
  isBroken = false;
  begun = 0;
  /** Until then `begin` has no answer. */
  answer: Promise<void> | undefined;

  async begin(): Promise<void> {
    await this.answer;
    if (this.isBroken) throw new ConnectionLost("Connection refused");
    this.begun++;
  }

  run(): Promise<Rows> {
    return Promise.resolve({ rows: [], changed: 0 });
  }

  async insertMany(): Promise<void> {}
  control(): void {}
  async commit(): Promise<void> {}
  async rollback(): Promise<void> {}
  async close(): Promise<void> {}
}

function queueOver(...connections: FakeConnection[]): WriteQueue<unknown> {
  return queueWith({ connections, isExclusive: false });
}

function queueWith(
  { connections: writers, isExclusive, gather = () => undefined }: {
    connections: FakeConnection[];
    isExclusive: boolean;
    gather?: (restMs: number) => Promise<void> | undefined;
  },
): WriteQueue<unknown> {
  return new WriteQueue<unknown>({
    dialect: "postgres",
    clock: systemClock,
    scopes: new AsyncLocalStorage(),
    writers,
    rules: { isExclusive, beforeSavepoint: "", gather },
    onCommitted: () => {},
    onBytesWritten: () => {},
    authorizeWrite: () => undefined,
  });
}

/** Writes that each note when they ran. */
function recordWrites(queue: WriteQueue<unknown>, count: number): { ran: number[]; ends: Promise<unknown>[] } {
  const ran: number[] = [];
  const work = (n: number) => async (): Promise<void> => {
    await Promise.resolve();
    ran.push(n);
  };
  return { ran, ends: Array.from({ length: count }, (_, n) => queue.write(work(n))) };
}

const inOrder = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

Deno.test("write queue: writers go past connections that cannot begin, in the order in which they came", async () => {
  const [working, ...broken] = [new FakeConnection(), new FakeConnection(), new FakeConnection()];
  for (const connection of broken) connection.isBroken = true;
  const queue = queueOver(working, ...broken);
  for (let round = 0; round < 3; round++) {
    const { ran, ends } = recordWrites(queue, 200);
    await Promise.all(ends);
    assert.deepEqual(ran, inOrder(200));
  }
  assert.equal(broken.reduce((sum, { begun }) => sum + begun, 0), 0);
  await queue.close();
});

Deno.test("write queue: a single writer that finds its connection broken uses an idle one", async () => {
  const queues: ReturnType<typeof queueOver>[] = [];
  for (let round = 0; round < 3; round++) {
    const [working, broken] = [new FakeConnection(), new FakeConnection()];
    broken.isBroken = true;
    const queue = queueOver(working, broken);
    queues.push(queue);
    for (let count = 0; count < 5; count++) {
      let isWritten = false;
      const written = queue.write(() => Promise.resolve()).then(() => isWritten = true);
      // No pause of the broken connection is over after so few turns.
      for (let turn = 0; turn < 20 && !isWritten; turn++) await nextTick();
      assert.ok(isWritten, `write ${count} of round ${round}`);
      await written;
    }
  }
  for (const queue of queues) await queue.close();
});

Deno.test("write queue: those waiting are refused once no connection can begin, and not while one may yet", async () => {
  const connections = [new FakeConnection(), new FakeConnection()];
  const [slow, broken] = connections;
  assert.ok(slow && broken);
  const { promise, resolve } = Promise.withResolvers<void>();
  slow.answer = promise;
  for (const connection of connections) connection.isBroken = true;
  const queue = queueOver(slow, broken);
  const ends = recordWrites(queue, 20).ends.map((end) => end.then(() => "written", ({ code }) => code));
  const early = await Promise.race([Promise.any(ends), new Promise((settle) => setTimeout(settle, 500, "waiting"))]);
  assert.equal(early, "waiting");
  resolve();
  assert.deepEqual(await Promise.all(ends), Array.from({ length: 20 }, () => "unavailable"));
  await queue.close();
});

Deno.test("write queue: connections that can begin again are used again", async () => {
  const connections = [new FakeConnection(), new FakeConnection()];
  const queue = queueOver(...connections);
  for (const connection of connections) connection.isBroken = true;
  await assert.rejects(queue.write(() => Promise.resolve()), { code: "unavailable" });
  for (const connection of connections) connection.isBroken = false;
  // Each waits for the other, so each has a connection of its own.
  const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const both = [
    queue.write(() => (one.resolve(), two.promise)),
    queue.write(() => (two.resolve(), one.promise)),
  ];
  await Promise.all(both);
  assert.deepEqual(connections.map(({ begun }) => begun), [1, 1]);
  await queue.close();
});

Deno.test("write queue: a read that waits for a batch to end is charged to its caller", async () => {
  const queue = queueWith({ connections: [new FakeConnection()], isExclusive: true });
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const writing = queue.write(() => (begun.resolve(), ended.promise));
  await begun.promise;
  const account = new CpuBudget({ percent: undefined }).accountOfKey("default/alice");
  const reading = chargeTo(account, () => queue.readBetweenBatches(() => Promise.resolve(currentAccount())));
  ended.resolve();
  assert.equal(await reading, account);
  await writing;
  await queue.close();
});

/** A connection that works while it commits, as SQLite does. */
class WorkingConnection extends FakeConnection {
  workedMs = 0;

  override commit(): Promise<void> {
    this.workedMs += 50;
    return Promise.resolve();
  }
}

Deno.test("write queue: a commit on this thread is charged by what each writer wrote, a small one is not charged", async () => {
  const connection = new WorkingConnection();
  using _clock = replace(performance, "now", () => connection.workedMs);
  const queue = queueWith({ connections: [connection], isExclusive: true });
  const budget = new CpuBudget({ percent: 10 });
  const spent = async (...lengths: number[]): Promise<number[]> => {
    const accounts = lengths.map((length) => budget.accountOfKey(`writer of ${length} beside ${lengths}`));
    await Promise.all(
      accounts.map((account, n) =>
        chargeTo(
          account,
          () => queue.write((tx) => tx.insertMany("note" as never, [{ text: "x".repeat(lengths[n] ?? 0) }])),
        )
      ),
    );
    return accounts.map(({ consumedMs }) => Math.round(consumedMs));
  };
  assert.deepEqual(await spent(1_000_000, 500), [50, 0]);
  assert.deepEqual(await spent(100_000, 99_999), [25, 25]);
  assert.deepEqual(await spent(100), [1]);
  await queue.close();
});

Deno.test("write queue: a batch is followed by a pause if it was of one tenant among several", async () => {
  const connection = new WorkingConnection();
  using _clock = replace(performance, "now", () => connection.workedMs);
  const rests: number[] = [];
  const queue = queueWith({
    connections: [connection],
    isExclusive: true,
    gather: (restMs) => void rests.push(restMs),
  });
  const budget = new CpuBudget({ percent: 10, tenantPercent: 50 });
  const write = async (key: string): Promise<void> => {
    const account = budget.accountOfKey(key);
    budget.markActive(account, connection.workedMs);
    await chargeTo(
      account,
      () => queue.write((tx) => tx.insertMany("note" as never, [{ text: "x".repeat(1_000_000) }])),
    );
  };
  for (const key of ["one/alice", "one/bob", "other/carol", "one/alice"]) {
    await write(key);
    await nextTick();
  }
  await queue.close();
  assert.deepEqual(rests.slice(1), [0, 0, 8]);
});

Deno.test("write queue: one owner leaves connections to others", async () => {
  const cpu = new CpuBudget({ percent: 10 });
  const queue = queueOver(new FakeConnection(), new FakeConnection());
  const ran: string[] = [];
  const gate = Promise.withResolvers<void>();
  const writeFor = (owner: string, until?: Promise<void>): Promise<void> =>
    chargeTo(cpu.accountOfKey(owner), () =>
      queue.write(async () => {
        ran.push(owner);
        await until;
      }));
  const many = [gate.promise, undefined, undefined].map((until) => writeFor("many", until));
  await writeFor("other");
  assert.deepEqual(ran, ["many", "other"]);
  gate.resolve();
  await Promise.all(many);
  assert.deepEqual(ran, ["many", "other", "many", "many"]);
  const late = writeFor("many");
  await Promise.all([late, queue.write(() => Promise.resolve())]);
  await queue.close();
});

Deno.test("write queue: the owners of one tenant leave a connection to other tenants", async () => {
  const cpu = new CpuBudget({ percent: 10, tenantPercent: 50 });
  const queue = queueOver(new FakeConnection(), new FakeConnection(), new FakeConnection());
  const ran: string[] = [];
  const gate = Promise.withResolvers<void>();
  const writeFor = (owner: string, until?: Promise<void>): Promise<void> =>
    chargeTo(cpu.accountOfKey(owner), () =>
      queue.write(async () => {
        ran.push(owner);
        await until;
      }));
  const many = Array.from({ length: 5 }, (_, n) => writeFor(`large/member${n}`, gate.promise));
  await writeFor("small/one");
  await nextTick();
  assert.deepEqual(ran, ["large/member0", "small/one", "large/member1"]);
  gate.resolve();
  await Promise.all(many);
  assert.equal(ran.length, 6);
  await queue.close();
});

Deno.test("write queue: writers of one owner share a commit, and those of others have their turn between them", async () => {
  const cpu = new CpuBudget({ percent: 10 });
  const connection = new FakeConnection();
  const queue = queueOver(connection);
  const ran: string[] = [];
  const writeFor = (owner: string): Promise<void> =>
    chargeTo(cpu.accountOfKey(owner), () =>
      queue.write(() => {
        ran.push(owner);
        return Promise.resolve();
      }));
  await Promise.all([...Array.from({ length: 10 }, () => writeFor("many")), writeFor("one"), writeFor("other")]);
  assert.deepEqual(ran.slice(0, 5), ["many", "one", "other", "many", "many"]);
  assert.equal(ran.length, 12);
  assert.ok(queue.commits.batches < 3, `${queue.commits.batches} commits`);
  await queue.close();
});

Deno.test("write queue: writers of a tenant take turns with those of others, however many owners it has", async () => {
  const cpu = new CpuBudget({ percent: 10, tenantPercent: 50 });
  const queue = queueOver(new FakeConnection());
  const ran: string[] = [];
  const writeFor = (owner: string): Promise<void> =>
    chargeTo(cpu.accountOfKey(owner), () =>
      queue.write(() => {
        ran.push(owner);
        return Promise.resolve();
      }));
  const large = Array.from({ length: 10 }, (_, n) => `large/member${n % 5}`);
  await Promise.all([...large, "small/one", "small/other", "third/one"].map(writeFor));
  const [first, ...rest] = large.slice(0, 5);
  assert.deepEqual(ran.slice(0, 6), [first, "small/one", "third/one", rest[0], "small/other", rest[1]]);
  assert.deepEqual(ran.slice(6), [...rest.slice(2), ...large.slice(0, 5)]);
  await queue.close();
});
