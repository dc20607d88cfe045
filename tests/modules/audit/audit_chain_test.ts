// The chain of the audit log: what does not fit is found, what is erased or cut off leaves the rest verifiable, and nodes share it.
import assert from "node:assert/strict";
import { type Kysely, sql } from "kysely";
import { DAY_MS } from "@/core/time/clock.ts";
import { migrations } from "@/modules/audit/migrations.ts";
import type { AuditRow, AuditTables } from "@/modules/audit/store.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../../harness.ts";
import { captureLog } from "../../log_capture.ts";
import { assertProblem, createRoom, ok, sendMessage } from "../fixtures.ts";
import { connectNode, untilLockWait } from "../postgres_node.ts";

const AUDIT = "/v1/collaboration/audit";
const VERIFICATION = `${AUDIT}/verification`;
const INVITATIONS = "/v1/collaboration/invitations";

type Db = Kysely<AuditTables>;

/** Changes the database as who has its password could. */
function tamper(gateway: Harness, change: (db: Db) => Promise<unknown>): Promise<unknown> {
  return gateway.app.store.write(({ db }) => change(db as unknown as Db));
}

function setEntry(seq: number, set: Partial<AuditRow>): (db: Db) => Promise<unknown> {
  return (db) =>
    db.updateTable("audit_entry").set(set).where("tenant_id", "=", "default").where("seq", "=", seq).execute();
}

function entriesOf(gateway: Harness): Promise<AuditRow[]> {
  const db = gateway.app.store.db as unknown as Db;
  return db.selectFrom("audit_entry").selectAll().where("tenant_id", "=", "default").orderBy("seq").execute();
}

async function invite(caller: Caller, count: number): Promise<void> {
  for (let n = 0; n < count; n++) ok(await caller.post(INVITATIONS, { name: `Team ${n}` }, { "user-agent": "tool/1" }));
}

testOnEngines("a changed, removed or inserted entry is the first that does not fit", async (environment) => {
  await using gateway = await openGateway(environment);
  const owner = await gateway.as("olga", { role: "owner" });
  await invite(owner, 4);
  const intact = ok(await owner.get(VERIFICATION));
  assert.deepEqual([intact.valid, intact.entryCount, intact.erasedCount, intact.firstSeq, intact.problem], [
    true,
    4,
    0,
    1,
    null,
  ]);
  const kept = await entriesOf(gateway);
  const [, second, third] = kept;
  assert.deepEqual([second?.ip, second?.user_agent], ["127.0.0.1", "tool/1"]);
  const changes: Partial<AuditRow>[] = [
    { operation: "room.read" },
    { actor_id: "eve" },
    { ip: "192.0.2.1" },
    { at: "2020-01-01T00:00:00.000Z" },
    { resource_id: null },
    { changes_json: "{}" },
    { who_salt: "another" },
    { who_salt: null, who_digest: "another" },
    { request_id: "another" },
    { hash: third?.hash ?? "" },
  ];
  const problem = async (): Promise<unknown> => ok(await owner.get(VERIFICATION)).problem;
  for (const change of changes) {
    await tamper(gateway, setEntry(2, change));
    assert.deepEqual(await problem(), { seq: 2, id: second?.id, reason: "changed" }, JSON.stringify(change));
    await tamper(gateway, setEntry(2, second ?? {}));
  }
  assert.equal(await problem(), null);
  await tamper(gateway, (db) => db.deleteFrom("audit_entry").where("seq", "=", 2).execute());
  assert.deepEqual(await problem(), { seq: 2, id: null, reason: "missing" });
  await tamper(gateway, setEntry(3, { seq: 2 }));
  assert.deepEqual(await problem(), { seq: 2, id: third?.id, reason: "changed" });
});

testOnEngines("a head that was logged shows that the newest entries were removed", async (environment) => {
  await using gateway = await openGateway(environment);
  const owner = await gateway.as("olga", { role: "owner" });
  await invite(owner, 3);
  const records = await captureLog(["gateway", "audit"], () => gateway.app.runMaintenance());
  const logged = records.flatMap(({ properties }) => properties.tenant === "default" ? [String(properties.head)] : []);
  assert.deepEqual(logged, [ok(await owner.get(VERIFICATION)).head]);
  const [head = ""] = logged;
  assert.equal(ok(await owner.get(`${VERIFICATION}?head=${head}`)).problem, null);
  assert.deepEqual(ok(await owner.get(`${VERIFICATION}?head=2:${head.slice(2)}`)).problem?.seq, 2);
  await tamper(gateway, (db) => db.deleteFrom("audit_entry").where("seq", ">", 2).execute());
  assert.equal(ok(await owner.get(VERIFICATION)).valid, true, "what is left fits");
  await tamper(gateway, (db) => db.deleteFrom("audit_entry").where("seq", ">", 2).execute());
  assert.deepEqual(ok(await owner.get(`${VERIFICATION}?head=${head}`)).problem, {
    seq: 3,
    id: null,
    reason: "missing",
  });
  assertProblem(await owner.get(`${VERIFICATION}?head=0:x`), 422, "validation_failed");
});

testOnEngines("entries verify after a person was erased, and after the oldest were cut off", async (environment) => {
  await using gateway = await openGateway({ ...environment, SVC_LIMIT_AUDIT_DAYS: "10" });
  const owner = (): Promise<Caller> => gateway.as("olga", { role: "owner" });
  await invite(await owner(), 3);
  const erased = { actor_id: "erased-1", token_id: null, ip: null, user_agent: null, who_salt: null };
  await tamper(gateway, setEntry(3, erased));
  const { valid, erasedCount: count } = ok(await (await owner()).get(VERIFICATION));
  assert.deepEqual([valid, count], [true, 1]);
  gateway.clock.advance(5 * DAY_MS);
  await invite(await owner(), 2);
  gateway.clock.advance(6 * DAY_MS);
  await gateway.app.runMaintenance();
  const cut = ok(await (await owner()).get(VERIFICATION));
  assert.deepEqual(
    [cut.valid, cut.firstSeq, cut.entryCount],
    [true, 5, 2],
    "older than ten days: three, and a verification",
  );
  // Who moves the cut to hide another entry has no key to sign it.
  const [first] = await entriesOf(gateway);
  await tamper(gateway, async (db) => {
    await db.deleteFrom("audit_entry").where("seq", "=", 5).execute();
    await db.updateTable("audit_cut").set({ seq: 5, hash: first?.hash ?? "" }).where("tenant_id", "=", "default")
      .execute();
  });
  assert.equal(ok(await (await owner()).get(VERIFICATION)).problem?.seq, 5);
  gateway.clock.advance(30 * DAY_MS);
  await gateway.app.runMaintenance();
  assert.equal(ok(await (await owner()).get(VERIFICATION)).entryCount, 0);
  const { entryCount, problem } = ok(await (await owner()).get(VERIFICATION));
  assert.deepEqual([entryCount, problem], [1, null], "the chain goes on after its last entry was cut off");
});

testOnEngines(
  "reading the log is recorded, and its download has all entries as events of OCSF",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const [owner, member] = [await gateway.as("olga", { role: "owner" }), await gateway.as("bob")];
    await invite(owner, 2);
    ok(await owner.get(`${AUDIT}?actorId=bob`));
    const download = () => owner.open(`${AUDIT}/export`, { headers: { "user-agent": "tool/2" } });
    const response = await download();
    assert.equal(response.headers.get("content-type"), "application/x-ndjson");
    const events = (await response.text()).trimEnd().split("\n").map((line: string) => JSON.parse(line));
    assert.deepEqual(
      events.map((event: ApiResponse["body"]) => [event.metadata.sequence, event.api.operation, event.type_uid]),
      [
        [1, "invitation.create", 600301],
        [2, "invitation.create", 600301],
        [3, "audit.list", 600302],
        [4, "audit.export", 600302],
      ],
    );
    const unread = [await download(), await download()];
    assert.equal((await download()).status, 429, "a third at the same time");
    for (const { body } of unread) await body?.cancel();
    assert.equal((await (await download()).text()).trimEnd().split("\n").length, 7);
    const [invitation, , read] = events;
    assert.deepEqual(read.unmapped.changes, { actorId: "bob", limit: "50" });
    assert.deepEqual([invitation.actor.user.uid, invitation.src_endpoint.ip, invitation.http_request.user_agent], [
      "olga",
      "127.0.0.1",
      "tool/1",
    ]);
    assert.equal(invitation.unmapped.hash, (await entriesOf(gateway))[0]?.hash);
    for (const path of ["", "/export", "/verification"]) {
      assertProblem(await member.get(`${AUDIT}${path}`), 403, "forbidden");
      assertProblem(
        await (await gateway.as("olga", { role: "owner", scope: "room.read" })).get(`${AUDIT}${path}`),
        403,
        "scope_missing",
      );
    }
  },
);

testOnPostgres("the entries of two nodes are one chain, and messages do not wait for it", async (environment) => {
  await using gateway = await openGateway(environment);
  await using other = await openGateway(environment);
  const [here, there] = [await gateway.as("olga", { role: "owner" }), await other.as("otto", { role: "owner" })];
  const roomId = await createRoom(here, []);
  ok(await there.get("/v1/collaboration/me"));
  await Promise.all(Array.from({ length: 20 }, () => Promise.all([invite(here, 1), invite(there, 1)])));
  const { valid, entryCount } = ok(await here.get(VERIFICATION));
  assert.deepEqual([valid, entryCount], [true, 40]);
  // Another node whose entry is not committed yet.
  await using node = connectNode(environment);
  const answer = await node.begin(async (sql) => {
    await sql`update stream set head = head where name = 'audit'`;
    const invited = invite(here, 1);
    await untilLockWait(sql, "the next entry waits");
    await sendMessage(here, roomId, "Hello");
    return { invited };
  });
  await answer.invited;
});

testOnEngines("entries from before the chain stay, and the chain begins after them", async (environment) => {
  await using gateway = await openGateway(environment);
  const owner = await gateway.as("olga", { role: "owner" });
  const dialect = gateway.app.store.dialect;
  await gateway.app.store.write(async ({ db }) => {
    for (const table of ["audit_entry", "audit_cut"]) await db.schema.dropTable(table).execute();
    const [before, chain] = migrations;
    await before?.up(db, dialect);
    for (const [id, tenant] of [["aud_2", "default"], ["aud_1", "default"], ["aud_3", "other"]]) {
      await sql`insert into audit_entry (tenant_id, id, at, actor_id, operation, via, changes_json)
        values (${tenant}, ${id}, '2026-02-01T00:00:00.000Z', 'olga', 'token.create', 'http', '{}')`.execute(db);
    }
    await chain?.up(db, dialect);
  });
  assert.deepEqual((await entriesOf(gateway)).map(({ id, seq, hash }) => [id, seq, hash]), [["aud_1", 1, ""], [
    "aud_2",
    2,
    "",
  ]]);
  await invite(owner, 2);
  const { valid, firstSeq, entryCount } = ok(await owner.get(VERIFICATION));
  assert.deepEqual([valid, firstSeq, entryCount], [true, 3, 2]);
  assert.equal(ok(await owner.get(AUDIT)).items.length, 5);
  gateway.clock.advance(345 * DAY_MS);
  await gateway.app.runMaintenance();
  const later = await gateway.as("olga", { role: "owner" });
  assert.deepEqual([ok(await later.get(VERIFICATION)).firstSeq, (await entriesOf(gateway)).length], [3, 5]);
});
