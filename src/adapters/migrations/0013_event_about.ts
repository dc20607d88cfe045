// Events about older messages say which place they are about, also those from before events said so.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

const TYPES = [
  "message.updated",
  "message.deleted",
  "message.pinned",
  "message.unpinned",
  "reaction.added",
  "reaction.removed",
  "thread.updated",
];

export const eventAbout: Migration = {
  name: "0013_event_about",
  async up(db, dialect) {
    const field = (...path: string[]) =>
      dialect === "sqlite"
        ? sql`json_extract(event.json, ${sql.lit(`$.data.${path.join(".")}`)})`
        : sql`event.json::json #>> ${sql.lit(`{data,${path.join(",")}}`)}`;
    const seq = sql`(select message.seq from message where message.tenant_id = event.tenant_id
      and message.id = coalesce(${field("message", "id")}, ${field("messageId")}, ${field("threadId")}))`;
    await sql`update event set effect = '{"kind":"about","seq":' || ${seq} || '}'
      where effect is null and stream like 'room:%' and type in (${sql.join(TYPES.map((type) => sql.lit(type)))})`
      .execute(db);
  },
};
