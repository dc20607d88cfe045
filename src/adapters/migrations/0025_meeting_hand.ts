// Hands that are up in meetings.
import type { Migration } from "./migration.ts";

export const meetingHand: Migration = {
  name: "0025_meeting_hand",
  async up(db) {
    await db.schema.alterTable("meeting_participant").addColumn("hand_raised_at", "text").execute();
  },
};
