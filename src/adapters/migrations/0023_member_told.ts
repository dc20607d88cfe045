// Up to which version of a member the room was told of its name and picture; nothing yet.
import type { Migration } from "./migration.ts";

export const memberTold: Migration = {
  name: "0023_member_told",
  async up(db) {
    await db.schema.alterTable("member")
      .addColumn("told_version", "integer", (column) => column.notNull().defaultTo(0)).execute();
  },
};
