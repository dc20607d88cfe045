// Imports and exports beside other writers of several connections: what one decides the other knows.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { sql } from "kysely";
import { withTimeout } from "@/core/time/clock.ts";
import { testOnPostgres } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { until } from "../../wait.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok } from "../fixtures.ts";
import {
  type Any,
  beforeEmit,
  EXPORTS,
  exportTenant,
  IMPORTS,
  parseRecords,
  toArchive,
  uploadArchive,
} from "./transfer_fixture.ts";

/** Runs `meanwhile` once, in a transaction that is about to publish this; and waits for it, unless it waits for us. */
function runDuringWrite(
  gateway: Harness,
  isIt: (draft: Any) => boolean,
  meanwhile: () => Promise<unknown>,
): Promise<unknown> {
  const outside = AsyncLocalStorage.snapshot();
  const { promise, resolve } = Promise.withResolvers<unknown>();
  let isDone = false;
  const end = beforeEmit(gateway, async (drafts) => {
    if (isDone || !drafts.some(isIt)) return;
    isDone = true;
    const other = outside(meanwhile);
    other.then(resolve, resolve);
    await withTimeout(other, 300);
  });
  return promise.finally(end);
}

testOnPostgres("of imports asked for at once one is made, and of exports of one principal", async (engine) => {
  await using gateway = await openGateway(engine);
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  for (const [path, ask] of [[IMPORTS, { kind: "slack" }], [EXPORTS, { kind: "tenant" }]] as const) {
    const answers = await Promise.all(Array.from({ length: 8 }, () => boss.post(path, ask)));
    const made = answers.filter(({ status }) => status < 300);
    assert.equal(made.length, 1, path);
  }
  await gateway.runJobs();
});

testOnPostgres(
  "an import that ends while it is cancelled has ended, or was cancelled, for everybody",
  async (engine) => {
    await using gateway = await openGateway(engine);
    const boss = await gateway.as("boss", { role: "owner" });
    const id = await uploadArchive(boss, "gateway", '{"type":"export","version":1}\n{"type":"end"}\n');
    const cancelled = runDuringWrite(
      gateway,
      ({ type, data }) => type === "import.updated" && data.import.state === "done",
      () => boss.post(`${IMPORTS}/${id}/cancel`),
    );
    await gateway.runJobs();
    assertProblem(await cancelled as Any, 409, "conflict");
    assert.equal(ok(await boss.get(`${IMPORTS}/${id}`)).state, "done");
  },
);

testOnPostgres("who joins a room while an import lets members in is counted", async (engine) => {
  await using gateway = await openGateway(engine);
  const boss = await gateway.as("boss", { role: "owner" });
  const { ann, bob } = await createCallers(gateway, "ann", "bob", "cyd");
  const roomId = await createRoom(ann, [], { visibility: "public" });
  const lines = parseRecords(await exportTenant(gateway, boss));
  const at = lines.findIndex(({ type }) => type === "member");
  lines.splice(at, 0, { ...lines[at], principalId: "cyd", role: "member" });
  await uploadArchive(boss, "gateway", toArchive(lines));
  const joined = runDuringWrite(
    gateway,
    ({ type, data }) => type === "member.joined" && data.principalId === "cyd",
    () => bob.put(`/v1/rooms/${roomId}/members/me`),
  );
  await gateway.runJobs();
  ok(await joined as Any);
  const { memberCount, members } = ok(await ann.get(`/v1/rooms/${roomId}?include=members`));
  assert.deepEqual([memberCount, members.length], [3, 3]);
});

testOnPostgres("an import that is cancelled while it sets lines aside leaves none of them", async (engine) => {
  await using gateway = await openGateway(engine);
  const boss = await gateway.as("boss", { role: "owner" });
  const lines = [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", type: "O" } },
    { type: "post", post: { team: "t", channel: "c", user: "ann", message: "hi", create_at: 1_700_000_000_000 } },
  ];
  const id = await uploadArchive(boss, "mattermost", toArchive(lines));
  const { store } = gateway.app;
  const write = store.write;
  const outside = AsyncLocalStorage.snapshot();
  const isWaiting = async (): Promise<boolean> => {
    const waiting = sql`select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`;
    return (await waiting.execute(store.db)).rows.length > 0;
  };
  let cancelled: Promise<Any> | undefined;
  store.write = (work) =>
    write.call(store, (tx) => {
      const { insertMany } = tx;
      tx.insertMany = async (table, rows) => {
        if (String(table) === "transfer_line") {
          let isOver = false;
          cancelled = outside(() => boss.post(`${IMPORTS}/${id}/cancel`).finally(() => isOver = true));
          await outside(() =>
            until(async () => isOver || await isWaiting(), "it is cancelled, or waits for these lines")
          );
        }
        await insertMany.call(tx, table, rows);
      };
      return work(tx);
    }) as never;
  await gateway.runJobs();
  store.write = write;
  assert.equal(ok(await cancelled).state, "cancelled");
  const left = await store.db.selectFrom("transfer_line" as never).selectAll().execute();
  assert.deepEqual(left, []);
});
