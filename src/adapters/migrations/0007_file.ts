// Files, where they are attached, and how many bytes each tenant holds.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const file: Migration = {
  name: "0007_file",
  async up(db) {
    await db.schema.createTable("file")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("uploader_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text")
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("content_type", "text", (column) => column.notNull())
      .addColumn("size", "bigint", (column) => column.notNull())
      .addColumn("sha256", "text", (column) => column.notNull())
      .addColumn("width", "integer")
      .addColumn("height", "integer")
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("file_uploader").on("file").columns(["tenant_id", "uploader_id", "id"]).execute();
    await db.schema.createIndex("file_stale").on("file").columns(["tenant_id", "created_at"])
      .where(sql.ref("state"), "in", sql`('receiving', 'unlinked')`).execute();
    await db.schema.createTable("file_link")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("file_id", "text", (column) => column.notNull())
      .addColumn("owner", "text", (column) => column.notNull())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("seq", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("file_link_pk", ["file_id", "owner"])
      .execute();
    await db.schema.createIndex("file_link_owner").on("file_link").columns(["tenant_id", "owner"]).execute();
    await db.schema.createIndex("file_link_room").on("file_link").columns(["tenant_id", "room_id", "file_id"])
      .execute();
    await db.schema.createTable("file_usage")
      .addColumn("tenant_id", "text", (column) => column.primaryKey())
      .addColumn("bytes", "bigint", (column) => column.notNull())
      .execute();
  },
};
