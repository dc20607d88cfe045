// What every store does, whatever engine is under it.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import fc from "npm:fast-check@4.10.2";
import { type Kysely, sql } from "kysely";
import { SqlStore } from "@/adapters/store/sql_store.ts";
import { defineSignal, type EventDraft, type StoredEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { type CommitResult, streamKey, type Transaction, UniqueViolation } from "@/ports/store.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import { pause, stopTime } from "../wait.ts";
import { type Backend, type Notes, notes, type OpenedStore } from "./store_backends.ts";

export const noteRow = (id: string): Notes["note"] => ({ id, body: `body of ${id}`, stars: 1 });

export const eventDraft = (stream: string, data: unknown = {}): EventDraft => ({
  tenantId: "acme",
  stream,
  type: "note.created",
  actor: { principalId: "alice", kind: "human" },
  data,
});

const tested = defineSignal("test");
const jobDraft = (n: number) => ({ tenantId: "acme", kind: "index", payload: { n } });

/** Registers a test on a fresh store of `backend`. */
/** Without anybody who is charged: the runtime may begin a test in the async context that the one before it ended in. */
const inEmptyContext = AsyncLocalStorage.snapshot();

export function testOnStore(backend: Backend, name: string, run: (opened: OpenedStore) => Promise<void>): void {
  Deno.test({
    name: `${backend.name}: ${name}`,
    // The engine inside the process keeps timers of its own.
    ...(backend.hasOwnTimers ? { sanitizeOps: false, sanitizeResources: false } : {}),
    fn: () =>
      inEmptyContext(async () => {
        await using opened = await backend.open();
        await run(opened);
      }),
  });
}

function recordCommits({ store }: OpenedStore): CommitResult[] {
  const told: CommitResult[] = [];
  store.onCommit = (committed) => void told.push(committed);
  return told;
}

async function noteIds({ store }: OpenedStore): Promise<string[]> {
  const rows = await store.db.selectFrom("note").select("id").orderBy("id").execute();
  return rows.map((row) => row.id);
}

async function addNote(tx: Transaction<Notes>, id: string): Promise<void> {
  await tx.db.insertInto("note").values(noteRow(id)).execute();
}

/** Fails unless the log of `stream` is 1, 2, 3 … up to its head; returns it. */
async function readGaplessLog({ store }: OpenedStore, stream: string): Promise<StoredEvent[]> {
  const { head } = await store.log.position("acme", stream);
  const events = await store.log.read("acme", stream, 0, head + 10);
  assert.deepEqual(events.map((event) => event.seq), Array.from({ length: head }, (_, index) => index + 1));
  return events;
}

export function storeSuite(backend: Backend): void {
  const on = (name: string, run: (opened: OpenedStore) => Promise<void>): void => testOnStore(backend, name, run);

  on("write commits rows and events together, and tells the events afterwards", async (opened) => {
    const { store } = opened;
    const seen: string[][] = [];
    const told: CommitResult[] = [];
    store.onCommit = (committed) => void told.push(committed);
    const result = await store.write(async (tx) => {
      await addNote(tx, "a");
      const events = await tx.emit(
        eventDraft("room:1", { a: 1 }),
        eventDraft("principal:2"),
        eventDraft("room:1", { b: 2 }),
      );
      seen.push(events.map((event) => `${event.stream} ${event.seq}`));
      assert.equal(told.length, 0);
      return "done";
    });
    assert.equal(result, "done");
    assert.deepEqual(seen, [["room:1 1", "principal:2 1", "room:1 2"]]);
    assert.deepEqual(await noteIds(opened), ["a"]);
    assert.equal(told.length, 1);
    const [first, second] = await readGaplessLog(opened, "room:1");
    assert.deepEqual(told[0]?.events.filter((event) => event.stream === "room:1"), [first, second]);
    const publication = JSON.parse(first?.json ?? "");
    assert.match(publication.id, /^evt_/);
    assert.deepEqual(publication, {
      id: publication.id,
      type: "note.created",
      at: "2026-01-01T00:00:00.000Z",
      actor: { id: "alice", kind: "human" },
      data: { a: 1 },
    });
    assert.equal(first?.epoch, second?.epoch);
  });

  on("a writer that throws is undone alone, whatever it wrote", async (opened) => {
    const told = recordCommits(opened);
    const { store } = opened;
    const outcomes = await Promise.allSettled([1, 2, 3, 4, 5].map((n) =>
      store.write(async (tx) => {
        await addNote(tx, `n${n}`);
        await tx.emit(eventDraft("room:1", { n }));
        await tx.enqueue(jobDraft(n));
        tx.signal(tested.create("acme", String(n)));
        if (n % 2 === 1) throw new Fault("conflict", `No ${n}`);
      })
    ));
    assert.deepEqual(outcomes.map((outcome) => outcome.status === "rejected" && outcome.reason.message), [
      "No 1",
      false,
      "No 3",
      false,
      "No 5",
    ]);
    assert.deepEqual(await noteIds(opened), ["n2", "n4"]);
    const events = await readGaplessLog(opened, "room:1");
    assert.deepEqual(events.map((event) => JSON.parse(event.json).data.n).sort(), [2, 4]);
    assert.deepEqual(told.flatMap((committed) => committed.events.map((event) => event.seq)), [1, 2]);
    assert.deepEqual(told.flatMap((committed) => committed.signals.map((signal) => signal.id)).sort(), ["2", "4"]);
    assert.equal(told.reduce((sum, committed) => sum + committed.jobs, 0), 2);
  });

  on("streams stay whole under 200 concurrent writers of which many fail", async (opened) => {
    const told = recordCommits(opened);
    const { store } = opened;
    const isFailing = (n: number): boolean => n % 3 === 0;
    const streams = ["room:1", "room:2", "room:3"];
    const outcomes = await Promise.allSettled(Array.from({ length: 200 }, (_, n) =>
      store.write(async (tx) => {
        if (n % 2 === 0) await addNote(tx, `n${n}`);
        await tx.emit(eventDraft(streams[n % 3] ?? "", { n }), eventDraft("room:all", { n }));
        if (n % 5 === 0) await pause(0);
        if (isFailing(n)) throw new Error("refused");
      })));
    const kept = outcomes.flatMap((outcome, n) => outcome.status === "fulfilled" ? [n] : []);
    assert.deepEqual(kept, Array.from({ length: 200 }, (_, n) => n).filter((n) => !isFailing(n)));
    const all = await readGaplessLog(opened, "room:all");
    assert.deepEqual(all.map((event) => JSON.parse(event.json).data.n).sort((a, b) => a - b), kept);
    for (const stream of [...streams, "room:all"]) {
      const heard = told.flatMap((committed) => committed.events).filter((event) => event.stream === stream);
      assert.deepEqual(heard, await readGaplessLog(opened, stream), `${stream} was told in order`);
    }
  });

  on("writers that lock streams in opposite orders all succeed", async (opened) => {
    const { store } = opened;
    await Promise.all(Array.from({ length: 60 }, (_, n) =>
      store.write(async (tx) => {
        const [first, second] = n % 2 === 0 ? ["room:a", "room:b"] : ["room:b", "room:a"];
        await tx.emit(eventDraft(first ?? ""));
        await tx.emit(eventDraft(second ?? ""));
      })));
    assert.equal((await readGaplessLog(opened, "room:a")).length, 60);
    assert.equal((await readGaplessLog(opened, "room:b")).length, 60);
  });

  on("a write inside a write is a savepoint of it", async (opened) => {
    const told = recordCommits(opened);
    const { store } = opened;
    await store.write(async (outer) => {
      await addNote(outer, "outer");
      await store.write(async (tx) => {
        await addNote(tx, "kept");
        await tx.emit(eventDraft("room:1", "kept"));
      });
      await assert.rejects(
        store.write(async (tx) => {
          await addNote(tx, "undone");
          // The outer handle, used in here, is undone along with the rest.
          await outer.emit(eventDraft("room:1", "undone"));
          await tx.enqueue(jobDraft(1));
          tx.signal(tested.create("acme", "undone"));
          throw new Error("inner");
        }),
        { message: "inner" },
      );
      await outer.emit(eventDraft("room:1", "last"));
    });
    assert.deepEqual(await noteIds(opened), ["kept", "outer"]);
    const events = await readGaplessLog(opened, "room:1");
    assert.deepEqual(events.map((event) => JSON.parse(event.json).data), ["kept", "last"]);
    assert.deepEqual(told, [{ events, signals: [], jobs: 0 }]);
  });

  on("an outer write that fails takes its inner writes with it", async (opened) => {
    const told = recordCommits(opened);
    const { store } = opened;
    await assert.rejects(store.write(async () => {
      await store.write(async (tx) => {
        await addNote(tx, "inner");
        await tx.emit(eventDraft("room:1"));
      });
      throw new Error("outer");
    }));
    assert.deepEqual(await noteIds(opened), []);
    assert.deepEqual(told, []);
    assert.equal((await store.log.position("acme", "room:1")).head, 0);
  });

  on("inner writes that run at once take turns, and one of them fails alone", async (opened) => {
    const { store } = opened;
    await store.write(async (outer) => {
      const inner = ["a", "b", "c"].map((id) =>
        store.write(async (tx) => {
          await addNote(tx, id);
          await pause(1);
          await tx.emit(eventDraft("room:1", id));
          if (id === "b") throw new Error("refused");
        })
      );
      const meanwhile = addNote(outer, "outer");
      const outcomes = await Promise.allSettled([...inner, meanwhile]);
      assert.deepEqual(outcomes.map((outcome) => outcome.status), ["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    });
    assert.deepEqual(await noteIds(opened), ["a", "c", "outer"]);
    const events = await readGaplessLog(opened, "room:1");
    assert.deepEqual(events.map((event) => JSON.parse(event.json).data), ["a", "c"]);
  });

  on("nobody sees what a running write has written", async (opened) => {
    const { store } = opened;
    const { promise: written, resolve } = Promise.withResolvers<void>();
    const failing = store.write(async (tx) => {
      await addNote(tx, "ghost");
      await tx.emit(eventDraft("room:1"));
      resolve();
      await pause(20);
      throw new Error("refused");
    });
    const refused = assert.rejects(failing, { message: "refused" });
    await written;
    assert.deepEqual(await noteIds(opened), []);
    assert.deepEqual(await store.log.read("acme", "room:1", 0, 10), []);
    await refused;
  });

  on("what reads the store inside a write joins its transaction, or is refused", async (opened) => {
    const { store } = opened;
    const was = SqlStore.readsInsideWrites;
    const readInside = (id: string): Promise<string[]> =>
      store.write(async (tx) => {
        await addNote(tx, id);
        return await noteIds(opened);
      });
    try {
      SqlStore.readsInsideWrites = "join";
      assert.deepEqual(await readInside("joined"), ["joined"]);
      SqlStore.readsInsideWrites = "refuse";
      const refused = /^Expected a read through the transaction inside a write/;
      await assert.rejects(readInside("refused"), { message: refused });
      await assert.rejects(store.write(() => store.log.read("acme", "room:1", 0, 10)), { message: refused });
      await assert.rejects(store.write(() => store.write(() => noteIds(opened))), { message: refused });
      const ids = await store.write(({ db }) => db.selectFrom("note").select("id").execute());
      assert.deepEqual(ids, [{ id: "joined" }]);
      assert.deepEqual(await noteIds(opened), ["joined"]);
    } finally {
      SqlStore.readsInsideWrites = was;
    }
  });

  on(
    "what an enclosed work reads of the store and writes is its transaction's, save reads inside its writes",
    async (opened) => {
      const { store } = opened;
      const was = SqlStore.readsInsideWrites;
      const enclosed = (then: () => Promise<void>): Promise<void> =>
        store.enclose(async () => {
          await store.write(async (tx) => {
            await addNote(tx, "mine");
            await tx.emit(eventDraft("room:1"));
          });
          assert.deepEqual(await noteIds(opened), ["mine"]);
          assert.equal((await store.log.read("acme", "room:1", 0, 10)).length, 1);
          await then();
        });
      try {
        SqlStore.readsInsideWrites = "refuse";
        const undo = new Error("undone");
        await assert.rejects(enclosed(() => Promise.reject(undo)), undo);
        assert.deepEqual(await noteIds(opened), []);
        assert.deepEqual(await store.log.read("acme", "room:1", 0, 10), []);
        await enclosed(async () => {
          const reading = store.write(() => noteIds(opened));
          await assert.rejects(reading, { message: /^Expected a read through the transaction inside a write/ });
        });
        assert.deepEqual(await noteIds(opened), ["mine"]);
      } finally {
        SqlStore.readsInsideWrites = was;
      }
    },
  );

  on("writers that wait together share commits", async ({ store }) => {
    const before = { ...store.commits };
    // A batch takes no more writers after some time.
    using _time = stopTime();
    await Promise.all(Array.from({ length: 100 }, (_, n) => store.write((tx) => addNote(tx, `n${n}`))));
    assert.equal(store.commits.writers - before.writers, 100);
    const batches = store.commits.batches - before.batches;
    assert.ok(batches <= 50, `100 writers took ${batches} commits`);
  });

  on("a statement that fails dooms its work, and an inner write is the way to try one", async (opened) => {
    const { store } = opened;
    await store.write((tx) => addNote(tx, "taken"));
    await assert.rejects(
      store.write(async (tx) => {
        await addNote(tx, "a");
        await addNote(tx, "taken").catch(() => {});
        await addNote(tx, "b");
      }),
      UniqueViolation,
    );
    await assert.rejects(store.write((tx) => addNote(tx, "taken").catch(() => {})), UniqueViolation);
    await store.write(async (tx) => {
      await assert.rejects(store.write((inner) => addNote(inner, "taken")), UniqueViolation);
      await addNote(tx, "c");
    });
    assert.deepEqual(await noteIds(opened), ["c", "taken"]);
  });

  on("a unique key is a UniqueViolation on every path", async ({ store }) => {
    await store.write((tx) => tx.insertMany("note", [noteRow("a"), noteRow("b")]));
    await assert.rejects(store.write((tx) => tx.insertMany("note", [noteRow("c"), noteRow("a")])), UniqueViolation);
    await assert.rejects(
      store.write((tx) => tx.db.updateTable("note").set({ id: "a" }).where("id", "=", "b").execute()),
      UniqueViolation,
    );
  });

  on("insertMany writes each of any number of rows, and a bad one among them undoes all", async (opened) => {
    const { store } = opened;
    const written: string[] = [];
    for (const count of [1, 7, 8, 9, 16, 61]) {
      const ids = Array.from({ length: count }, (_, at) => `n${count}-${String(at).padStart(2, "0")}`);
      await store.write((tx) => tx.insertMany("note", ids.map(noteRow)));
      written.push(...ids);
      for (const place of new Set([0, Math.floor(count / 2), count - 1])) {
        const others = ids.map((_, at) => noteRow(at === place ? ids[place] ?? "" : `x${at}`));
        await assert.rejects(store.write((tx) => tx.insertMany("note", others)), UniqueViolation);
      }
    }
    assert.deepEqual(await noteIds(opened), written.toSorted());
  });

  on("insertMany keeps every value as it is, however rows are mixed", async ({ store }) => {
    const unit = fc.constantFrom("\x1f", "\x1f,", "\x1e", ",", '"', "\\", "{", "}", "\n", "NULL", "ü", "😀", "a");
    const body = fc.oneof(fc.constant(null), fc.string({ unit, maxLength: 6 }));
    const stars = fc.oneof(fc.constant(1), fc.integer(), fc.maxSafeInteger(), fc.boolean(), fc.bigInt(-9n, 9n));
    const some = fc.array(fc.record({ body, stars }), { minLength: 1, maxLength: 9 });
    let count = 0;
    await fc.assert(
      fc.asyncProperty(some, async (values) => {
        const rows = values.map((value) => ({ id: `n${String(count++).padStart(9, "0")}`, ...value }));
        // The types forbid some of these values, which a driver takes.
        await store.write((tx) => tx.insertMany("note", rows as Notes["note"][]));
        const found = await store.db.selectFrom("note").select(["id", "body", "stars"])
          .where("id", ">=", rows[0]?.id ?? "").orderBy("id").execute();
        assert.deepEqual(found, rows.map((row) => ({ ...row, stars: Number(row.stars) })));
      }),
      { numRuns: 100 },
    );
  });

  on("insertMany writes rows that are alike, whatever came before", async ({ store }) => {
    await store.write(({ db }) => sql`create table plain (body text, stars integer)`.execute(db));
    const put = (...rows: Record<string, unknown>[]) =>
      store.write((tx) => tx.insertMany("plain" as keyof Notes & string, rows));
    await put({ body: null, stars: 1 }, { body: null, stars: 1 });
    await put({ body: "a", stars: 2 }, { body: "a", stars: 2 });
    await put({ body: "b", stars: null }, { body: "", stars: 3 });
    const { rows } = await sql`select body, stars from plain`.execute(store.db);
    assert.deepEqual(rows.map((row) => Object.values(row as Record<string, unknown>)), [
      [null, 1],
      [null, 1],
      ["a", 2],
      ["a", 2],
      ["b", null],
      ["", 3],
    ]);
  });

  on("reserved seqs are numbered on and must be appended", async (opened) => {
    const told = recordCommits(opened);
    const { store } = opened;
    await store.write(async (tx) => {
      await tx.emit(eventDraft("room:1"));
      const { epoch, first } = await tx.reserve("acme", "room:1", 3);
      assert.equal(first, 2);
      // Emitted before the reserved ones are there, and published after them.
      await tx.emit(eventDraft("room:1"));
      await tx.insertMany("note", [0, 1, 2].map((n) => noteRow(`n${n}`)));
      await tx.append([0, 1, 2].map((n) => ({
        tenantId: "acme",
        stream: "room:1",
        epoch,
        seq: first + n,
        type: "note.created",
        json: `{"n":${n}}`,
      })));
    });
    const events = await readGaplessLog(opened, "room:1");
    assert.equal(events.length, 5);
    assert.deepEqual(told[0]?.events, events);
    assert.deepEqual(await noteIds(opened), ["n0", "n1", "n2"]);
    await assert.rejects(store.write((tx) => tx.reserve("acme", "room:1", 1)), /reserved seqs/);
    assert.equal((await readGaplessLog(opened, "room:1")).length, 5);
  });

  on("values are the same on every engine, and those an engine would misread are refused", async ({ store }) => {
    const insert = (values: Record<string, unknown>): Promise<unknown> =>
      // The types forbid these values; an error at run time would pass them.
      store.write((tx) => tx.db.insertInto("note").values(values as Notes["note"]).execute());
    await insert({ id: "a", body: null, stars: true });
    await insert({ id: "b", body: "ü😀\n\"'", stars: 2 ** 40 });
    await store.write((tx) => tx.insertMany("note", [{ id: "c", body: "ü😀\n\"'", stars: false }]));
    assert.deepEqual(await store.db.selectFrom("note").selectAll().orderBy("id").execute(), [
      { id: "a", body: null, stars: 1 },
      { id: "b", body: "ü😀\n\"'", stars: 2 ** 40 },
      { id: "c", body: "ü😀\n\"'", stars: 0 },
    ]);
    for (const bad of [new Date(), { x: 1 }, ["x"]]) {
      await assert.rejects(insert({ id: "x", body: bad, stars: 1 }), TypeError);
      await assert.rejects(
        store.write((tx) => tx.insertMany("note", [{ id: "x", body: bad, stars: 1 }])),
        TypeError,
      );
    }
    await assert.rejects(
      store.write((tx) => tx.insertMany("note", [noteRow("x"), { id: "y", body: null }])),
      TypeError,
    );
    await assert.rejects(
      store.db.selectFrom("note").selectAll().where("id", "=", new Date() as never).execute(),
      TypeError,
    );
  });

  on("counts and changed rows are numbers", async ({ store }) => {
    await store.write((tx) => tx.insertMany("note", [noteRow("a"), noteRow("b")]));
    const counted = await store.db.selectFrom("note")
      .select((row) => [row.fn.countAll<number>().as("count"), row.fn.sum<number>("stars").as("sum")])
      .executeTakeFirst();
    assert.deepEqual(counted, { count: 2, sum: 2 });
    const changed = await store.write((tx) => tx.db.updateTable("note").set({ stars: 5 }).executeTakeFirst());
    assert.equal(changed.numUpdatedRows, 2n);
  });

  on("many streams are reserved at once, by writers who want them in any order", async ({ store }) => {
    const names = Array.from({ length: 12 }, (_, n) => `room:${n}`);
    const write = (turn: number): Promise<void> =>
      store.write(async (tx) => {
        // Two takes of some of the streams, one after the other, as two writers of one batch have them.
        for (const part of [names.slice(turn % 6), names.slice(0, 1 + turn % 12)]) {
          const counts = new Map(part.toReversed().map((name, n) => [name, 1 + n % 3]));
          const reserved = await tx.reserveAll("acme", counts);
          assert.deepEqual(new Set(reserved.keys()), new Set(part));
          await tx.append([...reserved].flatMap(([stream, { epoch, first }]) =>
            Array.from({ length: counts.get(stream) ?? 0 }, (_, n) => ({
              tenantId: "acme",
              stream,
              epoch,
              seq: first + n,
              type: "note.created",
              json: "{}",
            }))
          ));
        }
      });
    await Promise.all(Array.from({ length: 24 }, (_, turn) => write(turn)));
    for (const name of names) {
      const { head } = await store.log.position("acme", name);
      const events = await store.log.read("acme", name, 0, 1000);
      assert.deepEqual(events.map(({ seq }) => seq), Array.from({ length: head }, (_, n) => n + 1));
      assert.ok(head > 24);
    }
  });

  on("streams are told in order, whether writers take them one after the other or at once", async (opened) => {
    const { store } = opened;
    const told = new Map<string, StoredEvent[]>();
    store.onCommit = ({ events }) => {
      for (const event of events) told.set(event.stream, [...told.get(event.stream) ?? [], event]);
    };
    const streams = ["room:1", "room:2", "room:3", "room:4"];
    await store.write((tx) => tx.emit(...streams.map((stream) => eventDraft(stream))));
    const write = (turn: number): Promise<void> =>
      store.write(async (tx) => {
        const part = streams.map((_, at) => streams[(at + turn) % streams.length] ?? "").slice(0, 1 + turn % 3);
        if (turn % 2 === 0) { for (const stream of part) await tx.emit(eventDraft(stream)); }
        else {
          const reserved = await tx.reserveAll("acme", new Map(part.map((stream) => [stream, 1])));
          await tx.append([...reserved].map(([stream, { epoch, first: seq }]) => ({
            tenantId: "acme",
            stream,
            epoch,
            seq,
            type: "note.created",
            json: "{}",
          })));
        }
        if (turn % 5 === 0) throw new Fault("conflict", "Undone");
      });
    for (let round = 0; round < 8; round++) {
      await Promise.allSettled(Array.from({ length: 30 }, (_, turn) => write(round + turn)));
    }
    for (const stream of streams) assert.deepEqual(told.get(stream), await readGaplessLog(opened, stream), stream);
  });

  on("places of streams that are there are given back, and no others made", async (opened) => {
    const { store } = opened;
    await store.write((tx) => tx.emit(eventDraft("room:1")));
    await store.write(async (tx) => {
      const [there, isOnly] = ["room:1", { begins: false }];
      const reserved = await tx.reserveAll("acme", new Map([[there, 3], ["room:none", 2]]), isOnly);
      assert.deepEqual([...reserved.keys()], [there]);
      assert.equal(reserved.get(there)?.first, 2);
      await tx.reserveAll("acme", new Map([[there, -2], ["room:none", -2]]), isOnly);
      const { epoch = "", first: seq = 0 } = reserved.get(there) ?? {};
      await tx.append([{ tenantId: "acme", stream: there, epoch, seq, type: "note.created", json: "{}" }]);
      await tx.emit(eventDraft(there));
    });
    assert.deepEqual((await readGaplessLog(opened, "room:1")).map(({ seq }) => seq), [1, 2, 3]);
    await assert.rejects(
      store.write((tx) => tx.reserveAll("acme", new Map([["room:1", 1]]), { begins: false })),
      /1 are missing/,
    );
    assert.equal((await store.log.heads([{ tenantId: "acme", stream: "room:none" }])).size, 0);
  });

  on("a prepared query takes new values each time, on committed state and in a transaction", async ({ store }) => {
    const byStars = prepared((db: Kysely<Notes>, param: Param<{ stars: number; limit: number }>) =>
      db.selectFrom("note").select(["id", "stars"]).where("stars", ">=", param("stars")).orderBy("id")
        .limit(param("limit"))
    );
    const rate = prepared((db: Kysely<Notes>, param: Param<{ id: string; stars: number }>) =>
      db.updateTable("note").set({ stars: param("stars") }).where("id", "=", param("id"))
    );
    await store.write(async (tx) => {
      await tx.insertMany("note", [noteRow("a"), noteRow("b"), noteRow("c")]);
      assert.equal(await rate.run(tx.db, { id: "b", stars: 2 }), 1);
      assert.equal(await rate.run(tx.db, { id: "none", stars: 2 }), 0);
      assert.deepEqual(await byStars.first(tx.db, { stars: 2, limit: 5 }), { id: "b", stars: 2 });
    });
    assert.equal((await byStars.all(store.db, { stars: 1, limit: 2 })).length, 2);
    assert.equal(await byStars.first(store.db, { stars: 3, limit: 2 }), undefined);
  });

  on("a transaction is of no use after its work has ended", async ({ store }) => {
    const kept = await store.write((tx) => Promise.resolve({ tx }));
    await assert.rejects(addNote(kept.tx, "late"), /has ended/);
    await assert.rejects(kept.tx.emit(eventDraft("room:1")), /has ended/);
  });

  on("the log gives positions, heads and pages in both directions", async ({ store }) => {
    const unwritten = await store.log.position("acme", "room:new");
    assert.equal(unwritten.head, 0);
    assert.deepEqual(await store.log.position("acme", "room:new"), unwritten);
    assert.notEqual(unwritten.epoch, "");
    await store.write((tx) => tx.emit(...[1, 2, 3, 4, 5].map((n) => eventDraft("room:1", n)), eventDraft("room:new")));
    assert.deepEqual(await store.log.position("acme", "room:new"), { ...unwritten, head: 1 });
    const wanted = [["acme", "room:1"], ["acme", "room:new"], ["acme", "room:none"], ["other", "room:1"]];
    const heads = await store.log.heads(wanted.map(([tenantId = "", stream = ""]) => ({ tenantId, stream })));
    assert.deepEqual([...heads.keys()].sort(), [streamKey("acme", "room:1"), streamKey("acme", "room:new")]);
    assert.deepEqual(heads.get("acme/room:1"), await store.log.position("acme", "room:1"));
    const seqs = (events: StoredEvent[]): number[] => events.map((event) => event.seq);
    assert.deepEqual(seqs(await store.log.read("acme", "room:1", 2, 2)), [3, 4]);
    assert.deepEqual(seqs(await store.log.readBackward("acme", "room:1", 4, 2)), [3, 2]);
    assert.deepEqual(await store.log.read("other", "room:1", 0, 10), []);
  });

  on("an event keeps its effect", async (opened) => {
    const effect = { kind: "evict", principalIds: ["bob"], reason: "removed" } as const;
    const [emitted] = await opened.store.write((tx) =>
      tx.emit({ ...eventDraft("room:1"), effect }, eventDraft("room:1"))
    );
    const [stored, plain] = await readGaplessLog(opened, "room:1");
    assert.deepEqual(stored, emitted);
    assert.deepEqual(stored?.effect, effect);
    assert.equal("effect" in (plain ?? {}), false);
  });

  on("trim drops by count and by age, and moves the floor", async ({ store, clock }) => {
    const emit = (stream: string, count: number): Promise<unknown> =>
      store.write((tx) => tx.emit(...Array.from({ length: count }, (_, n) => eventDraft(stream, n))));
    await emit("room:long", 2500);
    await emit("room:old", 3);
    clock.ms += 60_000;
    await emit("room:old", 2);
    await emit("room:new", 2);
    assert.equal(await store.log.trim(0, 100), 2400);
    assert.deepEqual({ ...await store.log.position("acme", "room:long"), epoch: "" }, {
      epoch: "",
      head: 2500,
      floor: 2400,
    });
    assert.equal((await store.log.read("acme", "room:long", 0, 1000))[0]?.seq, 2401);
    assert.equal(await store.log.trim(clock.ms, 1000), 103);
    assert.equal((await store.log.position("acme", "room:old")).floor, 3);
    assert.equal((await store.log.position("acme", "room:new")).floor, 0);
    assert.equal(await store.log.trim(clock.ms, 1000), 0);
    await emit("room:long", 1);
    assert.deepEqual((await store.log.read("acme", "room:long", 0, 10)).map((event) => event.seq), [2501]);
  });

  on("trimStream drops what is old of one stream, nothing beyond a position, and leaves the others", async (opened) => {
    const { store, clock } = opened;
    const emit = (stream: string, count: number): Promise<unknown> =>
      store.write((tx) => tx.emit(...Array.from({ length: count }, (_, n) => eventDraft(stream, n))));
    await emit("room:one", 1500);
    await emit("room:two", 3);
    clock.ms += 60_000;
    await emit("room:one", 2);
    assert.equal(await store.log.trimStream("acme", "room:one", clock.ms, 1200), 1200);
    assert.equal(await store.log.trimStream("acme", "room:one", clock.ms, 1100), 0);
    assert.equal(await store.log.trimStream("acme", "room:one", clock.ms, Infinity), 300);
    assert.equal(await store.log.trimStream("acme", "room:one", clock.ms, Infinity), 0);
    assert.equal((await store.log.position("acme", "room:one")).floor, 1500);
    assert.deepEqual((await store.log.read("acme", "room:one", 1500, 10)).map((event) => event.seq), [1501, 1502]);
    assert.equal((await store.log.position("acme", "room:two")).floor, 0);
  });

  on("a listener that throws does not fail the write", async (opened) => {
    opened.store.onCommit = () => {
      throw new Error("listener");
    };
    await opened.store.write((tx) => tx.emit(eventDraft("room:1")));
    assert.equal((await readGaplessLog(opened, "room:1")).length, 1);
  });

  on("migrate may run again", async (opened) => {
    await opened.store.write((tx) => addNote(tx, "a"));
    await opened.store.migrate([notes]);
    assert.deepEqual(await noteIds(opened), ["a"]);
  });

  on("close waits for running writes and refuses new ones", async ({ store }) => {
    let isDone = false;
    const running = store.write(async (tx) => {
      await pause(5);
      await addNote(tx, "a");
      isDone = true;
    });
    const closed = store.close();
    await assert.rejects(store.write(() => Promise.resolve()), { code: "unavailable" });
    await closed;
    assert.ok(isDone);
    await running;
  });

  if (!backend.isShared) return;

  on("a database newer than the program is refused", async ({ openSecond }) => {
    const older = openSecond();
    await assert.rejects(older.migrate([]), /newer than this gateway/);
    await older.close();
  });

  on("two stores on one database number one stream together", async (opened) => {
    const other = opened.openSecond();
    await Promise.all(
      [opened.store, other].flatMap((store) =>
        Array.from({ length: 30 }, (_, n) => store.write((tx) => tx.emit(eventDraft("room:1", n))))
      ),
    );
    await other.close();
    assert.equal((await readGaplessLog(opened, "room:1")).length, 60);
  });
}
