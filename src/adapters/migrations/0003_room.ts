// Rooms, members, bans.
import type { Migration } from "./migration.ts";

export const room: Migration = {
  name: "0003_room",
  async up(db) {
    await db.schema.createTable("room")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("slug", "text")
      .addColumn("topic", "text")
      .addColumn("description", "text")
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("visibility", "text", (column) => column.notNull())
      .addColumn("history_visibility", "text", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("agent_policy_json", "text", (column) => column.notNull())
      .addColumn("retention_days", "integer")
      .addColumn("metadata_json", "text", (column) => column.notNull())
      .addColumn("member_count", "integer", (column) => column.notNull())
      .addColumn("direct_key", "text")
      .addColumn("last_message_at", "text")
      .addColumn("active_at", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("updated_at", "text", (column) => column.notNull())
      .addColumn("deleted_at", "text")
      .addUniqueConstraint("room_slug", ["tenant_id", "slug"])
      .addUniqueConstraint("room_direct_key", ["tenant_id", "direct_key"])
      .execute();
    await db.schema.createIndex("room_active").on("room").columns(["tenant_id", "active_at", "id"]).execute();
    await db.schema.createTable("member")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("role", "text", (column) => column.notNull())
      .addColumn("joined_at", "text", (column) => column.notNull())
      .addColumn("joined_seq", "bigint", (column) => column.notNull())
      .addColumn("last_read_seq", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("member_pk", ["room_id", "principal_id"])
      .execute();
    await db.schema.createIndex("member_principal").on("member").columns(["tenant_id", "principal_id", "room_id"])
      .execute();
    await db.schema.createTable("ban")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("reason", "text")
      .addColumn("created_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("ban_pk", ["tenant_id", "room_id", "principal_id"])
      .execute();
  },
};
