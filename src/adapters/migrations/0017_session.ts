// Tokens that are renewed by refresh tokens, and the origins that a tenant lets its pages call from.
import type { Migration } from "./migration.ts";

export const session: Migration = {
  name: "0017_session",
  async up(db) {
    await db.schema.createTable("token_family")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("token_id", "text", (column) => column.primaryKey())
      .addColumn("role", "text", (column) => column.notNull())
      .addColumn("access_seconds", "integer", (column) => column.notNull())
      .addColumn("access_expires_at", "text", (column) => column.notNull())
      .addColumn("hash", "text", (column) => column.notNull())
      .addColumn("spent_hash", "text")
      .addColumn("spent_at", "text")
      .execute();
    await db.schema.alterTable("tenant").addColumn("allowed_origins_json", "text").execute();
  },
};
