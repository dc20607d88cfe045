// The store's suites on a PostgreSQL server, where TEST_POSTGRES_URL names one, and what only a server can go through.
// Runs alone: it measures the memory of its thread.
import assert from "node:assert/strict";
import { sql } from "kysely";
import postgres from "postgres";
import { openStore } from "@/adapters/open.ts";
import { PostgresConnection } from "@/adapters/store/postgres/connection.ts";
import { PostgresPool } from "@/adapters/store/postgres/pool.ts";
import { openPostgresStore } from "@/adapters/store/postgres/store.ts";
import { chargeTo } from "@/core/caller.ts";
import { systemClock } from "@/core/time/clock.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { MigrationOwner } from "@/core/migration.ts";
import { UniqueViolation } from "@/ports/store.ts";
import { captureLog } from "../log_capture.ts";
import { postgresUrl } from "../tier.ts";
import { countTicks, stopTime, until, WAIT_MS } from "../wait.ts";
import { idempotencySuite } from "./idempotency_suite.ts";
import { jobSuite } from "./job_suite.ts";
import { createTemporarySchema, type Notes, notes, PATIENT, postgresBackend } from "./store_backends.ts";
import { eventDraft, noteRow, storeSuite, testOnStore } from "./store_suite.ts";
import { TcpProxy } from "./tcp_proxy.ts";

const url = postgresUrl;
if (url !== undefined) {
  const backend = postgresBackend(url);
  storeSuite(backend);
  jobSuite(backend);
  idempotencySuite(backend);

  testOnStore(backend, "a writer whose connection is ended runs again and counts once", async ({ store }) => {
    const admin = postgres(url, { max: 1 });
    let runs = 0;
    await store.write(async (tx) => {
      runs++;
      await tx.insertMany("note", [noteRow("a")]);
      const own = await tx.db.selectNoFrom((row) => row.fn<number>("pg_backend_pid").as("pid"))
        .executeTakeFirstOrThrow();
      if (runs === 1) await admin`select pg_terminate_backend(${own.pid})`;
      await tx.emit(eventDraft("room:1"));
    });
    await admin.end();
    assert.equal(runs, 2);
    assert.equal((await store.log.position("acme", "room:1")).head, 1);
  });

  testOnStore(
    backend,
    "a writer whose thread stood still until its session ended runs again and counts once",
    async ({ store }) => {
      let runs = 0;
      await store.write(async (tx) => {
        runs++;
        await tx.emit(eventDraft("room:1"));
        const timeout = runs === 1 ? "20ms" : "0";
        await sql`select set_config('idle_in_transaction_session_timeout', ${timeout}, false)`.execute(tx.db);
        // The server ends the session meanwhile, and the thread does not notice before it commits.
        if (runs === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1100);
      });
      assert.equal((await store.log.position("acme", "room:1")).head, 1);
    },
  );

  testOnStore(
    backend,
    "a node that stands still in a write holds others up for seconds, and writes after them",
    async ({
      store,
      openSecond,
    }) => {
      const still = openSecond();
      const [held, frozen] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const late = still.write(async (tx) => {
        await tx.emit(eventDraft("room:1"));
        held.resolve();
        await frozen.promise;
        return await tx.emit(eventDraft("room:1"));
      });
      await held.promise;
      const [first] = await store.write((tx) => tx.emit(eventDraft("room:1")));
      frozen.resolve();
      assert.deepEqual([first?.seq, (await late)[0]?.seq], [1, 3]);
      await still.close();
    },
  );

  testOnStore(
    backend,
    "a statement that was sent behind one that failed fails for the same reason",
    async ({ store }) => {
      await store.write((tx) => tx.insertMany("note", [noteRow("a")]));
      const undone = store.write(async (tx) => {
        const sent = [tx.insertMany("note", [noteRow("a")]), tx.insertMany("note", [noteRow("b")])];
        const [first, second] = await Promise.allSettled(sent);
        assert.ok(first?.status === "rejected" && second?.status === "rejected");
        assert.equal(second.reason, first.reason);
        throw first.reason;
      });
      await assert.rejects(undone, UniqueViolation);
    },
  );

  testOnStore(backend, "writers that deadlock on rows all succeed", async ({ store }) => {
    await store.write((tx) => tx.insertMany("note", [noteRow("a"), noteRow("b")]));
    await Promise.all(Array.from({ length: 8 }, (_, n) =>
      store.write(async (tx) => {
        for (const id of n % 2 === 0 ? ["a", "b"] : ["b", "a"]) {
          await tx.db.updateTable("note").set((row) => ({ stars: row("stars", "+", 1) })).where("id", "=", id)
            .execute();
        }
      })));
    const rows = await store.db.selectFrom("note").select("stars").execute();
    assert.deepEqual(rows, [{ stars: 9 }, { stars: 9 }]);
  });

  testOnStore(backend, "a table that another node has changed since it was asked is no failure", async ({ store }) => {
    const read = () => store.write(({ db }) => db.selectFrom("note").selectAll().where("id", "=", "a").execute());
    await read();
    await store.write(({ db }) => sql`alter table note add column extra text`.execute(db));
    assert.deepEqual(await read(), []);
  });

  testOnStore(
    backend,
    "a server that is out of disk or memory, or only to be read, is unavailable",
    async ({ store }) => {
      for (const code of ["53100", "53200", "58030", "25006"]) {
        const raise = sql.raw(`do $$ begin raise exception 'no' using errcode = '${code}'; end $$`);
        await assert.rejects(store.write(({ db }) => raise.execute(db)), { code: "unavailable" }, code);
        await assert.rejects(raise.execute(store.db), { code: "unavailable" }, code);
      }
    },
  );

  Deno.test("postgres: a server out of reach is unavailable, and used again when it is back", async () => {
    await using proxy = new TcpProxy(url);
    const schema = await createTemporarySchema(proxy.url);
    const store = openPostgresStore<Notes>(schema.url, { clock: systemClock });
    await store.migrate([notes]);
    await store.write((tx) => tx.insertMany("note", [noteRow("before")]));

    proxy.refuse();
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 20 }, (_, n) => store.write((tx) => tx.insertMany("note", [noteRow(`lost${n}`)]))),
      store.db.selectFrom("note").selectAll().execute(),
    ]);
    for (const outcome of outcomes) {
      assert.equal(outcome.status === "rejected" && outcome.reason.code, "unavailable");
    }

    proxy.accept();
    await store.write((tx) => tx.insertMany("note", [noteRow("after")]));
    assert.deepEqual(await store.db.selectFrom("note").select("id").orderBy("id").execute(), [
      { id: "after" },
      { id: "before" },
    ]);
    await store.close();
    await schema.drop();
  });

  Deno.test("postgres: the probe fails while writes are refused, asks again after a pause, and is well by itself", async () => {
    await using proxy = new TcpProxy(url);
    const schema = await createTemporarySchema(proxy.url);
    const store = openPostgresStore<Notes>(schema.url, { clock: systemClock });
    await store.migrate([notes]);
    await store.checkHealth();
    const full = sql.raw("do $$ begin raise exception 'no' using errcode = '53100'; end $$");
    await assert.rejects(store.write(({ db }) => full.execute(db)), { code: "unavailable" });
    {
      // All of it is within the pause.
      using _time = stopTime();
      proxy.refuse();
      await assert.rejects(store.checkHealth(), { code: "unavailable" });
      proxy.accept();
      await assert.rejects(store.checkHealth(), { code: "unavailable" }, "not so soon");
    }
    const records = await captureLog(["gateway", "store"], async () => {
      await until(() => store.checkHealth().then(() => true, () => false));
      await store.checkHealth();
    });
    assert.deepEqual(
      records.filter(({ level }) => level === "info").map(({ rawMessage }) => rawMessage),
      ["the database takes writes again"],
    );
    assert.deepEqual(await tablesLike(schema.url, "readiness%"), []);
    await store.close();
    await schema.drop();
  });

  Deno.test("postgres: a node whose probe gets no response does not disturb the probes of others", async () => {
    await using proxy = new TcpProxy(url);
    const schema = await createTemporarySchema(url);
    const through = new URL(schema.url);
    through.host = new URL(proxy.url).host;
    const deaf = openPostgresStore<Notes>(through.href, { clock: systemClock, writeConnections: 1 });
    const fine = openPostgresStore<Notes>(schema.url, { clock: systemClock });
    await deaf.migrate([notes]);
    for (const store of [deaf, fine]) await store.checkHealth();
    proxy.dropResponses();
    const unheard = deaf.checkHealth().catch(() => {});
    await until(() => isWritten(schema.url, "stream"));
    await fine.checkHealth();
    assert.ok(await isWritten(schema.url, "stream"), "waits for the node that hears nothing");
    proxy.refuse();
    proxy.accept();
    await unheard;
    await Promise.all([deaf.close(), fine.close()]);
    await schema.drop();
  });

  Deno.test("postgres: where the server takes too few connections, everybody writes over those there are", async () => {
    const schema = await createTemporarySchema(url);
    const name = new URL(schema.url).searchParams.get("search_path") ?? "";
    const admin = postgres(url, { max: 1, onnotice: () => {} });
    await admin.unsafe(`create role ${name} login connection limit 3; grant all on schema ${name} to ${name}`);
    const limited = new URL(schema.url);
    limited.username = name;
    const options = { clock: systemClock, writeConnections: 4, readConnections: 1 };
    const store = openPostgresStore<Notes>(limited.href, options);
    await store.migrate([notes]);
    await store.db.selectFrom("note").selectAll().execute();
    // One for the reader, one for a writer, one that the session that migrated may take until the server has ended it.
    const writes = Array.from(
      { length: 200 },
      (_, n) => store.write((tx) => tx.insertMany("note", [noteRow(`n${n}`)])),
    );
    await Promise.all(writes);
    assert.equal((await store.db.selectFrom("note").select("id").execute()).length, 200);
    await store.close();
    await schema.drop();
    await admin.unsafe(`drop role ${name}`);
    await admin.end();
  });

  Deno.test("postgres: where the server takes too few connections, everybody reads over those there are", async () => {
    await using own = await ownDatabase(url);
    await own.role("connection limit 1");
    const pool = new PostgresPool({ ...PATIENT, url: own.url }, 4, { retryMaxMs: Infinity });
    const read = () => pool.run("select 1 as one", []);
    for (let round = 0; round < 20; round++) await Promise.all(Array.from({ length: 10 }, read));
    await pool.close();
  });

  Deno.test("postgres: the probe fails where nothing can be read, though writes go on", async () => {
    await using own = await ownDatabase(url);
    const store = openPostgresStore<Notes>(own.url, { clock: systemClock, writeConnections: 1 });
    await store.migrate([notes]);
    await store.checkHealth();
    await own.role("connection limit 1");
    await store.write((tx) => tx.insertMany("note", [noteRow("a")]));
    await assert.rejects(store.checkHealth(), { code: "unavailable" });
    await store.write((tx) => tx.insertMany("note", [noteRow("b")]));
    await own.role("connection limit -1");
    await store.checkHealth();
    await store.close();
  });

  Deno.test("postgres: lists are planned for their values, prepared queries once", async () => {
    await using own = await ownDatabase(url);
    const pool = new PostgresPool({ ...PATIENT, url: own.url }, 2);
    const mode = "select current_setting('plan_cache_mode') as mode";
    const list = () => pool.run(mode, []);
    const get = () => pool.run(mode, [], { cacheable: false });
    const modes = async (reads: ReturnType<typeof list>[]) =>
      (await Promise.all(reads)).map(({ rows }) => rows[0]?.mode);
    assert.deepEqual(await modes([list()]), ["force_custom_plan"]);
    assert.deepEqual(await modes([get()]), ["auto"]);
    assert.deepEqual(await modes([list(), list(), list()]), Array(3).fill("force_custom_plan"));
    assert.deepEqual(await modes([get(), get(), get()]), Array(3).fill("auto"));
    // A new session has its settings from the server.
    await own.role("login");
    assert.deepEqual(await modes([list(), list()]), Array(2).fill("force_custom_plan"));
    await pool.close();
  });

  Deno.test("postgres: a reader whose connection is ended reads over another", async () => {
    await using own = await ownDatabase(url);
    const pool = new PostgresPool({ ...PATIENT, url: own.url }, 4, { retryMaxMs: Infinity });
    const slow = Array.from({ length: 4 }, () => pool.run("select pg_sleep(0.5)", []));
    await until(async () => await own.sessions() >= 4);
    await own.role("login");
    await Promise.all(slow);
    await pool.close();
  });

  Deno.test("postgres: slow reads of one principal delay its own reads only", async () => {
    await using own = await ownDatabase(url);
    const admin = postgres(own.url, { max: 1 });
    await admin`select pg_advisory_lock(1)`;
    // The server would end what waits for so long as a slow machine takes.
    const pool = new PostgresPool({ ...PATIENT, url: `${own.url}?statement_timeout=0&lock_timeout=0` }, 4);
    const cpu = new CpuBudget({ percent: 10 });
    const read = (owner: string, sql: string) => readAs(owner, pool, sql, cpu);
    let responses = 0;
    const slow = Array.from({ length: 20 }, async () => {
      await read("slow", "select pg_advisory_lock_shared(1)");
      responses++;
    });
    const waiting = () =>
      admin`select 1 from pg_locks join pg_database on oid = database where datname = current_database() and not granted`;
    await until(async () => (await waiting()).length === 2);
    for (let round = 0; round < 5; round++) {
      await Promise.all(Array.from({ length: 20 }, () => read("other", "select * from generate_series(1, 5)")));
    }
    assert.equal(responses, 0, "others wait for what is slow");
    assert.ok(cpu.accountOfKey("other").consumedMs > 4.9, "what rows cost is charged");
    await admin`select pg_advisory_unlock(1)`;
    await Promise.all(slow);
    await Promise.all([pool.close(), admin.end()]);
  });

  Deno.test("postgres: results of one tenant that arrive together are presented in turns, and what a transaction reads is charged", async () => {
    await using own = await ownDatabase(url);
    const store = openPostgresStore<Notes>(own.url, { clock: systemClock, writeConnections: 1 });
    const cpu = new CpuBudget({ percent: 10, tenantPercent: 50 });
    const rows = sql<{ n: number }>`select n from generate_series(1, 500) n`;
    // What each of them counts for fills a tick.
    using now = countTicks();
    const ticks: number[] = [];
    await Promise.all(
      Array.from(
        { length: 20 },
        (_, n) =>
          chargeTo(cpu.accountOfKey(`large/${n}`), () => rows.execute(store.db)).then(() => ticks.push(now.count)),
      ),
    );
    assert.equal(new Set(ticks).size, 20, ticks.join());
    const writer = cpu.accountOfKey("large/writer");
    await chargeTo(writer, () => store.write(({ db }) => rows.execute(db)));
    assert.ok(writer.consumedMs >= 5, `${writer.consumedMs}`);
    await store.close();
  });

  Deno.test("postgres: slow reads of many members of one tenant delay no reads of another tenant", async () => {
    await using own = await ownDatabase(url);
    const admin = postgres(own.url, { max: 1 });
    await admin`select pg_advisory_lock(1)`;
    const pool = new PostgresPool({ ...PATIENT, url: `${own.url}?statement_timeout=0&lock_timeout=0` }, 4);
    await readAs("small/one", pool);
    let responses = 0;
    const slow = Array.from({ length: 40 }, async (_, n) => {
      await readAs(`large/${n}`, pool, "select pg_advisory_lock_shared(1)");
      responses++;
    });
    const waiting = () =>
      admin`select 1 from pg_locks join pg_database on oid = database where datname = current_database() and not granted`;
    await until(async () => (await waiting()).length === 3);
    for (let round = 0; round < 5; round++) {
      await Promise.all(Array.from({ length: 20 }, (_, n) => readAs(`small/${n}`, pool)));
    }
    assert.equal(responses, 0, "another tenant waits for what is slow");
    await admin`select pg_advisory_unlock(1)`;
    await Promise.all(slow);
    await Promise.all([pool.close(), admin.end()]);
  });

  Deno.test("postgres: reads of many members of one tenant are not all before that of another tenant", async () => {
    const pool = new PostgresPool({ ...PATIENT, url }, 1);
    const answered: string[] = [];
    const read = (owner: string) => readAs(owner, pool).then(() => answered.push(owner));
    const reads = Array.from({ length: 50 }, (_, n) => read(`large/${n}`));
    await Promise.all([...reads, read("small/one")]);
    assert.ok(answered.indexOf("small/one") <= 5, `${answered.indexOf("small/one")} before it`);
    await pool.close();
  });

  Deno.test("postgres: reads that wait while the server hangs fail as soon as those that were sent", async () => {
    await using proxy = new TcpProxy(url);
    const pool = new PostgresPool({ ...PATIENT, url: proxy.url, responseTimeoutMs: 500 }, 1);
    await until(() => readAs("large/first", pool).then(() => true, () => false));
    proxy.stall();
    const failed: string[] = [];
    const fail = (owner: string) =>
      assert.rejects(readAs(owner, pool), { code: "unavailable" }).then(() => failed.push(owner));
    const reads = Array.from({ length: 30 }, (_, n) => fail(`large/${n}`));
    await reads[0];
    // Sent at once, since it is of another tenant: it fails after all that were asked for before it.
    await Promise.all([...reads, fail("small/late")]);
    assert.equal(failed.at(-1), "small/late");
    proxy.resume();
    await pool.close();
  });

  Deno.test("postgres: a server that refuses the credentials is reported at once, by the name of the variable", async () => {
    await using own = await ownDatabase(url);
    const missing = new URL(own.url);
    missing.pathname = "/missing";
    const strange = new URL(own.url);
    strange.searchParams.set("no_such_setting", "on");
    await own.role("nologin");
    for (const refused of [missing.href, strange.href, own.url]) {
      await assert.rejects(
        openStore(refused, systemClock),
        /^Error: SVC_DATABASE_URL: the database cannot be used/,
        refused,
      );
    }
    await own.role("login");
    await own.database("allow_connections false");
    await assert.rejects(openStore(own.url, systemClock), { code: "unavailable" }, "it may let us in later");
  });

  Deno.test("postgres: a pooler that refuses the settings of a session is reported at once", async () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const fields = ["SFATAL", "C08P01", "Munsupported startup parameter: lock_timeout"];
    const error = new TextEncoder().encode(`E\0\0\0\0${fields.map((field) => `${field}\0`).join("")}\0`);
    new DataView(error.buffer).setUint32(1, error.length - 1);
    const refusing = (async () => {
      for await (const connection of listener) {
        await connection.read(new Uint8Array(1024));
        await connection.write(error);
        connection.close();
      }
    })();
    const opened = openStore(`postgres://user@127.0.0.1:${listener.addr.port}/any`, systemClock);
    await assert.rejects(opened, ({ cause }) => /directly, not through a pooler$/.test(cause.message));
    listener.close();
    await refusing;
  });

  Deno.test("postgres: readers whose access was revoked are unavailable, and read again once it is granted", async () => {
    await using own = await ownDatabase(url);
    const pool = new PostgresPool({ ...PATIENT, url: own.url, responseTimeoutMs: 500 }, 2);
    const read = () => pool.run("select 1 as one", []);
    for (
      const [shut, reopen] of [
        [() => own.role("nologin"), () => own.role("login")],
        [() => own.database("allow_connections false"), () => own.database("allow_connections true")],
      ] as const
    ) {
      await until(() => Promise.all([read(), read()]).then(() => true, () => false));
      await shut();
      for (let again = 0; again < 3; again++) await assert.rejects(read(), { code: "unavailable" });
      await reopen();
      await until(() => read().then(() => true, () => false));
    }
    await pool.close();
  });

  Deno.test("postgres: readers on connections that hang read on new ones after one timeout", async () => {
    // A busy machine takes longer than a short timeout for new connections, but not for ever.
    for (let timeoutMs = 1000; !await readsOnNewConnections(url, timeoutMs); timeoutMs *= 2) {
      assert.ok(timeoutMs < WAIT_MS / 4, `not after ${timeoutMs} ms`);
    }
  });

  Deno.test("postgres: a connection keeps nothing of what it was asked and has answered", async () => {
    const connection = new PostgresConnection({ ...PATIENT, url });
    const text = "x".repeat(10_000);
    await connection.begin();
    const before = Deno.memoryUsage().heapUsed;
    for (let round = 0; round < 200; round++) {
      await Promise.all(
        Array.from({ length: 100 }, () => connection.run("select $1::text as text", [`${round} ${text}`])),
      );
    }
    const grownBytes = Deno.memoryUsage().heapUsed - before;
    assert.ok(grownBytes < 100_000_000, `${grownBytes} bytes are left of the 200 MB that were answered`);
    await connection.rollback();
    await connection.close();
  });

  Deno.test("postgres: no statement is compiled, which would take longer than it runs", async () => {
    const pool = new PostgresPool({ ...PATIENT, url }, 1);
    assert.deepEqual((await pool.run("select current_setting('jit') as jit", [])).rows, [{ jit: "off" }]);
    await pool.close();
  });

  Deno.test("postgres: a server keeps few of the statements that lists of many lengths come to", async () => {
    const connection = new PostgresConnection({ ...PATIENT, url });
    await connection.begin();
    for (let length = 1; length <= 100; length++) {
      const list = Array.from({ length }, (_, at) => at);
      const { rows } = await connection.run(`select 1 where 0 in (${list.map((at) => `$${at + 1}`).join(", ")})`, list);
      assert.equal(rows.length, 1);
    }
    const { rows: [kept] } = await connection.run("select count(*) from pg_prepared_statements", []);
    assert.ok(Number(kept?.count) < 50, `${kept?.count} statements are kept`);
    await connection.rollback();
    await connection.close();
  });

  Deno.test("postgres: a node that starts waits for as long as another migrates the tables", async () => {
    const schema = await createTemporarySchema(url);
    const impatient = new URL(schema.url);
    impatient.searchParams.set("lock_timeout", "10");
    const begun = Promise.withResolvers<void>();
    let runs = 0;
    const slow: MigrationOwner = {
      name: "slow",
      migrations: [{
        name: "0001_baseline",
        async up(db) {
          runs++;
          begun.resolve();
          await sql`select pg_sleep(1.5)`.execute(db);
        },
      }],
    };
    const options = { clock: systemClock };
    const [first, second] = [openPostgresStore(schema.url, options), openPostgresStore(impatient.href, options)];
    const migrated = first.migrate([notes, slow]);
    await begun.promise;
    await second.migrate([notes, slow]);
    await migrated;
    assert.equal(runs, 1);
    await Promise.all([first.close(), second.close()]);
    await schema.drop();
  });

  Deno.test("postgres: a commit whose answer is lost is unavailable, never a success", async () => {
    await using proxy = new TcpProxy(url);
    const schema = await createTemporarySchema(proxy.url);
    const store = openPostgresStore<Notes>(schema.url, { clock: systemClock, writeConnections: 1 });
    await store.migrate([notes]);
    const other = openPostgresStore(schema.url, { clock: systemClock });
    await other.checkHealth();
    await other.close();
    let runs = 0;
    proxy.cutAfter("commit\0");
    await assert.rejects(
      store.write(async (tx) => {
        runs++;
        await tx.insertMany("note", [noteRow("unknown")]);
      }),
      { code: "unavailable", message: /may or may not have been saved/ },
    );
    assert.equal(runs, 1);
    await store.write((tx) => tx.insertMany("note", [noteRow("next")]));
    await store.close();
    await schema.drop();
  });
}

/** A database with a role of its own, either of which can be changed; connected clients have to connect again. */
async function ownDatabase(url: string) {
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  const admin = postgres(url, { max: 1, onnotice: () => {} });
  await admin.unsafe(`create role ${name} login`);
  await admin.unsafe(`create database ${name} owner ${name}`);
  const change = async (statement: string): Promise<void> => {
    await admin.unsafe(statement);
    const ended = await admin`select pid, pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
    const pids = ended.map(({ pid }) => Number(pid));
    // Until then they count as connections.
    await until(async () => (await admin`select 1 from pg_stat_activity where pid = any(${pids})`).length === 0);
  };
  const own = new URL(url);
  [own.username, own.pathname] = [name, `/${name}`];
  return {
    url: own.href,
    sessions: async () => (await admin`select 1 from pg_stat_activity where datname = ${name}`).length,
    role: (attribute: string) => change(`alter role ${name} ${attribute}`),
    database: (option: string) => change(`alter database ${name} ${option}`),
    async [Symbol.asyncDispose]() {
      await admin.unsafe(`drop database ${name} with (force)`);
      await admin.unsafe(`drop role ${name}`);
      await admin.end();
    },
  };
}

async function tablesLike(url: string, pattern: string): Promise<unknown[]> {
  const admin = postgres(url, { max: 1 });
  const rows = await admin`select tablename from pg_tables where tablename like ${pattern}`;
  await admin.end();
  return [...rows];
}

function readAs(
  owner: string,
  pool: PostgresPool,
  sql = "select 1",
  cpu = new CpuBudget({ percent: 10 }),
): Promise<unknown> {
  return chargeTo(cpu.accountOfKey(owner), () => pool.run(sql, []));
}

/** Whether a transaction that is open has written to a table. */
async function isWritten(url: string, table: string): Promise<boolean> {
  const admin = postgres(url, { max: 1 });
  const rows = await admin`select 1 from pg_locks where relation = ${table}::regclass and mode = 'RowExclusiveLock'`;
  await admin.end();
  return rows.length > 0;
}

/** Whether reads on connections that hang fail after this time, and those after them read on new connections within it. */
async function readsOnNewConnections(url: string, responseTimeoutMs: number): Promise<boolean> {
  await using proxy = new TcpProxy(url);
  const pool = new PostgresPool({ ...PATIENT, url: proxy.url, responseTimeoutMs }, 2);
  const read = (seconds: number) => pool.run("select 1 as one from pg_sleep($1)", [seconds]);
  await until(() => Promise.all([read(0.05), read(0.05)]).then(() => true, () => false));
  proxy.blackhole();
  const outcomes = await Promise.allSettled(Array.from({ length: 4 }, () => read(0)));
  for (const outcome of outcomes) {
    assert.equal(outcome.status === "rejected" && outcome.reason.code, "unavailable");
  }
  const again = await Promise.allSettled([read(0), read(0), read(0)]);
  await pool.close();
  for (const one of again) if (one.status === "fulfilled") assert.deepEqual(one.value.rows, [{ one: 1 }]);
  return again.every(({ status }) => status === "fulfilled");
}
