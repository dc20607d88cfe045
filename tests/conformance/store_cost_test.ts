// What a writer on SQLite costs that shares its batch with another one.
// Measures the work of its thread.
import assert from "node:assert/strict";
import type { Transaction } from "@/ports/store.ts";
import { cpuTimeMs } from "../cpu_time.ts";
import { type Notes, sqliteFile } from "./store_backends.ts";
import { eventDraft, testOnStore } from "./store_suite.ts";

const STREAMS = 200;
const ROUNDS = 20;

testOnStore(sqliteFile, "a writer in a savepoint costs about as much as one alone", async ({ store }) => {
  const text = "x".repeat(900);
  const write = async (tx: Transaction<Notes>): Promise<number> => {
    const startedAt = cpuTimeMs();
    for (let round = 0; round < ROUNDS; round++) {
      await store.write((inner) =>
        inner.emit(...Array.from({ length: STREAMS }, (_, n) => eventDraft(`principal:${n}`, { text })))
      );
      await tx.emit(...Array.from({ length: STREAMS }, (_, n) => eventDraft(`principal:${n}`, { text })));
    }
    return cpuTimeMs() - startedAt;
  };
  for (let n = 0; n < 4; n++) await store.write(write);
  const alone = await store.write(write);
  const [, inSavepoint] = await Promise.all([store.write(async () => {}), store.write(write)]);
  assert.ok(inSavepoint < 4 * alone, `${inSavepoint} ms in a savepoint, ${alone} ms alone`);
});
