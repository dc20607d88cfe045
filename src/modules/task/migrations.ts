// Tasks with their assignees, labels, relations and activity, and the numbering of each room.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { setTableStatistics, type TableStatistics } from "@/ports/sql/sqlite_statistics.ts";

/** Planner statistics: a tenant has a small part of all tasks, and a parent a small part of a room's, so indexes of both are used. */
const SIZES: TableStatistics = {
  task: {
    sqlite_autoindex_task_1: "1000000 1",
    sqlite_autoindex_task_2: "1000000 20000 1 1",
    task_board: "1000000 20000 200 1",
    task_open: "1000000 20000 200 100",
    task_updated: "1000000 20000 1 1",
    task_created: "1000000 20000 1 1",
    task_priority: "1000000 20000 4000 1",
    task_due_order: "1000000 20000 2 1",
    task_creator: "1000000 20000 200 1 1",
    task_unassigned: "250000 5000 1 1",
    task_parent: "200000 4000 1",
    task_source: "100000 2000 1",
  },
  task_assignee: { sqlite_autoindex_task_assignee_1: "1000000 20000 200 1", task_assignee_task: "1000000 2" },
  task_label: { sqlite_autoindex_task_label_1: "1000000 20000 200 1", task_label_task: "1000000 2" },
};

const baseline: Migration = {
  name: "0001_baseline",
  async up(db, dialect) {
    // The numbering of a room: a key is never reused.
    await sql`create table task_room (
      tenant_id text not null,
      room_id text not null,
      prefix text,
      last_number integer not null,
      constraint task_room_pk primary key (tenant_id, room_id)
    )`.execute(db);

    await sql`create table task (
      tenant_id text not null,
      id text primary key,
      room_id text not null,
      key text not null,
      title text not null,
      description text,
      status text not null,
      is_open integer not null,
      priority integer not null,
      assignee_ids_json text not null,
      labels_json text not null,
      parent_id text,
      start_at text,
      due_at text,
      timezone text not null,
      recurrence_json text,
      next_task_id text,
      source_message_id text,
      thread_id text,
      position text not null,
      metadata_json text not null,
      claimed_by text,
      lease_hash text,
      lease_expires_at text,
      completed_at text,
      version integer not null,
      created_by text not null,
      created_at text not null,
      updated_at text not null,
      deleted_at text,
      deletion_root_id text,
      constraint task_key unique (tenant_id, key, room_id)
    )`.execute(db);
    await sql`create index task_board on task (tenant_id, room_id, position)`.execute(db);
    await sql`create index task_open on task (tenant_id, room_id, is_open)`.execute(db);
    await sql`create index task_updated on task (tenant_id, updated_at, id)`.execute(db);
    await sql`create index task_parent on task (tenant_id, parent_id) where parent_id is not null`.execute(db);
    await sql`create index task_source on task
      (tenant_id, source_message_id) where source_message_id is not null`.execute(db);
    await sql`create index task_unassigned on task
      (tenant_id, updated_at, id) where assignee_ids_json = '[]'`.execute(db);
    await sql`create index task_creator on task (tenant_id, created_by, updated_at, id)`.execute(db);
    // Tasks without a due date sort as well, so the index has a value for them.
    await sql`create index task_due_order on task
      (tenant_id, coalesce(due_at, '9999-12-31T23:59:59.999Z'), id)`.execute(db);
    await sql`create index task_created on task (tenant_id, created_at, id)`.execute(db);
    await sql`create index task_priority on task (tenant_id, priority, id)`.execute(db);

    await sql`create table task_assignee (
      tenant_id text not null,
      principal_id text not null,
      task_id text not null,
      constraint task_assignee_pk primary key (tenant_id, principal_id, task_id)
    )`.execute(db);
    await sql`create index task_assignee_task on task_assignee (task_id)`.execute(db);

    await sql`create table task_label (
      tenant_id text not null,
      label text not null,
      task_id text not null,
      constraint task_label_pk primary key (tenant_id, label, task_id)
    )`.execute(db);
    await sql`create index task_label_task on task_label (task_id)`.execute(db);

    // Each relation has two rows, one for each side.
    await sql`create table task_relation (
      tenant_id text not null,
      task_id text not null,
      kind text not null,
      other_id text not null,
      created_by text not null,
      created_at text not null,
      constraint task_relation_pk primary key (tenant_id, task_id, kind, other_id)
    )`.execute(db);

    await sql`create table task_activity (
      tenant_id text not null,
      task_id text not null,
      version integer not null,
      id text not null,
      type text not null,
      actor_id text not null,
      changes_json text not null,
      at text not null,
      constraint task_activity_pk primary key (tenant_id, task_id, version)
    )`.execute(db);

    if (dialect === "sqlite") await setTableStatistics(db, SIZES);
  },
};

/** The few tasks of a status, and those that were deleted together, are found without reading all of the tenant. */
const statuses: Migration = {
  name: "0002_index_statuses",
  async up(db, dialect) {
    await sql`create index task_status on task (tenant_id, status, room_id)`.execute(db);
    await sql`create index task_deleted on task
      (tenant_id, deletion_root_id) where deletion_root_id is not null`.execute(db);
    if (dialect !== "sqlite") return;
    await setTableStatistics(db, { task: { task_status: "1000000 20000 4000 20", task_deleted: "20000 400 2" } });
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, statuses];
