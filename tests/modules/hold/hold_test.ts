// Legal holds: what is under one is neither swept nor purged, users cannot delete it, and it ends as it would have after the release.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { DAY_MS } from "@/core/time/clock.ts";
import { HoldStore } from "@/modules/hold/store.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { upload } from "../file/file_harness.ts";
import { withAdminConnection } from "../../temporary_database.ts";
import { assertProblem, createRoom, ok, sendMessage } from "../fixtures.ts";
import { prepareStatement } from "../postgres_plan.ts";
import { recordQueries } from "../query_log.ts";

const API = "/v1/collaboration";
const HOLDS = `${API}/holds`;

/** The owner and a member of a tenant, with new tokens. */
async function callersOf(gateway: Harness, tenant: string): Promise<{ olga: Caller; bob: Caller }> {
  const [olga, bob] = [await gateway.as("olga", { tenant, role: "owner" }), await gateway.as("bob", { tenant })];
  for (const caller of [olga, bob]) ok(await caller.get(`${API}/me`));
  return { olga, bob };
}

async function pass(gateway: Harness, days: number): Promise<void> {
  gateway.clock.advance(days * DAY_MS);
  await gateway.app.runMaintenance();
  await gateway.runJobs();
}

async function countRows(gateway: Harness, tenant: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of ["message", "message_edit", "task", "document", "file"]) {
    const rows = await gateway.app.store.db.selectFrom(table).select("tenant_id").where("tenant_id", "=", tenant)
      .execute();
    counts[table] = rows.length;
  }
  return counts;
}

testOnEngines("what is under a hold stays until the hold is released", async (environment) => {
  await using gateway = await openGateway(environment);
  const subjects = {
    tenant: () => ({}),
    room: (roomId: string) => ({ roomId }),
    principal: () => ({ principalId: "bob" }),
    none: () => undefined,
  };
  const holds = new Map<string, string>();
  for (const [tenant, subject] of Object.entries(subjects)) {
    const { olga, bob } = await callersOf(gateway, tenant);
    const roomId = await createRoom(olga, ["bob"], { retentionDays: 7 });
    const file = ok(await upload(gateway, bob, { name: "a.txt" }, "shown")).id;
    ok(await upload(gateway, bob, { name: "b.txt" }, "not shown"));
    const message = await sendMessage(bob, roomId, "First", { fileIds: [file] });
    ok(await bob.patch(`/v1/messages/${message.id}`, { text: "Second" }));
    const task = ok(await bob.post(`${API}/tasks`, { roomId, title: "Plan" }));
    const document = ok(await bob.post(`${API}/documents`, { roomId, title: "Plan", text: "One" }));
    const given = subject(roomId);
    if (given !== undefined) {
      holds.set(tenant, ok(await olga.post(HOLDS, { ...given, reason: "Case 1" })).id);
      assertProblem(await bob.delete(`/v1/messages/${message.id}`), 409, "legal_hold");
      assertProblem(await bob.delete(`${API}/files/${file}`), 409, "legal_hold");
      assertProblem(await olga.delete(`/v1/rooms/${roomId}?purge=true`), 409, "legal_hold");
    }
    // Who has them no longer sees them, as always.
    ok(await bob.delete(`${API}/tasks/${task.id}`));
    ok(await bob.delete(`${API}/documents/${document.id}`));
  }
  const all = { message: 1, message_edit: 1, task: 1, document: 1, file: 2 };
  const nothing = { message: 0, message_edit: 0, task: 0, document: 0, file: 0 };
  await pass(gateway, 40);
  await pass(gateway, 2);
  for (const tenant of holds.keys()) assert.deepEqual(await countRows(gateway, tenant), all, tenant);
  assert.deepEqual(await countRows(gateway, "none"), nothing);
  for (const tenant of holds.keys()) {
    const { olga } = await callersOf(gateway, tenant);
    const [room] = ok(await olga.get("/v1/rooms")).items;
    ok(await olga.delete(`/v1/rooms/${room.id}`));
  }
  await pass(gateway, 40);
  for (const tenant of holds.keys()) assert.deepEqual(await countRows(gateway, tenant), all, tenant);
  for (const [tenant, id] of holds) {
    const { olga } = await callersOf(gateway, tenant);
    ok(await olga.post(`${HOLDS}/${id}/release`));
  }
  await pass(gateway, 2);
  await pass(gateway, 2);
  for (const tenant of holds.keys()) assert.deepEqual(await countRows(gateway, tenant), nothing, tenant);
});

testOnEngines(
  "a hold that is created while a room is purged or retention deletes keeps what is there",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { olga } = await callersOf(gateway, "default");
    const retained = await createRoom(olga, ["bob"], { retentionDays: 7 });
    const purged = await createRoom(olga, ["bob"]);
    for (const roomId of [retained, purged]) await sendMessage(olga, roomId, "First");
    ok(await olga.delete(`/v1/rooms/${purged}`));
    // They are run here: the runner would not wait for the hold.
    await gateway.app.jobs.stop();
    gateway.clock.advance(40 * DAY_MS);
    const jobs = gateway.app.modules.flatMap(({ jobs = [] }) => jobs);
    const { store } = gateway.app;
    const write = store.write.bind(store);
    // The write that decides comes first in a purge; in retention, what is deleted was read before.
    for (const [kind, roomId, writesBefore] of [["room.purge", purged, 1], ["message.expire", retained, 0]] as const) {
      const { olga } = await callersOf(gateway, "default");
      let left = writesBefore;
      store.write = async (work) => {
        if (!store.isInTransaction && left-- === 0) ok(await olga.post(HOLDS, { roomId, reason: "Case 1" }));
        return await write(work);
      };
      const run = async (): Promise<void> =>
        await jobs.find((job) => job.kind === kind)?.run({ tenantId: "default", payload: { roomId }, attempt: 1 });
      // Tried again as any job that fails.
      await run().catch((error) => assert.equal(error.code, "legal_hold"));
      store.write = write;
      assert.ok(left < 0);
      await run();
    }
    assert.equal((await countRows(gateway, "default"))["message"], 2);
  },
);

testOnEngines("comments, events, facts and texts of runs stay under a hold", async (environment) => {
  await using gateway = await openGateway(environment);
  for (const [tenant, code] of [["held", 409], ["free", 200]] as const) {
    const { olga, bob } = await callersOf(gateway, tenant);
    const roomId = await createRoom(olga, ["bob"]);
    const { id: documentId } = ok(await olga.post(`${API}/documents`, { roomId, title: "Plan", text: "One" }));
    const comments = `${API}/documents/${documentId}/comments`;
    const { id: commentId } = ok(await bob.post(comments, { text: "First" }));
    const start = { dateTime: "2026-04-05T09:00:00", timeZone: "Europe/Vienna" };
    const series = { title: "Talk", start, durationMinutes: 30, rrule: "FREQ=DAILY;COUNT=5" };
    const { id: eventId } = ok(await olga.post(`${API}/calendar/events`, { roomId, ...series }));
    const event = `${API}/calendar/events/${eventId}`;
    const occurrence = (day: number) => `scope=this&occurrence=2026-04-0${day}T09:00:00`;
    ok(await olga.patch(`${event}?${occurrence(6)}`, { title: "Other" }));
    const expiresAt = new Date(gateway.clock.now() + DAY_MS).toISOString();
    const fact = (text: string, more = {}) =>
      bob.post(`${API}/memory/items`, { scope: { type: "room", id: roomId }, text, ...more });
    const { id: factId } = ok(await fact("It is kept"));
    ok(await fact("It expires", { expiresAt }));
    const { id: agentId } = ok(await bob.post(`${API}/principals`, { kind: "agent", displayName: "Robo" }));
    ok(await olga.put(`/v1/rooms/${roomId}/members/${agentId}`));
    const robo = await gateway.as(agentId, { kind: "agent", tenant });
    const { id: triggerMessageId } = await sendMessage(bob, roomId, "Well?");
    const { id: runId } = ok(await robo.post(`${API}/ai/runs`, { roomId, triggerMessageId }));
    ok(await robo.post(`${API}/ai/runs/${runId}/append`, { step: 0, offset: 0, text: "Thinking" }));
    ok(await robo.post(`${API}/ai/runs/${runId}/finish`, {}));
    if (tenant === "held") ok(await olga.post(HOLDS, { principalId: "bob", reason: "Case 1" }));

    ok(await bob.patch(`${comments}/${commentId}`, { resolved: true }));
    ok(await olga.delete(`${event}?${occurrence(7)}`));
    for (
      const refused of [
        bob.patch(`${comments}/${commentId}`, { text: "Second" }),
        bob.delete(`${comments}/${commentId}`),
        olga.delete(`${event}?${occurrence(6)}`),
        olga.delete(`${event}?scope=following&occurrence=2026-04-06T09:00:00`),
        olga.delete(event),
        bob.delete(`${API}/memory/items/${factId}`),
      ]
    ) {
      if (code === 409) assertProblem(await refused, 409, "legal_hold");
      else await refused;
    }
  }
  await pass(gateway, 3);
  const { db } = gateway.app.store;
  const left = async (tenant: string): Promise<unknown[]> => {
    const rowsOf = (table: string) => db.selectFrom(table).selectAll().where("tenant_id", "=", tenant).execute();
    const texts = (await rowsOf("memory")).filter(({ text }) => text !== null);
    const [run] = await rowsOf("agent_run");
    const rows = [...await rowsOf("document_comment"), ...await rowsOf("calendar_event")];
    return [rows.length, texts.length, run?.is_trimmed];
  };
  assert.deepEqual(await left("free"), [0, 0, 1]);
  assert.deepEqual(await left("held"), [2, 2, 0]);
  const { olga } = await callersOf(gateway, "held");
  const [{ id }] = ok(await olga.get(HOLDS)).items;
  ok(await olga.post(`${HOLDS}/${id}/release`));
  await pass(gateway, 1);
  assert.deepEqual(await left("held"), [2, 1, 1]);
});

testOnEngines("tasks and events under a hold keep what is changed of them until its release", async (environment) => {
  await using gateway = await openGateway(environment);
  const { olga, bob } = await callersOf(gateway, "default");
  const change = async (roomId: string): Promise<string[]> => {
    const task = ok(await bob.post(`${API}/tasks`, { roomId, title: "Plan", description: "One" }));
    ok(await bob.patch(`${API}/tasks/${task.id}`, { description: "Two" }));
    const start = { dateTime: "2026-04-05T09:00:00", timeZone: "Europe/Vienna" };
    const event = ok(await bob.post(`${API}/calendar/events`, { roomId, title: "Talk", start, durationMinutes: 30 }));
    ok(await bob.patch(`${API}/calendar/events/${event.id}`, { title: "Other" }));
    return [task.id, event.id];
  };
  await change(await createRoom(olga, ["bob"]));
  const STATES = `${HOLDS}/states`;
  assert.deepEqual(ok(await olga.get(STATES)).items, [], "neither is under a hold");
  const roomId = await createRoom(olga, ["bob"]);
  const { id: holdId } = ok(await olga.post(HOLDS, { roomId, reason: "Case 1" }));
  const [taskId, eventId] = await change(roomId);
  const { items } = ok(await olga.get(STATES));
  const summary = items.map((one: Record<string, unknown>) => [one["type"], one["resourceId"], one["version"]]);
  assert.deepEqual(summary, [["event", eventId, 1], ["task", taskId, 1]]);
  assert.deepEqual([items[0].state.event.title, items[1].state.description], ["Talk", "One"]);
  assert.deepEqual([items[0].replacedBy, items[1].replacedBy], ["bob", "bob"]);
  assert.equal(ok(await olga.get(`${STATES}?resourceId=${taskId}`)).items.length, 1);
  assertProblem(await bob.get(STATES), 403, "forbidden");
  const attendees = [{ principalId: "bob" }];
  ok(await olga.patch(`${API}/calendar/events/${eventId}`, { attendees }));
  const respond = async (status: string) => ok(await bob.put(`${API}/calendar/events/${eventId}/rsvp`, { status }));
  for (const status of ["accepted", "declined"]) await respond(status);
  const [kept] = ok(await olga.get(STATES)).items;
  assert.deepEqual([kept.resourceId, kept.state.event.attendees[0].status], [eventId, "accepted"]);
  await pass(gateway, 1);
  const { olga: later } = await callersOf(gateway, "default");
  assert.equal(ok(await later.get(STATES)).items.length, 4);
  ok(await later.post(`${HOLDS}/${holdId}/release`));
  await pass(gateway, 1);
  const { olga: last } = await callersOf(gateway, "default");
  assert.deepEqual(ok(await last.get(STATES)).items, []);
});

testOnEngines("facts about a principal under a hold stay, wherever they are from", async (environment) => {
  await using gateway = await openGateway(environment);
  const { olga } = await callersOf(gateway, "default");
  ok(await (await gateway.as("carol")).get(`${API}/me`));
  const rooms = [await createRoom(olga, ["bob"]), await createRoom(olga, ["bob"])];
  const facts: string[] = [];
  for (const roomId of rooms) {
    const { id: messageId } = await sendMessage(olga, roomId, "Carol likes tea");
    const sourceMessageIds = [messageId];
    for (const scope of [{ type: "room", id: roomId }, { type: "tenant" }]) {
      const fact = { scope, text: `Carol likes tea ${roomId}`, sourceMessageIds, subjectIds: ["carol"] };
      facts.push(ok(await olga.post(`${API}/memory/items`, fact)).id);
    }
    if (roomId === rooms[0]) continue;
    const { id } = ok(await olga.post(HOLDS, { principalId: "carol", reason: "Case 1" }));
    assertProblem(await olga.delete(`${API}/memory/items/${facts[0]}`), 409, "legal_hold");
    // One is purged, in the other the message is deleted: Carol is in neither, so they are not under the hold.
    ok(await olga.delete(`/v1/rooms/${rooms[0]}?purge=true`));
    ok(await olga.delete(`/v1/messages/${messageId}`));
    await pass(gateway, 2);
    const left = async (): Promise<number> => {
      const rows = await gateway.app.store.db.selectFrom("memory").select(["text"]).execute();
      return rows.filter(({ text }) => text !== null).length;
    };
    assert.equal(await left(), 4);
    const { olga: owner } = await callersOf(gateway, "default");
    ok(await owner.post(`${HOLDS}/${id}/release`));
    await pass(gateway, 2);
    assert.equal(await left(), 0);
  }
});

testOnEngines(
  "facts of an erased person about a principal under a hold stay until its release",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { olga, bob } = await callersOf(gateway, "default");
    ok(await (await gateway.as("carol")).get(`${API}/me`));
    const roomId = await createRoom(olga, ["bob"]);
    for (const subjectIds of [["carol"], ["bob"], ["bob", "carol"]]) {
      const scope = subjectIds.length === 2 ? { type: "room", id: roomId } : { type: "principal", id: "bob" };
      ok(await bob.post(`${API}/memory/items`, { scope, text: `Of ${subjectIds.join()}`, subjectIds }));
    }
    const { id } = ok(await olga.post(HOLDS, { principalId: "carol", reason: "Case 1" }));
    ok(await olga.post(`${API}/erasures`, { principalId: "bob", mode: "anonymize", confirm: "bob" }));
    await pass(gateway, 8);
    const texts = async (): Promise<unknown[]> => {
      const rows = await gateway.app.store.db.selectFrom("memory").select(["text", "scope_id"]).execute();
      return rows.filter(({ text }) => text !== null).map(({ text, scope_id }) => `${text} ${scope_id}`).sort();
    };
    assert.deepEqual(await texts(), [`Of bob,carol ${roomId}`, "Of carol erased-1"]);
    await pass(gateway, 2);
    assert.equal((await texts()).length, 2);
    const { olga: later } = await callersOf(gateway, "default");
    ok(await later.post(`${HOLDS}/${id}/release`));
    await pass(gateway, 2);
    assert.deepEqual(await texts(), []);
  },
);

testOnEngines("revisions of a document under a hold, and the audit log of its tenant, stay", async (environment) => {
  await using gateway = await openGateway({ ...environment, SVC_LIMIT_AUDIT_DAYS: "10" });
  const revisions: Record<string, number> = {};
  const audited: Record<string, unknown> = {};
  const documents = new Map<string, string>();
  for (const tenant of ["free", "held"]) {
    const { olga, bob } = await callersOf(gateway, tenant);
    const roomId = await createRoom(olga, ["bob"]);
    documents.set(tenant, ok(await bob.post(`${API}/documents`, { roomId, title: "Plan", text: "One" })).id);
    if (tenant === "held") ok(await olga.post(HOLDS, { reason: "Case 1" }));
    else ok(await olga.post(`${API}/invitations`));
  }
  await pass(gateway, 400);
  for (const [tenant, id] of documents) {
    const { olga, bob } = await callersOf(gateway, tenant);
    const { revision } = ok(await bob.get(`${API}/documents/${id}/content`));
    ok(await bob.put(`${API}/documents/${id}/content`, { text: "Two", revision }));
    revisions[tenant] = ok(await bob.get(`${API}/documents/${id}/revisions`)).items.length;
    audited[tenant] = ok(await olga.get(`${API}/audit/verification`)).firstSeq;
  }
  assert.deepEqual(revisions, { free: 1, held: 2 });
  assert.deepEqual(audited, { free: 2, held: 1 });
});

testOnEngines(
  "whether a principal under a hold has written in a room is known without reading the room",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { olga } = await callersOf(gateway, "default");
    const roomId = await createRoom(olga, []);
    const { id } = await sendMessage(olga, roomId, "One of many");
    const { store } = gateway.app;
    await store.write(async (tx) => {
      const row = await tx.db.selectFrom("message").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      const copies = Array.from({ length: 2000 }, (_, n) => ({
        ...row,
        id: `${id}-${n}`,
        room_id: n % 4 === 0 ? `room-${n % 50}` : roomId,
        sender_id: `sender-${n % 30}`,
        seq: 100 + n,
      }));
      await tx.insertMany("message", copies.map((copy, n) => ({ ...copy, client_message_id: n % 2 ? `${n}` : null })));
    });
    ok(await olga.post(HOLDS, { principalId: "bob", reason: "x" }));
    const statements = await recordQueries(async () => {
      assert.equal(await new HoldStore(store.db).areIn("default", ["bob"], [roomId]), false);
    });
    const searches = statements.filter(({ sql }) => sql.includes(`from "message"`));
    assert.equal(searches.length, 1);
    if (store.dialect === "sqlite") {
      for (const { sql, parameters } of searches) {
        const query = CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]);
        const plan = await store.db.executeQuery<{ detail: string }>(query);
        assert.match(plan.rows[0]?.detail ?? "", /\(room_id=\? AND sender_id=\?/);
      }
      return;
    }
    await withAdminConnection(environment["SVC_DATABASE_URL"] ?? "", async (sql) => {
      await sql`analyze message`;
      for (const search of searches) assert.equal(await (await prepareStatement(sql, search))(), 0);
    });
  },
);

testOnEngines("administrators create, list and release holds", async (environment) => {
  await using gateway = await openGateway(environment);
  const { olga, bob } = await callersOf(gateway, "default");
  const roomId = await createRoom(bob, []);
  const hold = ok(await olga.post(HOLDS, { roomId, reason: "a confidential case" }));
  assert.deepEqual([hold.roomId, hold.principalId, hold.createdBy, hold.releasedAt], [roomId, null, "olga", null]);
  assertProblem(await olga.post(HOLDS, { roomId, principalId: "bob", reason: "x" }), 422, "validation_failed");
  assertProblem(
    await olga.post(HOLDS, { roomId: "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60", reason: "x" }),
    404,
    "not_found",
  );
  assertProblem(await olga.post(HOLDS, { principalId: "nobody", reason: "x" }), 404, "not_found");
  assertProblem(await olga.post(HOLDS, { roomId }), 422, "validation_failed");
  assertProblem(await bob.post(HOLDS, { reason: "x" }), 403, "forbidden");
  assertProblem(await bob.get(HOLDS), 403, "forbidden");
  const reader = await gateway.as("olga", { role: "owner", scope: "hold.read" });
  assertProblem(await reader.post(HOLDS, { reason: "x" }), 403, "scope_missing");
  assert.deepEqual(ok(await reader.get(`${HOLDS}?released=false`)).items, [hold]);
  const stranger = await gateway.as("eve", { role: "owner", tenant: "other" });
  assertProblem(await stranger.post(`${HOLDS}/${hold.id}/release`), 404, "not_found");
  const released = ok(await olga.post(`${HOLDS}/${hold.id}/release`));
  assert.deepEqual([released.id, released.releasedBy], [hold.id, "olga"]);
  assertProblem(await olga.post(`${HOLDS}/${hold.id}/release`), 409, "conflict");
  assert.deepEqual(ok(await olga.get(`${HOLDS}?released=false`)).items, []);
  assert.deepEqual(ok(await olga.get(`${HOLDS}?released=true`)).items, [released]);
  const { items } = ok(await olga.get(`${API}/audit?operation=hold`));
  assert.deepEqual(
    items.map(({ operation, resourceId }: Record<string, unknown>) => [operation, resourceId]),
    [["hold.release", hold.id], ["hold.create", hold.id]],
  );
  assert.deepEqual(items[1].changes, { roomId, reason: null });
  await gateway.app.store.write(async ({ db }) => {
    for (let n = 0; n < 200; n++) {
      await db.insertInto("legal_hold").values({
        tenant_id: "default",
        id: `hold_${n}`,
        principal_id: "bob",
        reason: "x",
        created_by: "olga",
        created_at: "2026-03-01T12:00:00.000Z",
      }).execute();
    }
  });
  assertProblem(await olga.post(HOLDS, { reason: "x" }), 409, "limit_reached");
});
