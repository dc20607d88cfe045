// The tables of every store: streams, events, jobs, stored responses and written bytes.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db, dialect) {
    const isPostgres = dialect === "postgres";
    // A row changes at every write: space on its page lets PostgreSQL update it without touching the index.
    // `access_version` changes whenever who may read the stream does. It is random, so that no value comes again after a rollback or
    // after a restore. SQLite has one process, which knows its own changes.
    await sql`create table stream (
      tenant_id text not null,
      name text not null,
      epoch text not null,
      head bigint not null,
      floor bigint not null,
      ${sql.raw(isPostgres ? "access_version bigint not null default floor(random() * 9007199254740991)," : "")}
      constraint stream_key primary key (tenant_id, name)
    ) ${sql.raw(isPostgres ? "with (fillfactor = 50)" : "without rowid")}`.execute(db);

    // On SQLite with a row id: inside the index, every event would take a page of its own.
    await sql`create table event (
      tenant_id text not null,
      stream text not null,
      seq bigint not null,
      type text not null,
      at text not null,
      json text not null,
      effect text,
      constraint event_key primary key (tenant_id, stream, seq)
    )`.execute(db);

    await sql`create table job (
      id text primary key,
      tenant_id text not null,
      kind text not null,
      payload text not null,
      key text,
      state text not null,
      run_at text not null,
      attempts integer not null,
      deaths integer not null,
      lease_until text,
      lease_owner text,
      last_error text,
      charged_to text,
      created_at text not null
    )`.execute(db);
    await sql`create index job_due on job (state, run_at)`.execute(db);
    await sql`create unique index job_waiting_key on job (tenant_id, kind, key) where state = 'waiting'`.execute(db);

    await sql`create table idempotency (
      tenant_id text not null,
      principal_id text not null,
      method text not null,
      path text not null,
      key text not null,
      fingerprint text not null,
      status integer,
      headers text,
      body text,
      created_at text not null,
      constraint idempotency_key primary key (tenant_id, principal_id, method, path, key)
    )`.execute(db);
    await sql`create index idempotency_created on idempotency (created_at)`.execute(db);

    await sql`create table written (
      day text not null,
      tenant_id text not null,
      owner_id text not null,
      bytes bigint not null,
      constraint written_pk primary key (day, tenant_id, owner_id)
    )`.execute(db);

    // On SQLite the connection defines the function.
    if (!isPostgres) return;
    // Text regardless of case, whatever the locale of the database: its own `lower` knows ASCII only under "C".
    const { rows: [icu] } = await sql<{ collname: string }>`
      select collname from pg_collation where collname = 'und-x-icu' and getdatabaseencoding() = 'UTF8'`.execute(db);
    const folded = sql.raw(icu === undefined ? "lower(value)" : `lower(value collate "und-x-icu")`);
    await sql`create function fold_case(value text) returns text language sql immutable strict parallel safe
      return ${folded}`.execute(db);
  },
};

const addRevivals: Migration = {
  name: "0002_add_job_revivals",
  async up(db) {
    await sql`alter table job add column revivals integer not null default 0`.execute(db);
  },
};

/** Those whose process ended while they ran are looked for at each claim, however many others wait. */
const indexSuspects: Migration = {
  name: "0003_index_suspect_jobs",
  async up(db) {
    await sql`create index job_suspect on job (state, run_at) where deaths > 0`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, addRevivals, indexSuspects];
