// Cached results of SQLite: whatever happens, a cached query returns what it would return if it ran again.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import type { Kysely } from "kysely";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import { type Notes, sqliteFile, sqliteMemory } from "./store_backends.ts";
import { noteRow, testOnStore } from "./store_suite.ts";

const IDS = ["a", "b", "c"];

function byId(options?: { cacheable: boolean }) {
  return prepared(
    (db: Kysely<Notes>, param: Param<{ id: string }>) =>
      db.selectFrom("note").select(["id", "stars"]).where("id", "=", param("id")),
    options,
  );
}

const cached = byId({ cacheable: true });
const uncached = byId();
const cachedCount = prepared(
  (db: Kysely<Notes>, _: Param<Record<string, never>>) =>
    db.selectFrom("note").select(({ fn }) => fn.countAll<number>().as("n")),
  { cacheable: true },
);

class Rollback extends Error {}

const id = fc.constantFrom(...IDS);
const change = fc.oneof(
  fc.record({ kind: fc.constant("add" as const), id }),
  fc.record({ kind: fc.constant("drop" as const), id }),
  fc.record({ kind: fc.constant("rate" as const), id, stars: fc.nat(3) }),
  fc.record({ kind: fc.constant("word" as const), id }),
  fc.record({ kind: fc.constant("look" as const), id }),
);
/** What one writer does: `isUndone` throws at its end, `isInner` runs it in a savepoint that is undone alone. */
const writer = fc.record({
  changes: fc.array(change, { maxLength: 4 }),
  isUndone: fc.boolean(),
  isInner: fc.boolean(),
});

for (const backend of [sqliteMemory, sqliteFile]) {
  testOnStore(backend, "what is kept is what would be read", async ({ store }) => {
    const agree = async (db: Kysely<Notes>): Promise<void> => {
      for (const id of IDS) assert.deepEqual(await cached.all(db, { id }), await uncached.all(db, { id }));
      const notes = await db.selectFrom("note").select("id").execute();
      assert.equal((await cachedCount.first(db, {}))?.n, notes.length);
    };
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(writer, { maxLength: 3 }), { maxLength: 5 }), async (batches) => {
        for (const writers of batches) {
          // At once, so that they share a commit.
          const running = writers.map(({ changes, isUndone, isInner }) =>
            store.write(async (outer) => {
              const work = async ({ db }: Pick<typeof outer, "db">): Promise<void> => {
                for (const change of changes) {
                  const { id } = change;
                  if (change.kind === "add") {
                    await db.insertInto("note").values(noteRow(id)).onConflict((row) => row.doNothing()).execute();
                  } else if (change.kind === "drop") await db.deleteFrom("note").where("id", "=", id).execute();
                  else if (change.kind === "rate") {
                    await db.updateTable("note").set({ stars: change.stars }).where("id", "=", id).execute();
                  } else if (change.kind === "word") {
                    await db.updateTable("note").set({ body: "other" }).where("id", "=", id).execute();
                  }
                  await agree(db);
                }
                if (isUndone) throw new Rollback();
              };
              if (isInner) await store.write(work).catch((error) => assert(error instanceof Rollback));
              else await work(outer);
              await agree(outer.db);
            }).catch((error) => assert(error instanceof Rollback))
          );
          await agree(store.db);
          await Promise.all(running);
          await agree(store.db);
        }
      }),
      { numRuns: 60 },
    );
  });

  testOnStore(
    backend,
    "an answer is kept while other columns are written, and nobody can change it",
    async ({ store }) => {
      await store.write((tx) => tx.insertMany("note", [noteRow("a")]));
      const before = await cached.first(store.db, { id: "a" });
      await store.write(({ db }) => db.updateTable("note").set({ body: "other" }).execute());
      assert.equal(await cached.first(store.db, { id: "a" }), before);
      assert.ok(Object.isFrozen(before));
      await store.write(({ db }) => db.updateTable("note").set({ stars: 5 }).execute());
      assert.deepEqual(await cached.first(store.db, { id: "a" }), { id: "a", stars: 5 });
    },
  );
}
