// What a large tenant reads on PostgreSQL, among many small ones.
import assert from "node:assert/strict";
import type postgres from "postgres";
import { ErasedTableStore } from "@/modules/erasure/table_store.ts";
import { MessageArchiveStore } from "@/modules/message/archive_store.ts";
import { MessageStore } from "@/modules/message/store.ts";
import { TaskArchiveStore } from "@/modules/task/archive/store.ts";
import { TaskStore } from "@/modules/task/store.ts";
import { existingIds, idsOfOtherTenants } from "@/ports/sql/global_ids.ts";
import { testOnPostgres } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { withAdminConnection } from "../../temporary_database.ts";
import { CALENDAR } from "../calendar/calendar_fixture.ts";
import { createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { prepareStatement } from "../postgres_plan.ts";
import { recordQueries, recordWrites } from "../query_log.ts";

const SMALL_TENANTS = 200;
/** Rooms of the large tenant, all with alice. */
const ROOMS = 400;
/** Tasks and documents of its first room: more than are all read and sorted. */
const ITEMS = 2500;
/** A few rows for each room, but not all memberships for each of them. */
const ROWS_MAX = 30 * ROOMS;

const AGENDA = `${CALENDAR}/events?from=2026-03-04T00:00:00Z&to=2026-03-05T00:00:00Z`;
const PATHS = [
  "/v1/rooms",
  "/v1/rooms?sort=name",
  "/v1/rooms?member=me",
  "/v1/collaboration/sync",
  "/v1/collaboration/unreads",
  "/v1/collaboration/tasks",
  "/v1/collaboration/tasks?q=nothing",
  "/v1/collaboration/documents",
];

/** What somebody reads who is in one of the rooms: not the memberships of each, nor all meetings, messages or old events. */
const narrowPaths = (roomId: string): string[] => [
  "/v1/rooms",
  "/v1/rooms?sort=name",
  "/v1/collaboration/meetings?state=scheduled",
  "/v1/collaboration/tasks?status=done&sort=position",
  `/v1/collaboration/tasks?status=done&sort=position&roomId=${roomId}`,
  `/v1/messages?roomId=${roomId}&senderId=bob`,
  `/v1/messages?roomId=${roomId}&types=system`,
  AGENDA,
];
const NARROW_ROWS_MAX = 2 * ROOMS;

testOnPostgres("lists of a large tenant among small ones do not read all of it for each row", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  ok(await alice.post("/v1/collaboration/meetings", { roomId }));
  ok(await alice.post("/v1/collaboration/tasks", { roomId, title: "Task" }));
  ok(await alice.post("/v1/collaboration/documents", { roomId, title: "Document" }));
  const message = await sendMessage(alice, roomId, "Message");
  ok(await alice.put(`/v1/messages/${message.id}/reactions/👍`));
  const start = { dateTime: "2026-03-04T08:00:00", timeZone: "UTC" };
  ok(await alice.post(`${CALENDAR}/events`, { title: "Event", start, attendees: [{ principalId: "alice" }] }));
  await withAdminConnection(environment["SVC_DATABASE_URL"] ?? "", async (sql) => {
    const small = {
      tenant: `'t' || n % ${SMALL_TENANTS}`,
      id: "'small' || n",
      principal: "'p' || n",
      room: "'small' || n",
    };
    await addRows(sql, 5 * SMALL_TENANTS, 5 * SMALL_TENANTS, small);
    const large = { tenant: "'default'", id: "'large' || n", principal: "one.principal_id", room: "one.room_id" };
    await addRows(sql, ROOMS, ITEMS, large);
    await copyRow(sql, "meeting", ITEMS, { id: large.id, state: "'ended'", is_open: "0" });
    await copyRow(sql, "message", ITEMS, { id: large.id, seq: "100 + n", sender_id: "'other' || n % 3" });
    const old = { id: "'old' || n", uid: "'old' || n", from_at: "'2025-03-04'", to_at: "'2025-03-05'" };
    await copyRow(sql, "calendar_event", ITEMS, { ...old, created_by: "'other'", room_id: "null" });
    await copyRow(sql, "calendar_attendee", ITEMS, { event_id: old.id, principal_id: "'bob'" });
    await sql.unsafe(
      "analyze message, room, member, stream, task, document, calendar_event, calendar_attendee, meeting",
    );
    for (
      const [caller, paths, rowsMax] of [
        [alice, PATHS, ROWS_MAX],
        // She attends one of all those events.
        [alice, [AGENDA], ITEMS],
        [bob, narrowPaths(roomId), NARROW_ROWS_MAX],
      ] as const
    ) {
      for (const path of paths) {
        const statements = await recordQueries(async () => void ok(await caller.get(path)));
        for (const statement of statements) {
          const rows = await (await prepareStatement(sql, statement))();
          assert.ok(rows < rowsMax, `${path} reads ${rows} rows: ${statement.sql}`);
        }
      }
    }
    // The streams of a message, as few as they are, among some thousands: more would not all be read in any case.
    await copyRow(sql, "stream", 2 * ITEMS, { tenant_id: large.tenant, name: "'principal:large' || n" });
    await sql.unsafe("analyze stream");
    const writes = await recordWrites(() => sendMessage(alice, roomId, "Next"));
    const [advance] = writes.filter(({ sql }) => sql.includes('update "stream"'));
    assert.ok(advance !== undefined);
    for (const prepared of [undefined, { cacheable: false }]) {
      const rows = await (await prepareStatement(sql, { ...advance, prepared }))();
      assert.ok(rows < 20, `a send reads ${rows} rows for its stream`);
    }
    // An erasure walks whole tables: the rows up to the end of the next part, and not all for each part.
    const tasks = new ErasedTableStore(gateway.app.store.db, "postgres", "task", { key: ["id"] });
    for (const statement of await recordQueries(() => tasks.keyAfter("default", { id: "large" }, 100))) {
      const rows = await (await prepareStatement(sql, statement))();
      assert.ok(rows < ITEMS, `a part of an erasure reads ${rows} tasks`);
    }
    // A page of an export or of a purge names hundreds, of which each is looked up.
    await copyRow(sql, "reaction", 2 * ITEMS, { message_id: large.id });
    await copyRow(sql, "task_activity", 2 * ITEMS, { task_id: large.id });
    await sql.unsafe("analyze reaction, task_activity");
    const { store } = gateway.app;
    const ids = Array.from({ length: 500 }, (_, n) => `large${n + 1}`);
    const reads = await recordQueries(async () => {
      assert.equal((await new MessageArchiveStore(store.db).reactionsOf("default", ids)).length, ids.length);
      assert.equal((await new TaskArchiveStore(store.db).activity("default", ids, undefined, 600)).length, ids.length);
      assert.equal((await existingIds(store.db, "task", "default", ids)).size, ids.length);
      assert.equal((await idsOfOtherTenants(store.db, "task", "other", ids)).size, ids.length);
    });
    const removals = await recordWrites(() =>
      store.write(async ({ db }) => {
        assert.equal(await new MessageStore(db).remove("default", ids), ids.length);
        await new TaskStore(db).purge("default", ids);
      })
    );
    for (const statement of [...reads, ...removals]) {
      const rows = await (await prepareStatement(sql, statement))();
      assert.ok(rows < ITEMS, `${ids.length} ids read ${rows} rows: ${statement.sql}`);
    }
  });
});

/** Expressions over the row `one` that is copied, and the number `n` of the copy. */
type Values = { tenant: string; id: string; principal: string; room: string };

/** Copies of the first row of each table. */
async function addRows(sql: postgres.Sql, rooms: number, items: number, values: Values): Promise<void> {
  const { tenant: tenant_id, id, principal: principal_id, room: room_id } = values;
  await copyRow(sql, "room", rooms, { tenant_id, id });
  await copyRow(sql, "member", rooms, { tenant_id, room_id: id, principal_id });
  await copyRow(sql, "stream", rooms, { tenant_id, name: `'room:' || ${id}` });
  await copyRow(sql, "task", items, { tenant_id, id, room_id, key: id });
  await copyRow(sql, "document", items, { tenant_id, id, room_id });
  await copyRow(sql, "calendar_event", rooms, { tenant_id, id, uid: id });
  await copyRow(sql, "calendar_attendee", rooms, { tenant_id, event_id: id, principal_id });
}

async function copyRow(
  sql: postgres.Sql,
  table: string,
  count: number,
  changed: Record<string, string>,
): Promise<void> {
  const [columns] = await sql.unsafe(`select string_agg(attname, ',') as names from pg_attribute
    where attrelid = '${table}'::regclass and attnum > 0 and attgenerated = ''`);
  const values = Object.entries(changed).flatMap(([column, value]) => [`'${column}'`, value]).join(", ");
  await sql.unsafe(`insert into ${table} (${columns?.names}) select ${columns?.names.replaceAll(/\w+/g, "copy.$&")}
    from (select * from ${table} limit 1) as one, generate_series(1, ${count}) as n,
      jsonb_populate_record(null::${table}, to_jsonb(one) || jsonb_build_object(${values})) as copy`);
}
