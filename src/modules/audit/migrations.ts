// What administers a tenant.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table audit_entry (
      tenant_id text not null,
      id text primary key,
      at text not null,
      actor_id text not null,
      owner_id text,
      token_id text,
      operation text not null,
      via text not null,
      request_id text,
      resource_id text,
      changes_json text not null
    )`.execute(db);
    await sql`create index audit_entry_tenant on audit_entry (tenant_id, id)`.execute(db);
    await sql`create index audit_entry_actor on audit_entry (tenant_id, actor_id, id)`.execute(db);
    await sql`create index audit_entry_resource on audit_entry (tenant_id, resource_id, id)`.execute(db);
    await sql`create index audit_entry_at on audit_entry (at)`.execute(db);
  },
};

/** Entries that exist have no hash: the chain of their tenant begins after them, as if they were cut off. */
const chain: Migration = {
  name: "0002_chain",
  async up(db) {
    const columns = [
      "seq bigint not null default 0",
      "hash text not null default ''",
      "ip text",
      "user_agent text",
      "who_salt text",
      "who_digest text not null default ''",
      "what_salt text",
      "what_digest text not null default ''",
    ];
    for (const column of columns) await sql`alter table audit_entry add column ${sql.raw(column)}`.execute(db);
    await sql`update audit_entry set seq = numbered.seq from (
      select id, row_number() over (partition by tenant_id order by id) as seq from audit_entry
    ) as numbered where numbered.id = audit_entry.id`.execute(db);
    await sql`create unique index audit_entry_seq on audit_entry (tenant_id, seq)`.execute(db);
    await sql`create table audit_cut (
      tenant_id text primary key,
      seq bigint not null,
      hash text not null,
      signature text not null
    )`.execute(db);
    await sql`insert into audit_cut (tenant_id, seq, hash, signature)
      select tenant_id, max(seq), '', '' from audit_entry group by tenant_id`.execute(db);
  },
};

/** What is listed of one operation. Nothing asks for times alone. */
const operations: Migration = {
  name: "0003_index_operations",
  async up(db) {
    await sql`create index audit_entry_operation on audit_entry (tenant_id, operation, id)`.execute(db);
    await sql`drop index audit_entry_at`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, chain, operations];
