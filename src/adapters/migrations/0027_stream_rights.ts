// A number beside a stream's head for what decides who may have part in it: another one after each change, never one of before.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

/** At random, so that no number comes again after a rollback, or in another life of the stream. */
export const anotherNumber = sql`floor(random() * 9007199254740991)`;

export const streamRights: Migration = {
  name: "0027_stream_rights",
  async up(db, dialect) {
    // SQLite has one process, which knows what it has changed.
    if (dialect === "sqlite") return;
    await sql`alter table stream add column rights bigint not null default ${anotherNumber}`.execute(db);
  },
};
