// What becomes of a database whose program has other migrations, on each engine.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { migrations as core } from "@/adapters/store/migrations.ts";
import { restore } from "@/adapters/store/backup.ts";
import { migrateStore, openStore } from "@/adapters/open.ts";
import { systemClock } from "@/core/time/clock.ts";
import type { Migration, MigrationOwner } from "@/core/migration.ts";
import type { Store } from "@/ports/store.ts";
import { openGateway } from "../harness.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { type Notes, notes, postgresBackend, sqliteFile } from "./store_backends.ts";
import { postgresUrl } from "../tier.ts";

type Tables = Notes & { migration: { name: string } };

/** A step that only says that it ran. */
function step(ran: string[], name: string): Migration {
  return {
    name,
    up: (_db, dialect) => {
      ran.push(`${name} ${dialect}`);
      return Promise.resolve();
    },
  };
}

async function applied(store: unknown): Promise<string[]> {
  const { db } = store as Store<Tables>;
  return (await db.selectFrom("migration").select("name").orderBy("name").execute()).map(({ name }) => name);
}

const CORE = core.map(({ name }) => `core/${name}`);

for (const backend of postgresUrl === undefined ? [sqliteFile] : [sqliteFile, postgresBackend(postgresUrl)]) {
  const on = (name: string, run: (opened: Awaited<ReturnType<typeof backend.open>>) => Promise<void>): void =>
    Deno.test(`${backend.name}: ${name}`, async () => {
      await using opened = await backend.open();
      await run(opened);
    });

  on("steps are applied module by module, a missing one in its place, each once", async ({ store }) => {
    const ran: string[] = [];
    const [a1, a2, b1, b2] = ["0001_a", "0002_a", "0001_b", "0002_b"].map((name) => step(ran, name));
    assert.ok(a1 && a2 && b1 && b2);
    await store.migrate([notes, { name: "b", migrations: [b1] }]);
    const modules = [{ name: "a", migrations: [a1, a2] }, notes, { name: "none" }, { name: "b", migrations: [b1, b2] }];
    await store.migrate(modules);
    await store.migrate(modules);
    assert.deepEqual(ran, ["0001_b", "0001_a", "0002_a", "0002_b"].map((name) => `${name} ${store.dialect}`));
    assert.deepEqual(await applied(store), [
      "a/0001_a",
      "a/0002_a",
      "b/0001_b",
      "b/0002_b",
      ...CORE,
      "note/0001_baseline",
    ]);
  });

  on("the second step of a module changes its table and leaves what is in it", async ({ store, openSecond }) => {
    await store.write((tx) => tx.insertMany("note", [{ id: "a", body: "text", stars: 3 }]));
    const addColor: Migration = {
      name: "0002_add_color",
      async up(db) {
        await sql`alter table note add column color text not null default 'red'`.execute(db);
      },
    };
    const newer = openSecond();
    await newer.migrate([{ name: "note", migrations: [...notes.migrations, addColor] }]);
    const rows = await newer.db.selectFrom("note").selectAll().execute();
    assert.deepEqual(rows, [{ id: "a", body: "text", stars: 3, color: "red" }]);
    await newer.close();
    await assert.rejects(store.migrate([notes]), /newer than this gateway.*note\/0002_add_color/);
  });

  on("of steps of which one fails none is applied, and all are the next time", async ({ store, openSecond }) => {
    let isBroken = true;
    const more: MigrationOwner = {
      name: "more",
      migrations: [{
        name: "0001_baseline",
        up: (db) => db.schema.createTable("more").addColumn("id", "text").execute(),
      }, {
        name: "0002_fails",
        up: () => isBroken ? Promise.reject(new Error("broken")) : Promise.resolve(),
      }],
    };
    await assert.rejects(store.migrate([notes, more]), /broken/);
    assert.deepEqual(await applied(store), [...CORE, "note/0001_baseline"]);
    isBroken = false;
    const next = openSecond();
    await next.migrate([notes, more]);
    assert.deepEqual(await applied(next), [...CORE, "more/0001_baseline", "more/0002_fails", "note/0001_baseline"]);
    await next.close();
  });

  on("the core alone is migrated whatever modules there are, and refused where it is newer", async ({ store }) => {
    await store.migrate();
    assert.equal((await applied(store)).length, CORE.length + 1);
    const migrated = store as unknown as Store<{ migration: { name: string; at: string } }>;
    await migrated.write(({ db }) =>
      db.insertInto("migration").values({ name: "core/9999_newer", at: "now" }).execute()
    );
    await assert.rejects(store.migrate(), /newer than this gateway.*core\/9999_newer/);
  });
}

Deno.test("a gateway has the tables of each of its modules, by names that start with the module's", async () => {
  await using gateway = await openGateway();
  const { store, modules } = gateway.app;
  const expected = modules.flatMap(({ name, migrations = [] }) => migrations.map((own) => `${name}/${own.name}`));
  assert.deepEqual(await applied(store), [...CORE, ...expected].sort());
  for (const name of expected) assert.match(name, /^[a-z_]+\/\d{4}_[a-z_]+$/);
});

Deno.test("a database of which a module is newer is restored, and refused by the next start", async () => {
  await using folder = await createTemporaryFolder();
  const [path, copy] = [`${folder.path}/gateway.db`, `${folder.path}/copy.db`];
  const store = await openStore(`sqlite:${copy}`, systemClock);
  await migrateStore(store, [{ name: "room", migrations: [step([], "9999_newer")] }]);
  await store.close();
  await restore(`sqlite:${path}`, copy, systemClock);
  await assert.rejects(
    openGateway({ SVC_DATABASE_URL: `sqlite:${path}`, SVC_DATA_DIR: folder.path }),
    /^Error: SVC_DATABASE_URL: the database cannot be used/,
  );
});
