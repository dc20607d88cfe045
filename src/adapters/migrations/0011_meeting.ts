// Meetings, who takes part under which lease, who agreed to be recorded, and what was said.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const meeting: Migration = {
  name: "0011_meeting",
  async up(db) {
    await db.schema.createTable("meeting")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("title", "text")
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("is_open", "integer", (column) => column.notNull())
      .addColumn("host_id", "text", (column) => column.notNull())
      .addColumn("scheduled_for", "text")
      .addColumn("max_participants", "integer", (column) => column.notNull())
      .addColumn("is_lobby", "integer", (column) => column.notNull())
      .addColumn("is_locked", "integer", (column) => column.notNull())
      .addColumn("agent_ids_json", "text", (column) => column.notNull())
      .addColumn("ring_ids_json", "text")
      .addColumn("ring_expires_at", "text")
      .addColumn("close_at", "text")
      .addColumn("recording_json", "text")
      .addColumn("started_at", "text")
      .addColumn("ended_at", "text")
      .addColumn("end_reason", "text")
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("updated_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("meeting_room").on("meeting").columns(["tenant_id", "room_id", "id"]).execute();
    await db.schema.createIndex("meeting_open").unique().on("meeting").columns(["tenant_id", "room_id"])
      .where(sql.ref("is_open"), "=", 1).execute();
    await db.schema.createTable("meeting_participant")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("meeting_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("principal_kind", "text", (column) => column.notNull())
      .addColumn("display_name", "text", (column) => column.notNull())
      .addColumn("device_id", "text", (column) => column.notNull())
      .addColumn("role", "text", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("is_muted", "integer", (column) => column.notNull())
      .addColumn("capabilities_json", "text", (column) => column.notNull())
      .addColumn("lease_expires_at", "text", (column) => column.notNull())
      .addColumn("joined_at", "text")
      .addColumn("left_at", "text")
      .addColumn("left_reason", "text")
      .addColumn("created_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("meeting_participant_live").on("meeting_participant")
      .columns(["tenant_id", "meeting_id", "state"]).execute();
    await db.schema.createIndex("meeting_participant_principal").on("meeting_participant")
      .columns(["tenant_id", "principal_id", "state"]).execute();
    await db.schema.createTable("meeting_consent")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("meeting_id", "text", (column) => column.notNull())
      .addColumn("recording_id", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("given_at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("meeting_consent_pk", ["tenant_id", "meeting_id", "recording_id", "principal_id"])
      .execute();
    await db.schema.createTable("meeting_segment")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("meeting_id", "text", (column) => column.notNull())
      .addColumn("start_ms", "integer", (column) => column.notNull())
      .addColumn("end_ms", "integer", (column) => column.notNull())
      .addColumn("speaker_id", "text", (column) => column.notNull())
      .addColumn("text", "text", (column) => column.notNull())
      .addColumn("posted_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("meeting_segment_order").on("meeting_segment")
      .columns(["tenant_id", "meeting_id", "start_ms", "id"]).execute();
  },
};
