// Documents: what they are, their CRDT as snapshot and updates, their revisions, comments and, for private ones, readers.
import type { Migration } from "./migration.ts";

export const document: Migration = {
  name: "0010_document",
  async up(db) {
    await db.schema.createTable("document")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("room_id", "text")
      .addColumn("parent_id", "text")
      .addColumn("title", "text", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("is_locked", "integer", (column) => column.notNull())
      .addColumn("generation", "text", (column) => column.notNull())
      .addColumn("revision", "integer", (column) => column.notNull())
      .addColumn("text_bytes", "integer", (column) => column.notNull())
      .addColumn("loose_bytes", "integer", (column) => column.notNull())
      .addColumn("state_bytes", "integer", (column) => column.notNull())
      .addColumn("dirty_at", "text")
      .addColumn("edited_by", "text", (column) => column.notNull())
      .addColumn("edited_at", "text", (column) => column.notNull())
      .addColumn("metadata_json", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("updated_at", "text", (column) => column.notNull())
      .addColumn("deleted_at", "text")
      .addColumn("deleted_with", "text")
      .execute();
    await db.schema.createIndex("document_room").on("document").columns(["tenant_id", "room_id", "updated_at", "id"])
      .execute();
    await db.schema.createIndex("document_updated").on("document").columns(["tenant_id", "updated_at", "id"]).execute();
    await db.schema.createIndex("document_parent").on("document").columns(["tenant_id", "parent_id"])
      .where("parent_id", "is not", null).execute();
    await db.schema.createIndex("document_deleted").on("document").columns(["tenant_id", "deleted_with"])
      .where("deleted_with", "is not", null).execute();
    await db.schema.createTable("document_state")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("document_id", "text", (column) => column.primaryKey())
      .addColumn("snapshot", "text", (column) => column.notNull())
      .addColumn("snapshot_revision", "integer", (column) => column.notNull())
      .addColumn("text", "text", (column) => column.notNull())
      .addColumn("text_revision", "integer", (column) => column.notNull())
      .execute();
    await db.schema.createTable("document_update")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("document_id", "text", (column) => column.notNull())
      .addColumn("revision", "integer", (column) => column.notNull())
      .addColumn("data", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("document_update_pk", ["document_id", "revision"])
      .execute();
    await db.schema.createTable("document_revision")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("document_id", "text", (column) => column.notNull())
      .addColumn("revision", "integer", (column) => column.notNull())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("text", "text", (column) => column.notNull())
      .addColumn("bytes", "integer", (column) => column.notNull())
      .addColumn("principal_ids_json", "text", (column) => column.notNull())
      .addColumn("started_at", "text", (column) => column.notNull())
      .addColumn("at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("document_revision_pk", ["document_id", "revision"])
      .execute();
    await db.schema.createTable("document_access")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("document_id", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("role", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("document_access_pk", ["document_id", "principal_id"])
      .execute();
    await db.schema.createIndex("document_access_principal").on("document_access")
      .columns(["tenant_id", "principal_id", "document_id"]).execute();
    await db.schema.createTable("document_comment")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("document_id", "text", (column) => column.notNull())
      .addColumn("parent_id", "text")
      .addColumn("author_id", "text", (column) => column.notNull())
      .addColumn("text", "text", (column) => column.notNull())
      .addColumn("quote", "text")
      .addColumn("anchor_start", "text")
      .addColumn("anchor_end", "text")
      .addColumn("resolved_by", "text")
      .addColumn("resolved_at", "text")
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("updated_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("document_comment_document").on("document_comment")
      .columns(["document_id", "created_at", "id"]).execute();
  },
};
