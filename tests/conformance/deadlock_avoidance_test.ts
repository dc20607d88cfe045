// Writers of one node that meet at the same streams, on several connections of PostgreSQL: none waits without end, none locks
// another up, and what they publish stays in order.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { PostgresConnection } from "@/adapters/store/postgres/connection.ts";
import type { Rows } from "@/adapters/store/sql_session.ts";
import { SqlStore } from "@/adapters/store/sql_store.ts";
import { systemClock } from "@/core/time/clock.ts";
import type { CommitResult, Transaction } from "@/ports/store.ts";
import { postgresUrl } from "../tier.ts";
import { pause } from "../wait.ts";
import { createTemporarySchema, type Notes, notes, PATIENT } from "./store_backends.ts";
import { eventDraft } from "./store_suite.ts";

const url = postgresUrl;
const ROOMS = ["r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"];

/** Who waits for another one does so for as long as a busy machine takes; only a ring is refused. */
const TIMEOUTS = ["lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"];

/** A connection that counts its statements, and those the database refused, as it does when they wait in a ring. */
class CountingConnection extends PostgresConnection {
  statements = 0;
  refused = 0;

  override run(sql: string, parameters: readonly unknown[]): Promise<Rows> {
    this.statements++;
    const answered = super.run(sql, parameters);
    answered.catch(() => this.refused++);
    return answered;
  }
}

/** A store on a schema of its own that records what it publishes; `asked` and `refused` say how many statements were. */
async function openCounted(url: string) {
  const schema = await createTemporarySchema(url);
  const patient = new URL(schema.url);
  for (const name of TIMEOUTS) patient.searchParams.set(name, "0");
  const options = { ...PATIENT, url: patient.href };
  const writers = Array.from({ length: 4 }, () => new CountingConnection(options));
  const store = new SqlStore<Notes>({
    dialect: "postgres",
    writers,
    rules: { isExclusive: false, beforeSavepoint: "", gather: () => undefined },
  }, { clock: systemClock });
  await store.migrate([notes]);
  const told: CommitResult[] = [];
  store.onCommit = (committed) => void told.push(committed);
  return {
    store,
    asked: () => writers.reduce((sum, connection) => sum + connection.statements, 0),
    refused: () => writers.reduce((sum, connection) => sum + connection.refused, 0),
    /** The seqs of a stream in the order in which they were published. */
    seqs: (stream: string) =>
      told.flatMap(({ events }) => events).filter((event) => event.stream === stream).map(({ seq }) => seq),
    async [Symbol.asyncDispose]() {
      await store.close();
      await schema.drop();
    },
  };
}

/** Takes all the streams with one statement, and writes an event to each. */
async function writeAll(tx: Transaction<Notes>, streams: readonly string[]): Promise<void> {
  const places = await tx.reserveAll("acme", new Map(streams.map((stream) => [stream, 1])));
  const events = [...places].map(([stream, { epoch, first }]) => ({
    tenantId: "acme",
    stream,
    epoch,
    seq: first,
    type: "note.created",
    json: "{}",
  }));
  await tx.append(events);
}

if (url !== undefined) {
  Deno.test("postgres: events for all members of a room take as many statements as an event for one", async () => {
    await using opened = await openCounted(url);
    const { store } = opened;
    const everybody = Array.from({ length: 300 }, (_, n) => `principal:p${n}`);
    await store.write((tx) => tx.emit(...everybody.map((stream) => eventDraft(stream))));
    const costs: number[] = [];
    for (const streams of [everybody.slice(0, 2), everybody]) {
      const before = opened.asked();
      await store.write((tx) => tx.emit(eventDraft("room:1"), ...streams.map((stream) => eventDraft(stream))));
      costs.push(opened.asked() - before);
    }
    assert.ok((costs[1] ?? Infinity) <= (costs[0] ?? 0), `${costs}`);
    assert.deepEqual(opened.seqs("principal:p7"), [1, 2]);
  });

  Deno.test("postgres: who needs every stream at once has its turn while others keep writing to each", async () => {
    await using opened = await openCounted(url);
    const { store } = opened;
    await store.write((tx) => writeAll(tx, ROOMS));
    let isOver = false;
    const crowd = Array.from({ length: 40 }, async (_, n) => {
      while (!isOver) await store.write((tx) => tx.emit(eventDraft(ROOMS[n % ROOMS.length] ?? "")));
    });
    let most = 0;
    for (let round = 0; round < 10; round++) {
      let runs = 0;
      await store.write(async (tx) => {
        runs++;
        await writeAll(tx, ROOMS);
      });
      most = Math.max(most, runs);
    }
    isOver = true;
    await Promise.all(crowd);
    assert.ok(most <= 6, `it ran ${most} times`);
    for (const room of ROOMS) assert.deepEqual(opened.seqs(room), opened.seqs(room).toSorted((a, b) => a - b));
    assert.equal(opened.refused(), 0);
  });

  Deno.test("postgres: whatever streams writers take, all are done after few runs, and each stream is published completely", async () => {
    const Writer = fc.record({
      streams: fc.uniqueArray(fc.constantFrom(...ROOMS), { minLength: 1, maxLength: ROOMS.length }),
      how: fc.constantFrom("one", "emit", "each", "all", "all"),
      pauseMs: fc.constantFrom(undefined, undefined, 0, 2),
    });
    await using opened = await openCounted(url);
    const { store } = opened;
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(Writer, { minLength: 10, maxLength: 60 }), async (writers) => {
        const prefix = `round${++round}-`;
        const runs = writers.map(() => 0);
        const counts = new Map<string, number>();
        await Promise.all(writers.map(({ streams, how, pauseMs }, n) => {
          const own = (how === "one" ? streams.slice(0, 1) : streams).map((stream) => prefix + stream);
          for (const stream of own) counts.set(stream, (counts.get(stream) ?? 0) + 1);
          return store.write(async (tx) => {
            runs[n] = (runs[n] ?? 0) + 1;
            if (how === "all") await writeAll(tx, own);
            else if (how === "each") { for (const stream of own) await tx.emit(eventDraft(stream)); }
            else await tx.emit(...own.map((stream) => eventDraft(stream)));
            if (pauseMs !== undefined) await pause(pauseMs);
          });
        }));
        for (const [stream, count] of counts) {
          assert.deepEqual(opened.seqs(stream), Array.from({ length: count }, (_, index) => index + 1));
        }
        assert.ok(Math.max(...runs) <= 12, `they ran ${runs.join(", ")} times`);
        assert.equal(opened.refused(), 0);
      }),
      { numRuns: 12, endOnFailure: true },
    );
  });
}
