// Tasks, their relations, assignees, labels and activity, and the numbering of each room.
import type { Migration } from "./migration.ts";

export const task: Migration = {
  name: "0008_task",
  async up(db) {
    // Stays when its room is purged: a key is never given twice.
    await db.schema.createTable("task_room")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("prefix", "text")
      .addColumn("last_number", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("task_room_pk", ["tenant_id", "room_id"])
      .addUniqueConstraint("task_room_prefix", ["tenant_id", "prefix"])
      .execute();
    await db.schema.createTable("task")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("key", "text", (column) => column.notNull())
      .addColumn("title", "text", (column) => column.notNull())
      .addColumn("description", "text")
      .addColumn("status", "text", (column) => column.notNull())
      .addColumn("is_open", "integer", (column) => column.notNull())
      .addColumn("priority", "integer", (column) => column.notNull())
      .addColumn("assignee_ids_json", "text", (column) => column.notNull())
      .addColumn("labels_json", "text", (column) => column.notNull())
      .addColumn("parent_id", "text")
      .addColumn("start_at", "text")
      .addColumn("due_at", "text")
      .addColumn("timezone", "text", (column) => column.notNull())
      .addColumn("recurrence_json", "text")
      .addColumn("next_task_id", "text")
      .addColumn("source_message_id", "text")
      .addColumn("thread_id", "text")
      .addColumn("position", "text", (column) => column.notNull())
      .addColumn("metadata_json", "text", (column) => column.notNull())
      .addColumn("claimed_by", "text")
      .addColumn("lease_hash", "text")
      .addColumn("lease_expires_at", "text")
      .addColumn("completed_at", "text")
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("updated_at", "text", (column) => column.notNull())
      .addColumn("deleted_at", "text")
      .addColumn("deleted_with", "text")
      .addUniqueConstraint("task_key", ["tenant_id", "key"])
      .execute();
    await db.schema.createIndex("task_board").on("task").columns(["tenant_id", "room_id", "position"]).execute();
    await db.schema.createIndex("task_open").on("task").columns(["tenant_id", "room_id", "is_open"]).execute();
    await db.schema.createIndex("task_updated").on("task").columns(["tenant_id", "updated_at", "id"]).execute();
    await db.schema.createIndex("task_due").on("task").columns(["tenant_id", "due_at", "id"])
      .where("due_at", "is not", null).execute();
    await db.schema.createIndex("task_parent").on("task").columns(["tenant_id", "parent_id"])
      .where("parent_id", "is not", null).execute();
    await db.schema.createIndex("task_source").on("task").columns(["tenant_id", "source_message_id"])
      .where("source_message_id", "is not", null).execute();
    await db.schema.createTable("task_assignee")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("task_id", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("task_assignee_pk", ["tenant_id", "principal_id", "task_id"])
      .execute();
    await db.schema.createIndex("task_assignee_task").on("task_assignee").column("task_id").execute();
    await db.schema.createTable("task_label")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("label", "text", (column) => column.notNull())
      .addColumn("task_id", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("task_label_pk", ["tenant_id", "label", "task_id"])
      .execute();
    await db.schema.createIndex("task_label_task").on("task_label").column("task_id").execute();
    // Each relation stands here twice, once from either side.
    await db.schema.createTable("task_relation")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("task_id", "text", (column) => column.notNull())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("other_id", "text", (column) => column.notNull())
      .addColumn("created_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("task_relation_pk", ["tenant_id", "task_id", "kind", "other_id"])
      .execute();
    await db.schema.createTable("task_activity")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("task_id", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.notNull())
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("actor_id", "text", (column) => column.notNull())
      .addColumn("changes_json", "text", (column) => column.notNull())
      .addColumn("at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("task_activity_pk", ["tenant_id", "task_id", "version"])
      .execute();
  },
};
