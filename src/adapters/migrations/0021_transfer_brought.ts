// What imports brought in that leaves no trace when it is deleted, so that it does not come in again.
import type { Migration } from "./migration.ts";

export const transferBrought: Migration = {
  name: "0021_transfer_brought",
  async up(db) {
    await db.schema.createTable("transfer_brought")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("whole", "text", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("transfer_brought_pk", ["tenant_id", "whole", "name"])
      .execute();
  },
};
