// What hangs on messages: files, pins, reactions, messages for later; and the notifications of principals.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const messageExtras: Migration = {
  name: "0005_message_extras",
  async up(db) {
    await db.schema.alterTable("message")
      .addColumn("files_json", "text", (column) => column.notNull().defaultTo("[]")).execute();
    await db.schema.alterTable("message").addColumn("pinned_at", "text").execute();
    await db.schema.createIndex("message_pinned").on("message").columns(["room_id", "pinned_at"])
      .where("pinned_at", "is not", null).execute();
    await db.schema.createTable("reaction")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("message_id", "text", (column) => column.notNull())
      .addColumn("key", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("reaction_pk", ["message_id", "key", "principal_id"])
      .execute();
    await db.schema.createTable("scheduled_message")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("sender_id", "text", (column) => column.notNull())
      .addColumn("client_message_id", "text")
      .addColumn("message_json", "text", (column) => column.notNull())
      .addColumn("send_at", "text", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("failure_json", "text")
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("scheduled_message_sender").on("scheduled_message")
      .columns(["tenant_id", "sender_id", "id"]).execute();
    await db.schema.createIndex("scheduled_message_client_id").unique().on("scheduled_message")
      .columns(["room_id", "sender_id", "client_message_id"]).where("client_message_id", "is not", null).execute();
    await db.schema.createTable("notification")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("actor_id", "text")
      .addColumn("actor_kind", "text")
      .addColumn("room_id", "text")
      .addColumn("message_id", "text")
      .addColumn("seq", "bigint")
      .addColumn("resource_type", "text")
      .addColumn("resource_id", "text")
      .addColumn("title", "text")
      .addColumn("data_json", "text", (column) => column.notNull())
      .addColumn("source", "text")
      .addColumn("read_at", "text")
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addUniqueConstraint("notification_source", ["tenant_id", "principal_id", "source"])
      .execute();
    await db.schema.createIndex("notification_principal").on("notification")
      .columns(["tenant_id", "principal_id", "id"]).execute();
    await db.schema.createIndex("notification_unread").on("notification").columns(["tenant_id", "principal_id"])
      .where(sql.ref("read_at"), "is", null).execute();
    await db.schema.createIndex("notification_room").on("notification").columns(["tenant_id", "room_id"])
      .where("room_id", "is not", null).execute();
    await db.schema.createIndex("notification_message").on("notification").columns(["tenant_id", "message_id"])
      .where("message_id", "is not", null).execute();
  },
};
