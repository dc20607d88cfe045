// Erasure of a person: nothing of what names or describes them stays, wherever it was.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { z } from "@zod/zod";
import { type Kysely, sql } from "kysely";
import { declaredColumns, type TableErasure } from "@/core/erasure.ts";
import { namesPrincipal } from "@/core/erasure_json.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { ImportHistory, partOf } from "@/modules/transfer/import/history.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { storeErasure } from "@/ports/store_erasure.ts";
import { testOnEngines } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { openResourceGateway } from "../../resource_fixture.ts";
import { exportTenant, importArchive } from "../transfer/transfer_fixture.ts";
import { createZip } from "../transfer/transfer_zip.ts";
import { assertProblem, createCaller, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";
import {
  DAY_MS,
  ERASURES,
  findTexts,
  leaveTraces,
  PRIVATE,
  SHARED,
  textColumns,
  TRACES,
  WRITTEN,
  ZOE,
} from "./erasure_fixture.ts";
import { writesOn } from "../query_log.ts";

/** As in the API. */
type Erasure = { id: string; state: string; pseudonymId: string; counts: { table: string; deleted: number }[] };

/** Columns of these names have nothing of people, in whichever table: ids of other resources, states, settings and digests. */
const IMPERSONAL: ReadonlySet<string> = new Set([
  ...[
    "tenant_id",
    "id",
    "room_id",
    "message_id",
    "agent_id",
    "run_id",
    "call_id",
    "event_id",
    "document_id",
    "meeting_id",
  ],
  ...[
    "memory_id",
    "webhook_id",
    "token_id",
    "thread_id",
    "thread_root_id",
    "parent_id",
    "reply_to_id",
    "target_room_id",
  ],
  ...["trigger_message_id", "output_message_id", "source_message_id", "deletion_root_id", "next_task_id", "after_id"],
  ...["resource_type", "request_id", "read_rooms_json", "room_ids_json", "supersedes", "superseded_by", "recording_id"],
  ...[
    "kind",
    "trigger_kind",
    "state",
    "status",
    "type",
    "role",
    "level",
    "notify_level",
    "visibility",
    "version",
    "mode",
  ],
  ...[
    "maker_role",
    "creator_role",
    "requester_role",
    "principal_kind",
    "sender_kind",
    "actor_kind",
    "history_visibility",
  ],
  ...[
    "left_reason",
    "end_reason",
    "disabled_reason",
    "error_code",
    "paused_code",
    "outcome",
    "effect",
    "operation",
    "via",
  ],
  ...[
    "at",
    "start_local",
    "last_local",
    "ex_dates_json",
    "rrule",
    "time_zone",
    "timezone",
    "scheduled_for",
    "pending_since",
  ],
  ...[
    "failing_since",
    "active_minute",
    "valid_from",
    "valid_to",
    "day",
    "period",
    "starts_at",
    "occurrence",
    "reminders_json",
    "position",
  ],
  ...["model", "models_json", "tool", "tools_json", "ask_first_json", "memory_scopes_json", "scopes", "granted_scopes"],
  ...["sender_scopes", "events_json", "kinds_json", "capabilities_json", "counts_json", "header_names_json", "format"],
  ...["lease_owner", "queue_key", "generation", "fragment", "anchor_start", "anchor_end", "encoding", "content_type"],
  ...["epoch", "engine", "space", "code", "namespace", "prefix", "jti", "challenge", "resource", "provider"],
  ...["digest", "sha256", "fingerprint", "base_url", "redirect_uri", "client_host", "container"],
]);
const IMPERSONAL_ENDING = /(?:_at|_until|_hash|^hash|_encrypted)$/;

function declarationsOf({ app }: Harness): Map<string, TableErasure> {
  const all = [...app.modules.flatMap(({ erases }) => [erases ?? {}]), storeErasure];
  return new Map(all.flatMap((tables) => Object.entries(tables)));
}

testOnEngines("every column that can name or describe a person says what becomes of it", async (environment) => {
  await using gateway = await openGateway(environment);
  const declarations = declarationsOf(gateway);
  const missing = (await textColumns(gateway)).filter(({ table, column }) => {
    const declared = declarations.get(table);
    return !IMPERSONAL.has(column) && !IMPERSONAL_ENDING.test(column) &&
      !(declared !== undefined && declaredColumns(declared).has(column));
  });
  assert.deepEqual(missing.map(({ table, column }) => `${table}.${column}`), []);
});

Deno.test("every field of an event that is the id of a principal is recognized in stored events", async () => {
  await using gateway = await openGateway();
  const { pattern } = z.toJSONSchema(PrincipalId);
  const unknown: string[] = [];
  const visit = (type: string, field: string, schema: unknown): void => {
    if (typeof schema !== "object" || schema === null) return;
    const { properties = {}, ...rest } = schema as { properties?: Record<string, unknown>; pattern?: string };
    if (rest.pattern === pattern && !namesPrincipal(field)) unknown.push(`${type}: ${field}`);
    for (const [name, property] of Object.entries(properties)) visit(type, name, property);
    for (const part of Object.values(rest)) visit(type, field, part);
  };
  for (const { type, data } of gateway.app.modules.flatMap(({ events = [] }) => events)) {
    visit(type, "", z.toJSONSchema(data, { io: "output", unrepresentable: "any" }));
  }
  assert.deepEqual(unknown, []);
});

/** Asks for an erasure that is due now; what else is due has been done. With what a dry run counts. */
async function requestErasure(gateway: Harness, mode: string): Promise<{ id: string; expected: Erasure["counts"] }> {
  const { id } = ok(await (await gateway.as("boss")).post(ERASURES, { principalId: ZOE, mode, confirm: ZOE }));
  gateway.clock.advance(7 * DAY_MS - 1000);
  await gateway.runJobs();
  const expected = await countRows(gateway, mode);
  gateway.clock.advance(2000);
  return { id, expected };
}

async function erase(gateway: Harness, mode: string): Promise<Erasure & { expected: Erasure["counts"] }> {
  const { id, expected } = await requestErasure(gateway, mode);
  await gateway.runJobs();
  const erasure = ok(await (await gateway.as("boss")).get(`${ERASURES}/${id}`));
  assert.equal(erasure.state, "done");
  return { ...erasure, expected };
}

async function countRows(gateway: Harness, mode: string): Promise<Erasure["counts"]> {
  const boss = await gateway.as("boss");
  const { id } = ok(await boss.post(ERASURES, { principalId: ZOE, mode, dryRun: true }));
  await gateway.runJobs();
  return ok(await boss.get(`${ERASURES}/${id}`)).counts;
}

testOnEngines("erasure.create replaces a person by a pseudonym in every column of every table", async (environment) => {
  await using gateway = await openResourceGateway(environment);
  const { zoe, roomId, groupId } = await leaveTraces(gateway);
  await countRows(gateway, "anonymize");
  assert.equal(ok(await zoe.get("/v1/collaboration/me")).principal.id, ZOE);
  const { counts, expected, pseudonymId } = await erase(gateway, "anonymize");
  assert.deepEqual(await findTexts(gateway, TRACES), {});
  assert.deepEqual(counts.filter(ofModules), expected.filter(ofModules));

  // What was written stays under the pseudonym.
  const again = await gateway.as("bob");
  const { items } = ok(await again.get(`/v1/messages?roomId=${roomId}&include=senders`));
  const { text, senderId } = items.find(({ text }: { text: string }) => text.includes(WRITTEN));
  assert.deepEqual([text, senderId], [`${WRITTEN} second`, pseudonymId]);
  assert.equal(ok(await again.get(`/v1/collaboration/principals/${pseudonymId}`)).displayName, "Deleted user");
  assert.equal((await again.get(`/v1/collaboration/principals/${ZOE}`)).status, 404);
  const group = ok(await again.get(`/v1/collaboration/groups/${groupId}`));
  assert.deepEqual([group.memberCount, group.version], [1, 3], "its directory reads it again");
  const events = await readRoomEvents(again, roomId);
  const types = events.map(({ type }) => type);
  assert.ok(types.includes("member.left") && types.includes("principal.erased"));
  // Rows of responses have no comment any more, nor have the events about them.
  const responses = events.filter(({ type }) => type === "calendar.event.rsvp");
  assert.deepEqual(responses.map(({ data }) => [data.principalId, data.comment]), [[pseudonymId, null]]);

  // A token of before is refused; a later one makes somebody new.
  assertProblem(await zoe.get("/v1/collaboration/me"), 401, "token_expired");
  const old = await gateway.as(ZOE, { iat: Math.floor(Date.parse("2026-03-01T12:00:00Z") / 1000) });
  assertProblem(await old.get("/v1/collaboration/me"), 401, "token_revoked");
  gateway.clock.advance(1000);
  const fresh = await gateway.as(ZOE);
  assert.deepEqual(ok(await fresh.get("/v1/rooms")).items, []);
  assertProblem(await old.get("/v1/collaboration/me"), 401, "token_revoked");
});

const LOGS = ["event", "stream", "job", "audit_entry", "idempotency"];

/**
 * The logs have the erasure itself, what belongs to a fact is removed with it, and a job of their own may be the first to delete the
 * subscriptions of tokens that ended.
 */
function ofModules({ table }: { table: string }): boolean {
  return ![...LOGS, "memory_version", "search_document", "push_subscription"].includes(table);
}

testOnEngines("erasure.create deletes what a person wrote", async (environment) => {
  await using gateway = await openResourceGateway(environment);
  const { roomId } = await leaveTraces(gateway);
  const { counts } = await erase(gateway, "delete_content");
  assert.equal(counts.find(({ table }) => table === "document")?.deleted, 1);
  assert.deepEqual(await findTexts(gateway, TRACES), {});
  const declarations = declarationsOf(gateway);
  const left = Object.keys(await findTexts(gateway, [WRITTEN])).map((found) => found.slice(0, found.indexOf(" ")));
  const undeclared = left.filter((column) => {
    const [table = "", name = ""] = column.split(".");
    return declarations.get(table)?.keeps?.[name] === undefined;
  });
  // What an agent was given, what describes a room, and the events about both.
  assert.deepEqual(undeclared.sort(), ["agent_step.result", "event.json", "room.metadata_json"]);
  assert.deepEqual(left.filter((column) => /^(?:message|document_comment|meeting_segment)/.test(column)), []);
  assert.deepEqual(await findTexts(gateway, [PRIVATE]), {});
  assert.equal(Object.keys(await findTexts(gateway, [SHARED])).length > 0, true);
  const { items } = ok(await (await gateway.as("bob")).get(`/v1/messages?roomId=${roomId}`));
  assert.equal(items.filter(({ deletedAt }: { deletedAt: string | null }) => deletedAt !== null).length, 1);
  // Nobody shows the picture any more.
  gateway.clock.advance(2 * DAY_MS);
  await gateway.app.runMaintenance();
  await gateway.runJobs();
  assert.deepEqual(await gateway.app.store.db.selectFrom("file").select("name").execute(), []);
});

testOnEngines("the replies of a thread that are deleted together are counted once", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const zoe = await createCaller(gateway, ZOE);
  const roomId = await createRoom(boss, [ZOE]);
  const { id: threadId } = await sendMessage(boss, roomId, "Question");
  for (const text of ["One", "Two", "Three"]) await sendMessage(zoe, roomId, text, { threadId });
  await sendMessage(boss, roomId, "Four", { threadId });
  const { lastSeq } = ok(await boss.get(`/v1/rooms/${roomId}`));
  // Jobs that a commit starts may run outside of what is recorded.
  await gateway.app.jobs.stop();
  const statements = await writesOn(environment)(() => erase(gateway, "delete_content"));
  const deletions = statements.filter(({ sql }) => /^delete from "reaction" .*"message_id"/.test(sql));
  assert.equal(deletions.length, 1, "what several messages have besides is deleted together");
  const readings = statements.filter(({ sql, parameters }) =>
    /^select "seq", "json" from "event"/.test(sql) && parameters.includes(`room:${roomId}`)
  );
  assert.equal(readings.length, 1, "their events are read together");
  const events = await readRoomEvents(await gateway.as("boss"), roomId, lastSeq);
  const counts = events.filter(({ type }) => type === "thread.updated").map(({ data }) => data.replyCount);
  assert.deepEqual(counts, [1]);
  assert.equal(events.filter(({ type }) => type === "message.deleted").length, 3);
});

testOnEngines("an erasure that stops after any of its commits is completed by the next run", async (environment) => {
  await using gateway = await openGateway(environment);
  const admin = await createCaller(gateway, "boss", { role: "owner" });
  const zoe = await createCaller(gateway, ZOE, { name: "Zq Persona" });
  const roomId = await createRoom(admin, [ZOE]);
  for (let n = 0; n < 3; n++) await sendMessage(zoe, roomId, `${WRITTEN} ${n}`);
  const { id, expected } = await requestErasure(gateway, "delete_content");
  // Its job is due: a commit that wakes the runner would have it run beside this one.
  await gateway.app.jobs.stop();
  const [run, cutAfter] = [jobOf(gateway), cuttingCommits(gateway)];
  let commits = 0;
  assert.ok(await cutAfter(1, () => run(id)));
  // Each run begins with a commit of its own.
  while (await cutAfter(2, () => run(id))) commits++;
  assert.ok(commits > 5, `${commits} commits`);
  const { state, counts } = ok(await (await gateway.as("boss")).get(`${ERASURES}/${id}`));
  assert.equal(state, "done");
  assert.deepEqual(counts.filter(ofModules), expected.filter(ofModules));
  assert.deepEqual(await findTexts(gateway, [...TRACES, WRITTEN]), {});
});

/** The work of the job. */
function jobOf({ app }: Harness): (id: string) => Promise<void> {
  const job = app.modules.flatMap(({ jobs = [] }) => jobs).find(({ kind }) => kind === "erasure.run");
  return (id) => job?.run({ tenantId: "default", payload: { id }, attempt: 1 }) ?? assert.fail("No job");
}

/** Lets work fail after so many of its commits; the returned function resolves to whether it had so many. */
function cuttingCommits({ app: { store } }: Harness): (commits: number, work: () => Promise<void>) => Promise<boolean> {
  const cuts = new AsyncLocalStorage<{ left: number }>();
  const write = store.write.bind(store);
  store.write = async (part) => {
    const cut = store.isInTransaction ? undefined : cuts.getStore();
    const result = await write(part);
    if (cut !== undefined && --cut.left === 0) throw new Error("killed");
    return result;
  };
  return async (commits, work) => {
    const cut = { left: commits };
    await cuts.run(cut, work).catch((error) => assert.equal(cut.left, 0, String(error)));
    return cut.left === 0;
  };
}

testOnEngines("tables with more rows than one transaction reads are erased to their end", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const zoe = await createCaller(gateway, ZOE);
  const roomId = await createRoom(boss, [ZOE]);
  for (const who of [boss, zoe]) ok(await who.post("/v1/collaboration/tasks", { roomId, title: "At the same time" }));
  const mentions = Array.from({ length: 1201 }, (_, n) => ({
    tenant_id: "default",
    room_id: `room_${n % 3}`,
    seq: n,
    principal_id: n % 2 === 0 ? ZOE : "bob",
    message_id: `msg_${n}`,
  }));
  await gateway.app.store.write((tx) => (tx as AnyTransaction).insertMany("mention", mentions));
  let counts: Erasure["counts"] = [];
  // As above.
  await gateway.app.jobs.stop();
  const statements = await writesOn(environment)(async () => void ({ counts } = await erase(gateway, "anonymize")));
  assert.deepEqual(counts.find(({ table }) => table === "mention"), { table: "mention", changed: 0, deleted: 601 });
  // Others wait for the commit of each: of messages, more would take too long.
  const found = statements.filter(({ sql }) => /^select .* from "mention" .*"principal_id" = /s.test(sql));
  const parts = new Set(found.map(({ parameters }) => JSON.stringify(parameters)));
  assert.ok(parts.size > 5, `${parts.size} parts`);
  assert.deepEqual(await findTexts(gateway, [ZOE]), {});
  const indexed = await gateway.app.store.db.selectFrom("search_document").select("author_id").execute();
  assert.deepEqual(indexed.map(({ author_id: author }) => author === "boss").sort(), [false, true]);
});

testOnEngines("a person is erased by themselves or by those above, and never the last owner", async (environment) => {
  await using gateway = await openGateway(environment);
  const owner = await createCaller(gateway, "boss", { role: "owner" });
  const admin = await createCaller(gateway, "admin", { role: "admin" });
  const zoe = await createCaller(gateway, ZOE);
  const guest = await createCaller(gateway, "guest", { role: "guest" });
  const input = (principalId: string) => ({ principalId, mode: "anonymize", confirm: principalId });
  assertProblem(await zoe.post(ERASURES, input("guest")), 403, "forbidden");
  assertProblem(await admin.post(ERASURES, input("boss")), 403, "forbidden");
  assertProblem(await owner.post(ERASURES, input("boss")), 403, "forbidden");
  assertProblem(await guest.post(ERASURES, input("boss")), 404, "not_found");
  assertProblem(await admin.post(ERASURES, { ...input(ZOE), confirm: "zoe" }), 422, "validation_failed");
  assertProblem(await admin.post(ERASURES, { principalId: ZOE, mode: "anonymize" }), 422, "validation_failed");
  const service = ok(await owner.post("/v1/collaboration/principals", { kind: "service", displayName: "Bridge" })).id;
  assertProblem(await owner.post(ERASURES, input(service)), 422, "validation_failed");

  // Each dry run reads all tables, so they are not run side by side.
  const dryRun = { principalId: ZOE, mode: "anonymize", dryRun: true };
  const counted = ok(await zoe.post(ERASURES, dryRun)).id;
  const move = (state: string): Promise<unknown> =>
    gateway.app.store.write(({ db }) => db.updateTable("erasure").set({ state }).where("id", "=", counted).execute());
  await gateway.runJobs();
  await move("waiting");
  assertProblem(await admin.post(ERASURES, dryRun), 409, "already_running");
  await move("done");

  const { id } = ok(await zoe.post(ERASURES, { principalId: "me", mode: "anonymize", confirm: ZOE }));
  assertProblem(await zoe.get("/v1/collaboration/me"), 401, "token_revoked");
  assertProblem(await admin.post(ERASURES, input(ZOE)), 409, "already_running");
  assertProblem(await guest.get(`${ERASURES}/${id}`), 404, "not_found");
  assert.deepEqual(ok(await guest.get(ERASURES)).items, []);
  const states = ok(await admin.get(ERASURES)).items.map((one: Erasure) => [one.id, one.state]);
  assert.deepEqual(states, [[id, "waiting"], [counted, "done"]]);

  assert.equal(ok(await admin.post(`${ERASURES}/${id}/cancel`)).state, "cancelled");
  assertProblem(await admin.post(`${ERASURES}/${id}/cancel`), 409, "conflict");
  ok(await zoe.get("/v1/collaboration/me"));
  gateway.clock.advance(8 * DAY_MS);
  await gateway.runJobs();
  ok(await (await gateway.as(ZOE)).get("/v1/collaboration/me"));
  const { items } = ok(await (await gateway.as("admin")).get("/v1/collaboration/audit?operation=erasure"));
  assert.deepEqual(items.map(({ operation }: { operation: string }) => operation), [
    "erasure.cancel",
    "erasure.create",
    "erasure.create",
  ]);
});

testOnEngines("somebody who was disabled before stays so when the erasure is cancelled", async (environment) => {
  await using gateway = await openGateway(environment);
  const owner = await createCaller(gateway, "boss", { role: "owner" });
  const zoe = await createCaller(gateway, ZOE);
  ok(await owner.delete(`/v1/collaboration/principals/${ZOE}`));
  const { id } = ok(await owner.post(ERASURES, { principalId: ZOE, mode: "anonymize", confirm: ZOE }));
  ok(await owner.post(`${ERASURES}/${id}/cancel`));
  assertProblem(await zoe.get("/v1/collaboration/me"), 401, "token_revoked");
});

testOnEngines("a legal hold refuses an erasure, and delays one that waits until its release", async (environment) => {
  await using gateway = await openGateway(environment);
  const holds = "/v1/collaboration/holds";
  const owner = await createCaller(gateway, "boss", { role: "owner" });
  await createCaller(gateway, ZOE);
  const input = { principalId: ZOE, mode: "anonymize", confirm: ZOE };
  const first = ok(await owner.post(holds, { principalId: ZOE, reason: "case 7" })).id;
  assertProblem(await owner.post(ERASURES, input), 409, "legal_hold");
  ok(await owner.post(`${holds}/${first}/release`));

  const { id } = ok(await owner.post(ERASURES, input));
  const second = ok(await owner.post(holds, { principalId: ZOE, reason: "case 8" })).id;
  const stateAfter = async (days: number): Promise<string> => {
    gateway.clock.advance(days * DAY_MS + 1000);
    await gateway.runJobs();
    return ok(await (await gateway.as("boss")).get(`${ERASURES}/${id}`)).state;
  };
  assert.equal(await stateAfter(7), "waiting");
  ok(await (await gateway.as("boss")).post(`${holds}/${second}/release`));
  assert.equal(await stateAfter(1), "done");
  assert.deepEqual(await findTexts(gateway, [ZOE]), {});
  // The audit log still verifies, without what was erased.
  const { valid, erasedCount } = ok(await (await gateway.as("boss")).get("/v1/collaboration/audit/verification"));
  assert.deepEqual([valid, erasedCount > 0], [true, true]);
});

testOnEngines(
  "a hold on whom the person shares a room with refuses an erasure, and interrupts one",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const holds = "/v1/collaboration/holds";
    const owner = await createCaller(gateway, "boss", { role: "owner" });
    const zoe = await createCaller(gateway, ZOE);
    const bob = await createCaller(gateway, "bob");
    for (const roomId of [await createRoom(owner, [ZOE]), await createRoom(bob, [ZOE])]) {
      await sendMessage(zoe, roomId, WRITTEN);
    }
    const input = { principalId: ZOE, mode: "delete_content", confirm: ZOE };
    const first = ok(await owner.post(holds, { principalId: "bob", reason: "case 7" })).id;
    assertProblem(await owner.post(ERASURES, input), 409, "legal_hold");
    ok(await owner.post(`${holds}/${first}/release`));

    // Run before it is due, so that nothing else runs it.
    const { id } = ok(await owner.post(ERASURES, input));
    const [run, cutAfter] = [jobOf(gateway), cuttingCommits(gateway)];
    const stateNow = async (): Promise<string> => ok(await owner.get(`${ERASURES}/${id}`)).state;
    // It has begun, and ended the memberships.
    assert.ok(await cutAfter(2, () => run(id)));
    ok(await owner.patch(`/v1/collaboration/principals/${ZOE}`, { disabled: false }));
    const written = await findTexts(gateway, [WRITTEN]);
    for (const held of ["bob", ZOE]) {
      const hold = ok(await owner.post(holds, { principalId: held, reason: "case 8" })).id;
      await run(id);
      assert.deepEqual([await stateNow(), await findTexts(gateway, [WRITTEN])], ["running", written], held);
      // It was enabled meanwhile.
      assertProblem(await zoe.get("/v1/collaboration/me"), 401, "token_revoked");
      ok(await owner.post(`${holds}/${hold}/release`));
    }
    await run(id);
    assert.equal(await stateNow(), "done");
    assert.deepEqual(await findTexts(gateway, [ZOE, WRITTEN]), {});
  },
);

testOnEngines("others may write about a person while the erasure runs", async (environment) => {
  await using gateway = await openGateway(environment);
  const { store } = gateway.app;
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  await createCaller(gateway, ZOE);
  // Run before it is due, so that nothing else runs it.
  const { id } = ok(await boss.post(ERASURES, { principalId: ZOE, mode: "anonymize", confirm: ZOE }));
  const write = store.write.bind(store);
  const count = async (table: string, column: string): Promise<number> =>
    (await store.db.selectFrom(table).select(column).where(column, "=", `principal:${ZOE}`).execute()).length;
  let written = 0;
  let runs = 0;
  store.write = async (part) => {
    const result = await write(part);
    if (store.isInTransaction) return result;
    store.write = write.bind(store);
    runs++;
    // The stream of the person is there as long as events of it are.
    const [events, streams] = [await count("event", "stream"), await count("stream", "name")];
    assert.ok(streams === 1 || events === 0, `${events} events without a stream`);
    const { pseudonymId } = ok(await boss.get(`${ERASURES}/${id}`));
    if (pseudonymId !== null && events === 0 && streams === 1 && written++ < 2) {
      // An event of the person, and a row which the pseudonym has already.
      ok(await boss.patch(`/v1/collaboration/principals/${ZOE}`, { displayName: `Zoe ${written}` }));
      for (const subjectId of [ZOE, pseudonymId]) {
        const budget = { scope: "principal", subjectId, period: "day", tokens: 1000 };
        ok(await boss.put("/v1/collaboration/ai/budgets", budget));
      }
    }
    store.write = watch;
    return result;
  };
  const watch = store.write;
  await jobOf(gateway)(id);
  store.write = write;
  assert.ok(written >= 2 && runs > 5, `${written} of ${runs}`);
  assert.equal(ok(await boss.get(`${ERASURES}/${id}`)).state, "done");
  assert.deepEqual(await findTexts(gateway, [ZOE]), {});
});

testOnEngines("a direct room keeps no former name of a person who was erased", async (environment) => {
  await using gateway = await openGateway(environment);
  await createCaller(gateway, "boss", { role: "owner" });
  const zoe = await createCaller(gateway, ZOE, { name: "Zq Persona" });
  const bob = await createCaller(gateway, "bob");
  await createCaller(gateway, "carol");
  const createDirect = async (...memberIds: string[]): Promise<string> =>
    ok(await bob.post("/v1/rooms", { kind: "direct", memberIds: [ZOE, ...memberIds] })).id;
  const ids = [await createDirect(), await createDirect("carol"), await createDirect("boss")];
  ok(await bob.patch(`/v1/rooms/${ids[2]}`, { name: "Lunch" }));
  for (const id of ids) await sendMessage(zoe, id, WRITTEN);
  ok(await zoe.patch("/v1/collaboration/me", { displayName: "Zq Other" }));
  await erase(gateway, "anonymize");
  const again = await gateway.as("bob");
  const names = await Promise.all(ids.map(async (id) => ok(await again.get(`/v1/rooms/${id}`)).name));
  assert.deepEqual(names, ["bob, Deleted user", "bob, carol, Deleted user", "Lunch"]);
  // An export that read the members before records now what it has exported.
  const exported = ids.flatMap((id) => ["bob", ZOE].map((member) => partOf.member(id, member)));
  await gateway.app.store.write((tx) => new ImportHistory(tx, "default").record(exported));
  const recorded = await gateway.app.store.db.selectFrom("transfer_import_history").select("name").execute();
  assert.deepEqual(recorded.map(({ name }) => name), ids.map(() => "member bob"));
  assert.deepEqual(await findTexts(gateway, ["Zq Persona", "Zq Other", ZOE]), {});
});

testOnEngines(
  "a private room in which only the person was left is deleted, and a public one stays",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const boss = await createCaller(gateway, "boss", { role: "owner" });
    const zoe = await createCaller(gateway, ZOE);
    const ids = [
      await createRoom(zoe, []),
      await createRoom(zoe, [], { visibility: "public" }),
      await createRoom(zoe, ["boss"]),
    ];
    for (const id of ids) await sendMessage(zoe, id, WRITTEN);
    ok(await boss.get("/v1/collaboration/me"));
    await erase(gateway, "anonymize");
    gateway.clock.advance(31 * DAY_MS);
    await gateway.runJobs();
    const { db } = gateway.app.store;
    const rooms = await db.selectFrom("room").select("id").execute();
    assert.deepEqual(rooms.map(({ id }) => id).sort(), [ids[1], ids[2]].sort());
    const messages = await db.selectFrom("message").select("room_id").execute();
    assert.deepEqual(messages.map(({ room_id }) => room_id).sort(), [ids[1], ids[2]].sort());
  },
);

testOnEngines("an import restores nothing of a person who was erased since the export", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.get("/v1/collaboration/me"));
  await createCaller(gateway, ZOE, { name: "Zq Persona" });
  const bob = await createCaller(gateway, "bob");
  const zoe = await gateway.as(ZOE);
  const roomId = await createRoom(bob, [ZOE]);
  const { id: messageId } = await sendMessage(zoe, roomId, WRITTEN);
  const reply = { threadId: messageId, mentions: { principalIds: [ZOE] } };
  await sendMessage(bob, roomId, "stays", reply);
  const { id: taskId } = ok(await bob.post("/v1/collaboration/tasks", { roomId, title: "Do", assigneeIds: [ZOE] }));
  for (const assigneeIds of [["bob"], [ZOE]]) {
    ok(await bob.patch(`/v1/collaboration/tasks/${taskId}`, { assigneeIds }));
  }
  const documents = "/v1/collaboration/documents";
  ok(await zoe.post(documents, { title: PRIVATE, text: PRIVATE }));
  const { id: documentId } = ok(await bob.post(documents, { roomId, title: "Plan", text: "One" }));
  ok(await zoe.post(`${documents}/${documentId}/comments`, { text: WRITTEN }));
  const scope = { type: "principal", id: ZOE };
  ok(await zoe.post("/v1/collaboration/memory/items", { scope, text: WRITTEN }));
  const archive = await exportTenant(gateway, boss);
  ok(await boss.post(ERASURES, { principalId: ZOE, mode: "delete_content", confirm: ZOE }));
  gateway.clock.advance(7 * DAY_MS + 1000);
  await gateway.runJobs();
  gateway.clock.advance(1000);
  const importAll = async (): Promise<unknown> => {
    const { state, report } = await importArchive(gateway, await gateway.as("boss"), "gateway", archive);
    return [state, report.map(({ code, count }: { code: string; count: number }) => [code, count])];
  };
  assert.deepEqual(await importAll(), ["done", [["principal_erased", 5]]]);
  assert.deepEqual(await findTexts(gateway, [ZOE, "Zq Persona"]), {});

  // Nor where all of the room is imported again.
  const other = await gateway.as("bob", { role: "admin" });
  ok(await other.delete(`/v1/rooms/${roomId}?purge=true`));
  await gateway.runJobs();
  assert.equal((await importAll() as unknown[])[0], "done");
  assert.deepEqual(await findTexts(gateway, [ZOE, "Zq Persona", WRITTEN]), {});
  const { items } = ok(await other.get(`/v1/messages?roomId=${roomId}`));
  assert.deepEqual(items.map(({ senderId, text }: { senderId: string; text: string }) => [senderId, text]), [
    ["erased-0", null],
    ["bob", "stays"],
  ]);
  assert.deepEqual(ok(await other.get(`/v1/collaboration/tasks/${taskId}`)).assigneeIds, ["erased-0"]);

  // Nor does somebody new with the same id get it.
  const fresh = await gateway.as(ZOE);
  ok(await fresh.get("/v1/rooms"));
  assert.deepEqual(await importAll(), ["done", [["principal_erased", 5]]]);
  assert.deepEqual(ok(await fresh.get("/v1/rooms")).items, []);
});

testOnEngines("nor does an import of another product that has no record of the person", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await gateway.as("boss", { role: "owner" });
  const line = (type: string, value: unknown) => JSON.stringify({ type, [type]: value });
  const post = (user: string, message: string, more = {}) =>
    line("post", { team: "t", channel: "c", user, message, create_at: 1_600_000_000_000, ...more });
  const mattermost = (...posts: string[]) =>
    [
      JSON.stringify({ type: "version", version: 1 }),
      line("channel", { team: "t", name: "c", display_name: "C", type: "O" }),
      ...posts,
    ].join("\n");
  const slack = (users: unknown[]) =>
    createZip({
      "users.json": JSON.stringify(users),
      "channels.json": JSON.stringify([{ id: "C1", name: "all", members: ["U1"], creator: "U1" }]),
      "all/2020-01-01.json": JSON.stringify([{
        type: "message",
        user: "U1",
        text: WRITTEN,
        ts: "1577836800.000100",
      }]),
    });
  const zoe = line("user", { username: "zoe", teams: [{ name: "t", channels: [{ name: "c" }] }] });
  const importAll = async (isComplete: boolean): Promise<void> => {
    const as = await gateway.as("boss");
    const archive = slack(isComplete ? [{ id: "U1", name: "zoe" }] : []);
    assert.equal((await importArchive(gateway, as, "slack", archive)).state, "done");
    const reactions = [{ user: "zoe", emoji_name: "smile", create_at: 1_600_000_001_000 }];
    const posts = [post("zoe", WRITTEN), post("bob", "stays", { reactions })];
    const lines = mattermost(...isComplete ? [zoe] : [], ...posts);
    assert.equal((await importArchive(gateway, as, "mattermost", lines)).state, "done");
  };
  ok(await boss.get("/v1/collaboration/me"));
  await importAll(true);
  for (const id of ["slack:U1", "mattermost:zoe"]) {
    ok(await (await gateway.as("boss")).post(ERASURES, { principalId: id, mode: "delete_content", confirm: id }));
    gateway.clock.advance(7 * DAY_MS + 1000);
    await gateway.runJobs();
    gateway.clock.advance(1000);
  }
  for (const { id } of ok(await (await gateway.as("boss")).get("/v1/rooms?member=any")).items) {
    ok(await (await gateway.as("boss")).delete(`/v1/rooms/${id}?purge=true`));
  }
  await gateway.runJobs();
  await importAll(false);
  assert.deepEqual(await findTexts(gateway, ["slack:U1", "mattermost:zoe", WRITTEN]), {});
  const messages = await gateway.app.store.db.selectFrom("message").select(["sender_id", "text"]).execute();
  assert.deepEqual(messages.map(({ sender_id, text }) => `${sender_id} ${text}`).sort(), [
    "erased-0 null",
    "erased-0 null",
    "mattermost:bob stays",
  ]);
});

testOnEngines("the rows of every table are read by a key that is unique in the tenant", async (environment) => {
  await using gateway = await openGateway(environment);
  const { store } = gateway.app;
  for (const [name, { key }] of declarationsOf(gateway)) {
    const columns = store.dialect === "postgres"
      ? sql<{ index: string; name: string }>`
        select i.indexrelid as index, a.attname as name from pg_index i cross join unnest(i.indkey) with ordinality c (number, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = c.number
        where i.indisunique and i.indrelid = ${name}::regclass order by c.place`
      : sql<{ index: string; name: string }>`
        select i.name as "index", c.name, c.seqno as place from pragma_index_list(${name}) i, pragma_index_info(i.name) c
        where i."unique" = 1 union all select 'primary key', name, pk from pragma_table_info(${name}) where pk > 0 order by place`;
    const { rows } = await columns.execute(store.db as unknown as Kysely<unknown>);
    const unique = [...Map.groupBy(rows, (row) => row.index).values()].map((parts) => parts.map((part) => part.name));
    const isUnique = [key, [...key, "tenant_id"]].some((wanted) => unique.some((own) => `${own}` === `${wanted}`));
    assert.ok(isUnique, `${name}: ${key} is none of ${unique.join("; ")}`);
  }
});
