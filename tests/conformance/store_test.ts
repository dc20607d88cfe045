// The store's suites on SQLite.
import assert from "node:assert/strict";
import { CompiledQuery, type Kysely } from "kysely";
import { listDueJobs } from "@/adapters/job/queries.ts";
import type { CoreTables } from "@/adapters/store/core_tables.ts";
import { nextTick, systemClock } from "@/core/time/clock.ts";
import { openSqliteStore } from "@/adapters/store/sqlite/store.ts";
import type { Migration, MigrationOwner } from "@/core/migration.ts";
import { hasSmallDisk, SmallDisk } from "../fault/small_disk.ts";
import { captureLog } from "../log_capture.ts";
import { recordQueries } from "../modules/query_log.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { blockThread, pause } from "../wait.ts";
import { idempotencySuite } from "./idempotency_suite.ts";
import { jobSuite } from "./job_suite.ts";
import { type Notes, notes, openMigratedStore, sqliteFile, sqliteMemory } from "./store_backends.ts";
import { eventDraft, noteRow, storeSuite, testOnStore } from "./store_suite.ts";

for (const backend of [sqliteMemory, sqliteFile]) {
  storeSuite(backend);
  jobSuite(backend);
  idempotencySuite(backend);

  testOnStore(backend, "a lone writer commits within the turn it came in", async ({ store }) => {
    await pause(10);
    let turns = 0;
    const counter = setImmediate(() => turns++);
    await store.write((tx) => tx.emit(eventDraft("room:1")));
    clearImmediate(counter);
    assert.equal(turns, 0);
  });

  testOnStore(backend, "who writes page after page leaves everybody a turn between two of them", async ({ store }) => {
    const pages = 8;
    let [turns, isOver] = [0, false];
    const counting = (async () => {
      for (; !isOver; turns++) await nextTick();
    })();
    for (let page = 0; page < pages; page++) {
      await store.write(async (tx) => {
        // As long as a page with much on it.
        blockThread(5);
        await tx.emit(eventDraft("room:1"));
      });
    }
    isOver = true;
    await counting;
    assert.ok(turns >= pages - 1, `${turns} turns`);
  });
}

Deno.test("a database that was closed is one whole file, which only its owner reads", async () => {
  await using folder = await createTemporaryFolder();
  const store = await openMigratedStore(`sqlite:${folder.path}/gateway.db`, systemClock);
  await store.write((tx) => tx.emit(eventDraft("room:1")));
  assert.ok(Deno.readDirSync(folder.path).some(({ name }) => name.endsWith("-wal")));
  for (const { name } of Deno.readDirSync(folder.path)) {
    assert.equal((Deno.statSync(`${folder.path}/${name}`).mode ?? 0) & 0o077, 0, name);
  }
  await store.close();
  assert.deepEqual(Array.from(Deno.readDirSync(folder.path), ({ name }) => name), ["gateway.db"]);
  const again = await openMigratedStore(`sqlite:${folder.path}/gateway.db`, systemClock);
  assert.equal((await again.log.position("acme", "room:1")).head, 1);
  await again.close();
});

Deno.test({
  name: "to open a database a second time does not take away the first one's locks",
  // Where the system reports them.
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using folder = await createTemporaryFolder();
    const url = `sqlite:${folder.path}/gateway.db`;
    const first = await openMigratedStore(url, systemClock);
    const { ino } = await Deno.stat(`${folder.path}/gateway.db`);
    const isLocked = () => Deno.readTextFileSync("/proc/locks").includes(`:${ino} `);
    assert.ok(isLocked());
    const second = await openMigratedStore(url, systemClock);
    assert.ok(isLocked());
    await second.close();
    await first.close();
  },
});

Deno.test("a file that is not a database is refused by the name of its variable", async () => {
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(
    file,
    "a text that is as long as the head of a database, which has one hundred bytes, and then some more",
  );
  await assert.rejects(openMigratedStore(`sqlite:${file}`, systemClock), /SVC_DATABASE_URL/);
  await Deno.remove(file);
});

Deno.test("an older database logs each migration that it gets; a new one and a current one log none", async () => {
  await using folder = await createTemporaryFolder();
  const added: Migration = {
    name: "0002_added",
    async up(db) {
      await db.schema.alterTable("note").addColumn("added", "text").execute();
    },
  };
  const later = { name: "note", migrations: [...notes.migrations, added] };
  const said = (modules: readonly MigrationOwner[]) =>
    captureLog(["gateway", "store"], async () => {
      const store = openSqliteStore<Notes>(`${folder.path}/gateway.db`, { clock: systemClock });
      await store.migrate(modules);
      await store.close();
    });
  assert.deepEqual(await said([notes]), []);
  const [begun, ended, ...rest] = await said([later]);
  assert.deepEqual([begun?.properties.migration, typeof ended?.properties.ms, rest], ["note/0002_added", "number", []]);
  assert.deepEqual(await said([later]), []);
});

Deno.test({
  name: "a commit that finds no room on the disk is told as not saved, and is not",
  ignore: !hasSmallDisk,
  async fn() {
    await using disk = await SmallDisk.open(1024 * 1024, "root");
    const options = { clock: systemClock };
    const store = openSqliteStore<Notes>(`${disk.folder}/gateway.db`, options);
    await store.migrate([notes]);
    await disk.fill();
    const body = "x".repeat(100_000);
    await assert.rejects(
      store.write((tx) => tx.insertMany("note", [{ ...noteRow("a"), body }])),
      { code: "unavailable", message: "The disk is full: the change was not saved" },
    );
    await disk.free();
    await store.write((tx) => tx.insertMany("note", [noteRow("b")]));
    assert.deepEqual(await store.db.selectFrom("note").select("id").execute(), [{ id: "b" }]);
    await store.close();
  },
});

Deno.test("jobs whose process ended while they ran are found without reading those that wait", async () => {
  await using opened = await sqliteMemory.open();
  const db = opened.store.db as unknown as Kysely<CoreTables>; // these tables are in every store
  const runner = { nowMs: 0, owner: "runner", runningIds: [] };
  const wanted = { ...runner, kinds: ["count"], revivedKinds: [], isSuspect: true, earliest: "" };
  const [statement] = await recordQueries(() => listDueJobs(db, wanted, { except: [], exceptTenants: [], limit: 1 }));
  const { sql = "", parameters = [] } = statement ?? {};
  const plan = await db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]),
  );
  const searches = plan.rows.flatMap(({ detail }) => detail.startsWith("SEARCH job") ? [detail] : []);
  assert.deepEqual(searches, [
    "SEARCH job USING INDEX job_suspect (state=? AND run_at<?)",
    "SEARCH job USING INDEX job_due (state=?)",
  ]);
});
