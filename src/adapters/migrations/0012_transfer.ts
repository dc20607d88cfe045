// Imports, exports, and the lines of an archive that have to be sorted before they can be imported.
import type { Migration } from "./migration.ts";

export const transfer: Migration = {
  name: "0012_transfer",
  async up(db) {
    await db.schema.createTable("transfer_import")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("namespace", "text", (column) => column.notNull())
      .addColumn("principal_map_json", "text", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("blob_key", "text")
      .addColumn("size", "bigint")
      .addColumn("progress_json", "text", (column) => column.notNull())
      .addColumn("report_json", "text", (column) => column.notNull())
      .addColumn("failure_json", "text")
      .addColumn("requested_by", "text", (column) => column.notNull())
      .addColumn("requester_role", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("started_at", "text")
      .addColumn("finished_at", "text")
      .execute();
    await db.schema.createIndex("transfer_import_tenant").on("transfer_import").columns(["tenant_id", "id"]).execute();
    await db.schema.createTable("transfer_line")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("import_id", "text", (column) => column.notNull())
      .addColumn("room_key", "text", (column) => column.notNull())
      .addColumn("at", "text", (column) => column.notNull())
      .addColumn("line", "bigint", (column) => column.notNull())
      .addColumn("json", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("transfer_line_pk", ["import_id", "room_key", "at", "line"])
      .execute();
    await db.schema.createTable("transfer_export")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("room_id", "text")
      .addColumn("hidden_up_to", "bigint", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("blob_key", "text")
      .addColumn("size", "bigint")
      .addColumn("counts_json", "text", (column) => column.notNull())
      .addColumn("failure_json", "text")
      .addColumn("requested_by", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("finished_at", "text")
      .addColumn("expires_at", "text")
      .execute();
    await db.schema.createIndex("transfer_export_tenant").on("transfer_export").columns(["tenant_id", "id"]).execute();
  },
};
