// The tables of spaces and of the resources in them. Vectors are stored by the adapter.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    // `kind` and `after_id` are how far a pass over all resources is, and `missing` how many it has found without a vector.
    await sql`create table vector_space (
      tenant_id text not null,
      id text not null,
      model text not null,
      engine text not null,
      dimensions integer,
      state text not null,
      kind text,
      after_id text,
      missing bigint not null,
      failures integer not null,
      paused_code text,
      paused_until text,
      created_at text not null,
      activated_at text,
      primary key (tenant_id, id)
    )`.execute(db);
    await sql`create unique index vector_space_state on vector_space (tenant_id, state) where state <> 'retired'`
      .execute(db);
    // `revision` changes with the text: vectors of an earlier one are not stored. What is embedded now is due again later, in case
    // that its process ends.
    await sql`create table vector_item (
      tenant_id text not null,
      space text not null,
      kind text not null,
      id text not null,
      hash text not null,
      state text not null,
      revision bigint not null,
      due_at text not null,
      primary key (tenant_id, space, id, kind)
    )`.execute(db);
    await sql`create index vector_item_state on vector_item (tenant_id, space, state, due_at)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
