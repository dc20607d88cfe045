// Whether an export holds the contents of files; those from before did not.
import type { Migration } from "./migration.ts";

export const exportFiles: Migration = {
  name: "0018_export_files",
  async up(db) {
    await db.schema.alterTable("transfer_export")
      .addColumn("with_files", "integer", (column) => column.notNull().defaultTo(0)).execute();
  },
};
