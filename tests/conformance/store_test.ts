// The store's suites on SQLite.
import assert from "node:assert/strict";
import { idempotencySuite } from "./idempotency_suite.ts";
import { jobSuite } from "./job_suite.ts";
import { sqliteFile, sqliteMemory } from "./store_backends.ts";
import { draft, onStore, storeSuite } from "./store_suite.ts";

for (const backend of [sqliteMemory, sqliteFile]) {
  storeSuite(backend);
  jobSuite(backend);
  idempotencySuite(backend);

  onStore(backend, "a lone writer commits within the turn it came in", async ({ store }) => {
    await new Promise((resolve) => setTimeout(resolve, 10));
    let turns = 0;
    const counter = setImmediate(() => turns++);
    await store.write((tx) => tx.emit(draft("room:1")));
    clearImmediate(counter);
    assert.equal(turns, 0);
  });
}
