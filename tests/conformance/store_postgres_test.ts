// The store's suites on a PostgreSQL server, where TEST_POSTGRES_URL names one, and what only a server can go through.
import assert from "node:assert/strict";
import postgres from "postgres";
import { openPostgresStore } from "@/adapters/store_postgres.ts";
import { systemClock } from "@/core/clock.ts";
import { idempotencySuite } from "./idempotency_suite.ts";
import { jobSuite } from "./job_suite.ts";
import { type Notes, postgresServer, temporarySchema, testMigrations } from "./store_backends.ts";
import { draft, note, onStore, storeSuite } from "./store_suite.ts";
import { TcpProxy } from "./tcp_proxy.ts";

const url = Deno.env.get("TEST_POSTGRES_URL");
if (url !== undefined) {
  const backend = postgresServer(url);
  storeSuite(backend);
  jobSuite(backend);
  idempotencySuite(backend);

  onStore(backend, "a writer whose connection is ended runs again and counts once", async ({ store }) => {
    const admin = postgres(url, { max: 1 });
    let runs = 0;
    await store.write(async (tx) => {
      runs++;
      await tx.insertMany("note", [note("a")]);
      const own = await tx.db.selectNoFrom((row) => row.fn<number>("pg_backend_pid").as("pid"))
        .executeTakeFirstOrThrow();
      if (runs === 1) await admin`select pg_terminate_backend(${own.pid})`;
      await tx.emit(draft("room:1"));
    });
    await admin.end();
    assert.equal(runs, 2);
    assert.equal((await store.log.position("acme", "room:1")).head, 1);
  });

  onStore(backend, "writers that deadlock on rows all succeed", async ({ store }) => {
    await store.write((tx) => tx.insertMany("note", [note("a"), note("b")]));
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

  Deno.test("postgres: a server out of reach is unavailable at once, and used again when it is back", async () => {
    await using proxy = new TcpProxy(url);
    const schema = await temporarySchema(proxy.url);
    const store = openPostgresStore<Notes>(schema.url, { clock: systemClock, migrations: testMigrations });
    await store.migrate();
    await store.write((tx) => tx.insertMany("note", [note("before")]));

    proxy.refuse();
    const startedAt = performance.now();
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 20 }, (_, n) => store.write((tx) => tx.insertMany("note", [note(`lost${n}`)]))),
      store.db.selectFrom("note").selectAll().execute(),
    ]);
    for (const outcome of outcomes) {
      assert.equal(outcome.status === "rejected" && outcome.reason.code, "unavailable");
    }
    assert.ok(performance.now() - startedAt < 3000);

    proxy.accept();
    await store.write((tx) => tx.insertMany("note", [note("after")]));
    assert.deepEqual(await store.db.selectFrom("note").select("id").orderBy("id").execute(), [
      { id: "after" },
      { id: "before" },
    ]);
    await store.close();
    await schema.drop();
  });

  Deno.test("postgres: a commit whose answer is lost is unavailable, never a success", async () => {
    await using proxy = new TcpProxy(url);
    const schema = await temporarySchema(proxy.url);
    const store = openPostgresStore<Notes>(schema.url, {
      clock: systemClock,
      migrations: testMigrations,
      writeLanes: 1,
    });
    await store.migrate();
    let runs = 0;
    proxy.cutAfter("commit\0");
    await assert.rejects(
      store.write(async (tx) => {
        runs++;
        await tx.insertMany("note", [note("unknown")]);
      }),
      { code: "unavailable", message: /not known/ },
    );
    assert.equal(runs, 1);
    await store.write((tx) => tx.insertMany("note", [note("next")]));
    await store.close();
    await schema.drop();
  });
}
