// Retention of a tenant: each kind ends after its days, rooms may only have fewer, and legal holds keep what is theirs.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../engines.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { upload } from "./file/file_harness.ts";
import { assertProblem, createRoom, ok, sendMessage } from "./fixtures.ts";

const API = "/v1/collaboration";
const RETENTION = `${API}/retention`;
const GATEWAY = { messagesDays: null, filesDays: null, runsDays: null, auditDays: null };

async function ownerOf(gateway: Harness, tenant: string): Promise<Caller> {
  const olga = await gateway.as("olga", { tenant, role: "owner" });
  ok(await olga.get(`${API}/me`));
  return olga;
}

/** Hour by hour would be the same. */
async function passDays(gateway: Harness, days: number): Promise<void> {
  gateway.clock.advance(days * DAY_MS);
  await gateway.app.runMaintenance();
  await gateway.runJobs();
}

/** A run that ended now. */
async function addRun(gateway: Harness, tenant: string, roomId: string): Promise<void> {
  const at = new Date(gateway.clock.now()).toISOString();
  const row = {
    ...{ tenant_id: tenant, id: `run_${tenant}_${roomId}`, agent_id: "nova", room_id: roomId, thread_id: "", seq: 1 },
    ...{
      trigger_kind: "mention",
      asker_ids_json: "[]",
      chain_depth: 0,
      status: "completed",
      is_external: 0,
      attempt: 1,
    },
    ...{ step: 0, text: "", active_ms: 0, read_rooms_json: "[]", input_tokens: 0, cached_tokens: 0, output_tokens: 0 },
    ...{ cost: 0, heartbeat_at: at, created_at: at, queued_at: at, finished_at: at, is_trimmed: 0 },
  };
  await gateway.app.store.write(({ db }) => db.insertInto("agent_run").values(row as never).execute());
}

async function countRows(gateway: Harness, tenant: string): Promise<number[]> {
  const counts: number[] = [];
  for (const table of ["message", "file", "agent_run"] as const) {
    const rows = await gateway.app.store.db.selectFrom(table).select("tenant_id").where("tenant_id", "=", tenant)
      .execute();
    counts.push(rows.length);
  }
  return counts;
}

testOnEngines(
  "each kind ends after the days of its tenant, and what is under a hold after its release",
  async (environment) => {
    await using gateway = await openGateway({ ...environment, SVC_LIMIT_AUDIT_DAYS: "200" });
    const rooms = new Map<string, string>();
    for (const tenant of ["short", "held", "room", "other"]) {
      const olga = await ownerOf(gateway, tenant);
      if (tenant !== "other") {
        ok(await olga.put(RETENTION, { messagesDays: 10, filesDays: 3, runsDays: 5, auditDays: 90 }));
      }
      const roomId = await createRoom(olga, []);
      rooms.set(tenant, roomId);
      await sendMessage(olga, roomId, "Hello");
      ok(await upload(gateway, olga, { name: "a.txt" }, "not shown"));
      await addRun(gateway, tenant, roomId);
      if (tenant === "held") ok(await olga.post(`${API}/holds`, { reason: "Case 1" }));
      if (tenant === "room") ok(await olga.post(`${API}/holds`, { roomId, reason: "Case 1" }));
    }
    const counts = async (): Promise<Record<string, string>> =>
      Object.fromEntries(
        await Array.fromAsync(rooms.keys(), async (tenant) => [tenant, (await countRows(gateway, tenant)).join()]),
      );
    await passDays(gateway, 2);
    assert.deepEqual(await counts(), { short: "1,1,1", held: "1,1,1", room: "1,1,1", other: "1,0,1" });
    await passDays(gateway, 4);
    assert.deepEqual(await counts(), { short: "1,0,0", held: "1,1,1", room: "1,1,1", other: "1,0,1" });
    await passDays(gateway, 5);
    assert.deepEqual(await counts(), { short: "0,0,0", held: "1,1,1", room: "1,1,1", other: "1,0,1" });
    assert.match(
      (await gateway.withToken(undefined).get("/metrics")).body,
      /svc_retention_deleted_total\{kind="runs"\} 1/,
    );
    for (const tenant of ["held", "room"]) {
      const olga = await ownerOf(gateway, tenant);
      const [hold] = ok(await olga.get(`${API}/holds`)).items;
      ok(await olga.post(`${API}/holds/${hold.id}/release`));
    }
    await passDays(gateway, 2);
    await passDays(gateway, 100);
    assert.deepEqual(await counts(), { short: "0,0,0", held: "0,0,0", room: "0,0,0", other: "1,0,0" });
    for (const tenant of ["short", "other"]) {
      const olga = await ownerOf(gateway, tenant);
      ok(await olga.post(`${API}/invitations`));
      const { valid, firstSeq } = ok(await olga.get(`${API}/audit/verification`));
      assert.deepEqual([valid, firstSeq === 1], [true, tenant === "other"]);
    }
  },
);

testOnEngines(
  "only owners set the retention, within that of the gateway, and rooms within that of the tenant",
  async (environment) => {
    await using gateway = await openGateway({ ...environment, SVC_LIMIT_AUDIT_DAYS: "200" });
    const olga = await ownerOf(gateway, "default");
    const anna = await gateway.as("anna", { role: "admin" });
    const roomId = await createRoom(olga, [], { retentionDays: 100 });
    const before = { ...GATEWAY, maxAuditDays: 200, legalHold: false, updatedAt: null };
    assert.deepEqual(ok(await olga.get(RETENTION)), before);
    for (const response of [await anna.get(RETENTION), await anna.put(RETENTION, GATEWAY)]) {
      assertProblem(response, 403, "forbidden");
    }
    for (
      const wrong of [{ auditDays: 89 }, { auditDays: 201 }, { messagesDays: 0 }, { runsDays: 91 }, { filesDays: 91 }]
    ) {
      assertProblem(await olga.put(RETENTION, { ...GATEWAY, ...wrong }), 422, "validation_failed");
    }
    assertProblem(await olga.put(RETENTION, { messagesDays: 1 }), 422, "validation_failed");
    const given = { ...GATEWAY, messagesDays: 30, auditDays: 200 };
    const set = ok(await olga.put(RETENTION, given));
    assert.deepEqual(set, { ...before, ...given, updatedAt: set.updatedAt });
    assert.deepEqual(ok(await olga.get(RETENTION)), set);
    const other = await gateway.as("eve", { role: "owner", tenant: "other" });
    assert.deepEqual(ok(await other.get(RETENTION)), before);

    assertProblem(await olga.post("/v1/rooms", { name: "Long", retentionDays: 31 }), 422, "validation_failed");
    assertProblem(await olga.patch(`/v1/rooms/${roomId}`, { retentionDays: 31 }), 422, "validation_failed");
    // The room from before keeps its setting, of which the shorter one applies.
    await sendMessage(olga, roomId, "Hello");
    await passDays(gateway, 31);
    assert.deepEqual(await countRows(gateway, "default"), [0, 0, 0]);
    const later = await ownerOf(gateway, "default");
    ok(await later.patch(`/v1/rooms/${roomId}`, { retentionDays: 30 }));
    ok(await later.post(`${API}/holds`, { reason: "Case 1" }));
    assert.equal(ok(await later.get(RETENTION)).legalHold, true);
    const { items } = ok(await later.get(`${API}/audit?operation=retention`));
    assert.equal(items.length, 1);
    assert.equal(items[0].changes.messagesDays, "30");
  },
);

Deno.test("where the gateway stores its audit log for less than 90 days, a tenant may name these days", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_AUDIT_DAYS: "30" });
  const olga = await ownerOf(gateway, "default");
  assert.equal(ok(await olga.put(RETENTION, { ...GATEWAY, auditDays: 30 })).auditDays, 30);
  for (const auditDays of [29, 31]) {
    assertProblem(await olga.put(RETENTION, { ...GATEWAY, auditDays }), 422, "validation_failed");
  }
});
