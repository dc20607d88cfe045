// Text without regard to case, whatever the locale of a PostgreSQL database: its own `lower` knows ASCII only under "C".
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const foldCase: Migration = {
  name: "0016_fold_case",
  async up(db, dialect) {
    // On SQLite the connection brings the function.
    if (dialect === "sqlite") return;
    const { rows: [icu] } = await sql<{ collname: string }>`
      select collname from pg_collation where collname = 'und-x-icu' and getdatabaseencoding() = 'UTF8'`.execute(db);
    const folded = icu === undefined ? sql`lower(value)` : sql`lower(value collate "und-x-icu")`;
    await sql`create function fold_case(value text) returns text language sql immutable strict parallel safe
      return ${folded}`.execute(db);
  },
};
