// What the queries of runs read: the unfinished ones, however many have ended.
import { CompiledQuery } from "kysely";
import assert from "node:assert/strict";
import { ApprovalStore } from "@/modules/agent/approval/store.ts";
import { RunQueueStore } from "@/modules/agent/run/queue_store.ts";
import { RunStore } from "@/modules/agent/run/store.ts";
import { openGateway } from "../../harness.ts";
import { recordQueries } from "../query_log.ts";

Deno.test("SQLite finds unfinished runs by their index only", async () => {
  await using gateway = await openGateway();
  const { db } = gateway.app.store;
  const [queue, runs] = [new RunQueueStore(db), new RunStore(db)];
  const statements = await recordQueries(async () => {
    await queue.running("now");
    await queue.claimable(0, { tenantIds: ["a"], agentIds: ["a/b"], askers: ["a/c"] }, 10);
    await queue.leaseOwners();
    await runs.countQueued("default", "agent");
    await runs.unfinished("default", { agentId: "agent" });
    await runs.unfinished("default", { roomId: "room" });
    await runs.waiting("default", undefined);
    await runs.waiting("default", "room");
    await runs.waitingAfter("", 10);
    await runs.findAsking("default", "agent", "room");
    await runs.countByStatus();
  });
  assert.equal(statements.length, 11);
  for (const { sql, parameters } of statements) {
    const query = CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]);
    const { rows } = await db.executeQuery<{ detail: string }>(query);
    const reads = rows.map(({ detail }) => detail).filter((detail) => /\b(?:agent_run|run|other)\b/.test(detail));
    const isRead = reads.filter((detail) => detail.includes(" USING "));
    assert.ok(isRead.length > 0 && isRead.every((detail) => detail.includes("agent_run_unfinished")), reads.join("\n"));
  }
});

Deno.test("SQLite finds what waits for a decision by the rooms of who may decide", async () => {
  await using gateway = await openGateway();
  const { db } = gateway.app.store;
  const reader = { principalId: "alice", ownerId: "", isOwned: false, withPublic: true };
  const [statement] = await recordQueries(() =>
    new ApprovalStore(db).listPending("default", reader, undefined, undefined, 10)
  );
  assert.ok(statement !== undefined);
  const query = CompiledQuery.raw(`explain query plan ${statement.sql}`, [...statement.parameters]);
  const { rows } = await db.executeQuery<{ detail: string }>(query);
  const plan = rows.map(({ detail }) => detail).join("\n");
  assert.match(plan, /SEARCH agent_approval USING INDEX agent_approval_pending \(tenant_id=\? AND room_id=\?/);
});
