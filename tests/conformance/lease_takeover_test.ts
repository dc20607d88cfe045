// Which nodes have ended, as PostgreSQL knows it, and when their jobs are taken over.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { z } from "@zod/zod";
import { JobRunner } from "@/adapters/job/runner.ts";
import { CHECK_INTERVAL_MS, LeaseTakeover } from "@/adapters/store/lease_takeover.ts";
import { type AnyStore, openStore } from "@/adapters/open.ts";
import { PostgresConnection } from "@/adapters/store/postgres/connection.ts";
import { PostgresNode } from "@/adapters/store/postgres/node.ts";
import { ConnectionLost } from "@/adapters/store/sql_session.ts";
import { defineJob } from "@/core/job.ts";
import { Metrics } from "@/core/metrics.ts";
import { testOnPostgres } from "../engines.ts";
import { TestClock } from "../harness.ts";
import { until } from "../wait.ts";
import { openMigratedStore, PATIENT } from "./store_backends.ts";
import { TcpProxy } from "./tcp_proxy.ts";

Deno.test("a node's jobs are taken over when it was disconnected for two seconds, not when it reconnected in time", async () => {
  const clock = new TestClock();
  const store = await openMigratedStore("sqlite::memory:", clock);
  const gate = Promise.withResolvers<void>();
  const seen: number[] = [];
  const kind = defineJob({
    kind: "count",
    payload: z.strictObject({}),
    run({ attempt }) {
      seen.push(attempt);
      return seen.length === 1 ? gate.promise : Promise.resolve();
    },
  });
  const metrics = new Metrics();
  const deps = { store, clock, kinds: [kind], metrics };
  const killed = new JobRunner({ ...deps, nodeId: "7" }, { stopTimeoutMs: 0 });
  killed.start();
  await store.write((tx) => tx.enqueue({ tenantId: "acme", kind: "count", payload: {} }));
  killed.wake();
  await until(() => seen.length === 1);
  const other = new JobRunner({ ...deps, nodeId: "8" });
  other.start();
  const [asked, gone]: [string[][], Set<string>] = [[], new Set(["7"])];
  let elapsed = 0;
  const takeover = new LeaseTakeover({
    leases: [other.leases],
    node: {
      id: "8",
      findStopped(ids) {
        asked.push([...ids]);
        return Promise.resolve(ids.filter((id) => gone.has(id)));
      },
      endFrozenSessions: () => Promise.resolve(),
    },
  }, () => elapsed);
  const look = async (ms: number): Promise<void> => {
    elapsed += ms;
    await takeover.check();
    await other.whenIdle();
  };
  await look(0);
  await look(1999);
  gone.clear();
  await look(1);
  gone.add("7");
  await look(1);
  await look(1999);
  assert.deepEqual(seen, [1]);
  await look(1);
  assert.deepEqual(seen, [1, 1], "the first counts no attempt: its process ended");
  await look(1);
  assert.deepEqual(asked, Array(6).fill(["7"]), "nobody is asked for where no job runs");
  assert.equal(metrics.jobsTakenOver.value, 1);
  gate.resolve();
  for (const runner of [killed, other]) await runner.stop();
  await store.close();
});

Deno.test("the leases of a killed node are expired within five seconds, whenever it is killed between two checks", async () => {
  for (let killedAt = 1; killedAt <= CHECK_INTERVAL_MS; killedAt += 111) {
    let now = 0;
    let expiredAt: number | undefined;
    const takeover = new LeaseTakeover({
      leases: [{
        owners: () => Promise.resolve(["7:lease_1", "8:lease_2"]),
        expire(owners) {
          assert.deepEqual(owners, ["7:lease_1"]);
          expiredAt = now;
          return Promise.resolve(1);
        },
      }],
      node: {
        id: "8",
        findStopped: () => Promise.resolve(now >= killedAt ? ["7"] : []),
        endFrozenSessions: () => Promise.resolve(),
      },
    }, () => now);
    while (expiredAt === undefined) {
      await takeover.check();
      now += CHECK_INTERVAL_MS;
      assert.ok(now <= killedAt + 5000, "not yet");
    }
  }
});

testOnPostgres(
  "a node is there while its session lasts, and takes its lock again when that ends",
  async (environment) => {
    const url = environment.SVC_DATABASE_URL ?? "";
    await using stack = new AsyncDisposableStack();
    const store: AnyStore = stack.adopt(await openStore(url, new TestClock()), (opened) => opened.close());
    const [one, two] = [new PostgresNode(url, store.db), new PostgresNode(url, store.db)];
    await Promise.all([one.acquire(), two.acquire()]);
    stack.defer(() => two.close());
    assert.deepEqual(await two.findStopped([one.id, two.id]), []);
    // What a server's restart, or a proxy that cuts connections, does to a session.
    await sql`select pg_terminate_backend(pid) from pg_locks
    where locktype = 'advisory' and classid = 5170322 and objid = ${Number(one.id)}`.execute(store.db);
    await until(async () => (await two.findStopped([one.id])).length === 0, "it holds its lock again");
    await one.close();
    await until(async () => (await two.findStopped([one.id])).length === 1, "it is gone");
    assert.deepEqual(await two.findStopped([one.id, two.id]), [one.id]);
  },
);

testOnPostgres(
  "a node that froze before it sent a statement's parameters loses its locks",
  async (environment) => {
    const url = environment.SVC_DATABASE_URL ?? "";
    await using stack = new AsyncDisposableStack();
    const store: AnyStore = stack.adopt(await openStore(url, new TestClock()), (opened) => opened.close());
    const node = stack.adopt(new PostgresNode(url, store.db), (made) => made.close());
    const proxy = stack.use(new TcpProxy(url));
    const options = { ...PATIENT, url: proxy.url };
    const frozen = stack.adopt(new PostgresConnection(options), (made) => made.close());
    await frozen.begin();
    await frozen.run("select pg_advisory_xact_lock($1)", [77n]);
    const { rows: [session] } = await frozen.run("select pg_backend_pid() as pid", []);
    proxy.dropResponses();
    const lost = assert.rejects(frozen.run("select $1::text", ["never sent"]), ConnectionLost);
    const isLocked = async (): Promise<boolean> =>
      (await sql`select 1 from pg_locks where locktype = 'advisory' and objid = 77`.execute(store.db)).rows.length > 0;
    await until(async () => {
      const { rows: [activity] } = await sql<{ state: string; wait_event: string }>`
        select state, wait_event from pg_stat_activity where pid = ${session?.pid}`.execute(store.db);
      return activity?.state === "active" && activity.wait_event === "ClientRead";
    }, "the server waits for its parameters");
    await node.endFrozenSessions();
    assert.equal(await isLocked(), true, "that long may be the network");
    await node.endFrozenSessions(0);
    await until(async () => !await isLocked(), "it is unlocked");
    await lost;
  },
);
