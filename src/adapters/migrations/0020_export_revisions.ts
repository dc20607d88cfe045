// Whether an export holds earlier revisions of documents; those from before did.
import type { Migration } from "./migration.ts";

export const exportRevisions: Migration = {
  name: "0020_export_revisions",
  async up(db) {
    await db.schema.alterTable("transfer_export")
      .addColumn("with_revisions", "integer", (column) => column.notNull().defaultTo(1)).execute();
  },
};
