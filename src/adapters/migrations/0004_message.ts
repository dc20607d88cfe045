// Messages, mentions, history of edits.
import type { Migration } from "./migration.ts";

export const message: Migration = {
  name: "0004_message",
  async up(db) {
    await db.schema.createTable("message")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("seq", "bigint", (column) => column.notNull())
      .addColumn("sender_id", "text", (column) => column.notNull())
      .addColumn("sender_kind", "text", (column) => column.notNull())
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("text", "text")
      .addColumn("format", "text", (column) => column.notNull())
      .addColumn("thread_id", "text")
      .addColumn("reply_to_id", "text")
      .addColumn("mentions_json", "text", (column) => column.notNull())
      .addColumn("reply_count", "integer", (column) => column.notNull())
      .addColumn("last_reply_at", "text")
      .addColumn("client_message_id", "text")
      .addColumn("fingerprint", "text")
      .addColumn("metadata_json", "text", (column) => column.notNull())
      .addColumn("edited_at", "text")
      .addColumn("edit_count", "integer", (column) => column.notNull())
      .addColumn("deleted_at", "text")
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("message_room_seq").unique().on("message").columns(["room_id", "seq"]).execute();
    await db.schema.createIndex("message_client_id").unique().on("message")
      .columns(["room_id", "sender_id", "client_message_id"]).where("client_message_id", "is not", null).execute();
    await db.schema.createIndex("message_thread").on("message").columns(["thread_id", "seq"])
      .where("thread_id", "is not", null).execute();
    await db.schema.createTable("mention")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("seq", "bigint", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("message_id", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("mention_pk", ["room_id", "principal_id", "seq"])
      .execute();
    await db.schema.createIndex("mention_message").on("mention").columns(["message_id"]).execute();
    await db.schema.createTable("message_edit")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("message_id", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("text", "text")
      .addColumn("editor_id", "text", (column) => column.notNull())
      .addColumn("at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("message_edit_pk", ["message_id", "version"])
      .execute();
  },
};
