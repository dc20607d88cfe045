// What deleting takes from a room, kept for those who restore it.
import type { Migration } from "./migration.ts";

export const roomUndo: Migration = {
  name: "0015_room_undo",
  async up(db) {
    await db.schema.alterTable("room").addColumn("undo_json", "text").execute();
  },
};
