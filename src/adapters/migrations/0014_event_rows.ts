// On SQLite events become rows in the order in which they were written, with an index beside them. Kept inside the index, as
// before, every event took a page of its own: an index has room for a quarter of a page per entry, and events are longer.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const eventRows: Migration = {
  name: "0014_event_rows",
  async up(db, dialect) {
    if (dialect !== "sqlite") return;
    await db.schema.alterTable("event").renameTo("event_before").execute();
    await db.schema.createTable("event")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("stream", "text", (column) => column.notNull())
      .addColumn("seq", "bigint", (column) => column.notNull())
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("at", "text", (column) => column.notNull())
      .addColumn("json", "text", (column) => column.notNull())
      .addColumn("effect", "text")
      .addPrimaryKeyConstraint("event_key", ["tenant_id", "stream", "seq"])
      .execute();
    await sql`insert into event (tenant_id, stream, seq, type, at, json, effect)
      select tenant_id, stream, seq, type, at, json, effect from event_before`.execute(db);
    await db.schema.dropTable("event_before").execute();
  },
};
