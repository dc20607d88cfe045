// Calendar events, their single-occurrence edits, attendees, secret feeds and imports.
import type { Migration } from "./migration.ts";

export const calendar: Migration = {
  name: "0009_calendar",
  async up(db) {
    await db.schema.createTable("calendar_event")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      // The calendar it is in: `room:<id>` or `principal:<id>`. One uid per calendar, so that an import can be repeated.
      .addColumn("calendar", "text", (column) => column.notNull())
      .addColumn("uid", "text", (column) => column.notNull())
      .addColumn("room_id", "text")
      .addColumn("title", "text", (column) => column.notNull())
      .addColumn("description", "text")
      .addColumn("location", "text")
      .addColumn("visibility", "text", (column) => column.notNull())
      .addColumn("is_transparent", "integer", (column) => column.notNull())
      .addColumn("start_local", "text", (column) => column.notNull())
      .addColumn("time_zone", "text")
      .addColumn("duration_seconds", "integer", (column) => column.notNull())
      .addColumn("rrule", "text")
      .addColumn("last_local", "text")
      .addColumn("ex_dates_json", "text", (column) => column.notNull())
      .addColumn("from_at", "text", (column) => column.notNull())
      .addColumn("to_at", "text")
      .addColumn("reminders_json", "text", (column) => column.notNull())
      .addColumn("reminded_at", "text", (column) => column.notNull())
      .addColumn("meeting_id", "text")
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("updated_at", "text", (column) => column.notNull())
      .addUniqueConstraint("calendar_event_uid", ["tenant_id", "calendar", "uid"])
      .execute();
    await db.schema.createIndex("calendar_event_room").on("calendar_event").columns(["tenant_id", "room_id", "from_at"])
      .where("room_id", "is not", null).execute();
    await db.schema.createIndex("calendar_event_creator").on("calendar_event")
      .columns(["tenant_id", "created_by", "from_at"]).execute();
    await db.schema.createTable("calendar_override")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("event_id", "text", (column) => column.notNull())
      .addColumn("occurrence", "text", (column) => column.notNull())
      .addColumn("patch_json", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("calendar_override_pk", ["event_id", "occurrence"])
      .execute();
    await db.schema.createTable("calendar_attendee")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("event_id", "text", (column) => column.notNull())
      .addColumn("position", "integer", (column) => column.notNull())
      .addColumn("principal_id", "text")
      .addColumn("email", "text")
      .addColumn("role", "text", (column) => column.notNull())
      .addColumn("status", "text", (column) => column.notNull())
      .addColumn("comment", "text")
      .addColumn("responded_at", "text")
      .addPrimaryKeyConstraint("calendar_attendee_pk", ["event_id", "position"])
      .execute();
    await db.schema.createIndex("calendar_attendee_principal").on("calendar_attendee")
      .columns(["tenant_id", "principal_id", "event_id"]).where("principal_id", "is not", null).execute();
    // Answers to one occurrence of a series, where they differ from the answer to the series.
    await db.schema.createTable("calendar_rsvp")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("event_id", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("occurrence", "text", (column) => column.notNull())
      .addColumn("status", "text", (column) => column.notNull())
      .addColumn("comment", "text")
      .addColumn("responded_at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("calendar_rsvp_pk", ["event_id", "principal_id", "occurrence"])
      .execute();
    await db.schema.createTable("calendar_feed")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text")
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("hash", "text", (column) => column.notNull().unique())
      .addColumn("created_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("calendar_feed_principal").on("calendar_feed")
      .columns(["tenant_id", "principal_id", "id"]).execute();
    await db.schema.createTable("calendar_import")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text")
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("text", "text")
      .addColumn("report_json", "text")
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("finished_at", "text")
      .execute();
  },
};
