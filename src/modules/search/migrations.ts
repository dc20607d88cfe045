// The search index: documents, the inverted index of their tokens, and the progress of indexing.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { disableMergesInCommits } from "./term_store.ts";

/** Tokens are numbers in base 36; their positions and the text itself are not stored. */
const TOKENS = "fts5(tokens, content='', contentless_delete=1, detail=none, tokenize='ascii')";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db, dialect) {
    const isPostgres = dialect === "postgres";
    const forPostgres = (text: string) => sql.raw(isPostgres ? text : "");
    const integer = sql.raw(isPostgres ? "bigint" : "integer");

    // `n` is the time in milliseconds × 1024 plus a counter. On SQLite it is the row id, which links a row to its tokens.
    // No index starts with the tenant: without statistics, a planner would prefer it and read all documents of the tenant.
    await sql`create table search_document (
      n ${sql.raw(isPostgres ? "bigint not null" : "integer primary key")},
      tenant_id text not null,
      kind text not null,
      id text not null,
      room_id text,
      principal_id text,
      author_id text,
      seq bigint,
      at text not null,
      version integer not null,
      ${forPostgres("tokens integer[] not null,")}
      constraint search_document_key unique (id, kind, tenant_id)
    )`.execute(db);
    await sql`create index search_document_room on search_document (room_id)`.execute(db);
    await (isPostgres
      ? sql`create index search_document_tokens on search_document using gin (tokens)`
      : sql.raw(`create virtual table search_terms using ${TOKENS}`)).execute(db);

    // Long texts are indexed in parts, so that no commit writes all of their tokens at once.
    await sql`create table search_part (
      part ${sql.raw(isPostgres ? "bigint generated always as identity primary key" : "integer primary key")},
      tenant_id text not null,
      kind text not null,
      id text not null,
      ${forPostgres("tokens integer[] not null,")}
      n ${integer} not null
    )`.execute(db);
    await sql`create index search_part_document on search_part (id, kind, tenant_id)`.execute(db);
    await (isPostgres
      ? sql`create index search_part_tokens on search_part using gin (tokens)`
      : sql.raw(`create virtual table search_part_terms using ${TOKENS}`)).execute(db);

    // Events up to `floor` are deleted; their changes were indexed by a pass over all messages that started at this floor.
    await sql`create table search_cursor (
      tenant_id text not null,
      room_id text not null,
      seq bigint not null,
      floor bigint not null,
      constraint search_cursor_pk primary key (tenant_id, room_id)
    )`.execute(db);

    await sql`create table search_reindex (
      tenant_id text primary key,
      id text not null,
      kinds_json text not null,
      kind text,
      after_id text,
      done bigint not null,
      requested_by text not null,
      started_at text not null,
      finished_at text
    )`.execute(db);
  },
};

const indexNewest: Migration = {
  name: "0002_index_newest_documents",
  async up(db, dialect) {
    if (dialect === "sqlite") return;
    // An expression, since no index that other queries may use starts with the tenant.
    await sql`create index search_document_newest on search_document (('' || tenant_id), kind, n, id)`.execute(db);
  },
};

const mergeInParts: Migration = {
  name: "0003_merge_in_parts",
  async up(db, dialect) {
    if (dialect === "sqlite") await disableMergesInCommits(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, indexNewest, mergeInParts];
