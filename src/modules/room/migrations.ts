// Rooms, members and bans. On PostgreSQL triggers give a room's stream another access version with each change of who has
// access, so that none can be forgotten.
import { type Kysely, sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { setTableStatistics, type TableStatistics } from "@/ports/sql/sqlite_statistics.ts";

/** The columns of members and rooms that decide about access. */
const OF_MEMBER = ["role", "joined_seq"];
const OF_ROOM = ["kind", "visibility", "history_visibility", "state", "member_count", "agent_policy_json"];

/**
 * Planner statistics: a room has a small part of a tenant's memberships. A principal has fewer than a tenant has rooms, so what
 * it can see is read from its memberships.
 */
const SIZES: TableStatistics = {
  member: { sqlite_autoindex_member_1: "1000000 20 1", member_principal: "1000000 20000 5 1" },
};

const baseline: Migration = {
  name: "0001_baseline",
  async up(db, dialect) {
    const isPostgres = dialect === "postgres";
    // Lists read the latest rooms from an index of minutes: an index of the time itself would change with each message.
    // On PostgreSQL, free space in a page allows updates without writing to indexes (HOT).
    await sql`create table room (
      tenant_id text not null,
      id text primary key,
      name text not null,
      slug text,
      topic text,
      description text,
      kind text not null,
      visibility text not null,
      history_visibility text not null,
      state text not null,
      agent_policy_json text not null,
      retention_days integer,
      metadata_json text not null,
      member_count integer not null,
      direct_key text,
      last_message_at text,
      active_at text not null,
      active_minute text generated always as (substr(active_at, 1, 16)) ${sql.raw(isPostgres ? "stored" : "virtual")},
      version integer not null,
      created_by text not null,
      created_at text not null,
      updated_at text not null,
      deleted_at text,
      restore_state_json text,
      constraint room_slug unique (tenant_id, slug),
      constraint room_direct_key unique (tenant_id, direct_key)
    ) ${sql.raw(isPostgres ? "with (fillfactor = 50)" : "")}`.execute(db);
    await sql`create index room_active on room (tenant_id, active_minute)`.execute(db);
    // For viewers that browse public rooms without being members.
    await sql`create index room_public on room (tenant_id, id) where visibility = 'public'`.execute(db);

    await sql`create table member (
      tenant_id text not null,
      room_id text not null,
      principal_id text not null,
      role text not null,
      joined_at text not null,
      joined_seq bigint not null,
      last_read_seq bigint not null,
      published_version integer not null,
      notify_level text not null,
      muted_until text,
      favorite_order integer,
      constraint member_pk primary key (room_id, principal_id)
    )`.execute(db);
    await sql`create index member_principal on member (tenant_id, principal_id, room_id)`.execute(db);

    await sql`create table ban (
      tenant_id text not null,
      room_id text not null,
      principal_id text not null,
      reason text,
      created_by text not null,
      created_at text not null,
      constraint ban_pk primary key (tenant_id, room_id, principal_id)
    )`.execute(db);

    if (isPostgres) await createAccessTriggers(db);
  },
};

/** Without them, SQLite reads all memberships of the tenant for those of one room. */
const statistics: Migration = {
  name: "0002_statistics",
  async up(db, dialect) {
    if (dialect === "sqlite") await setTableStatistics(db, SIZES);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, statistics];

async function createAccessTriggers(db: Kysely<unknown>): Promise<void> {
  // Streams are locked in the order of names, as everywhere.
  await sql`create function renew_access_version_of_many() returns trigger language plpgsql as $$
    begin
      perform 1 from stream where (tenant_id, name) in (select tenant_id, 'room:' || room_id from changed)
        order by tenant_id, name for update;
      update stream set access_version = default
        where (tenant_id, name) in (select tenant_id, 'room:' || room_id from changed);
      return null;
    end $$`.execute(db);
  for (const table of ["member", "ban"]) {
    for (const [change, rows] of [["insert", "new"], ["delete", "old"]] as const) {
      await sql.raw(`create trigger ${table}_${change}_access after ${change} on ${table}
        referencing ${rows} table as changed for each statement execute function renew_access_version_of_many()`)
        .execute(db);
    }
  }
  await renewOnUpdate(db, { table: "member", roomId: "room_id", columns: OF_MEMBER });
  await renewOnUpdate(db, { table: "room", roomId: "id", columns: OF_ROOM });
}

/** Renews the access version of the room that `roomId` names in a row, when one of the columns changes. */
async function renewOnUpdate(
  db: Kysely<unknown>,
  { table, roomId, columns }: { table: string; roomId: string; columns: readonly string[] },
): Promise<void> {
  await sql.raw(`create function renew_access_version_of_${table}() returns trigger language plpgsql as $$
    begin
      update stream set access_version = default where tenant_id = new.tenant_id and name = 'room:' || new.${roomId};
      return null;
    end $$`).execute(db);
  const isOther = columns.map((column) => `old.${column} is distinct from new.${column}`).join(" or ");
  await sql.raw(`create trigger ${table}_update_access after update of ${columns.join(", ")} on ${table}
    for each row when (${isOther}) execute function renew_access_version_of_${table}()`).execute(db);
}
