// The table of MCP servers whose tools agents may use.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table mcp_server (
      tenant_id text not null,
      id text not null,
      url text not null,
      headers_encrypted text,
      header_names_json text not null,
      tools_json text not null,
      needs_approval integer not null,
      version integer not null,
      created_at text not null,
      updated_at text not null,
      primary key (tenant_id, id)
    )`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
