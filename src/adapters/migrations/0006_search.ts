// The search index: what can be found, the engine's inverted index of its tokens, and how far indexing has come.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const search: Migration = {
  name: "0006_search",
  async up(db, dialect) {
    const isPostgres = dialect === "postgres";
    await db.schema.createTable("search_document")
      // Its time in milliseconds × 1024 and a little more. On SQLite it is the row id, which ties it to the token index.
      .addColumn(
        "n",
        isPostgres ? "bigint" : "integer",
        (column) => isPostgres ? column.notNull() : column.primaryKey(),
      )
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.notNull())
      .addColumn("room_id", "text")
      .addColumn("principal_id", "text")
      .addColumn("author_id", "text")
      .addColumn("seq", "bigint")
      .addColumn("at", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .$call((table) => isPostgres ? table.addColumn("tokens", sql`integer[]`, (column) => column.notNull()) : table)
      // No index begins with the tenant: walking all of a tenant would look cheap to a planner without statistics.
      .addUniqueConstraint("search_document_key", ["id", "kind", "tenant_id"])
      .execute();
    await db.schema.createIndex("search_document_room").on("search_document").columns(["room_id"]).execute();
    await (isPostgres
      ? sql`create index search_document_tokens on search_document using gin (tokens)`
      // Tokens are numbers written in base 36; their positions and the text itself are not kept.
      : sql`create virtual table search_terms using fts5(
          tokens, content='', contentless_delete=1, detail=none, tokenize='ascii')`).execute(db);
    await db.schema.createTable("search_cursor")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("room_id", "text", (column) => column.notNull())
      .addColumn("seq", "bigint", (column) => column.notNull())
      // Below it events are gone; what they changed is made good by a pass over all messages that began at this floor.
      .addColumn("floor", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("search_cursor_pk", ["tenant_id", "room_id"])
      .execute();
    await db.schema.createTable("search_reindex")
      .addColumn("tenant_id", "text", (column) => column.primaryKey())
      .addColumn("id", "text", (column) => column.notNull())
      .addColumn("kinds_json", "text", (column) => column.notNull())
      .addColumn("kind", "text")
      .addColumn("after_id", "text")
      .addColumn("done", "bigint", (column) => column.notNull())
      .addColumn("requested_by", "text", (column) => column.notNull())
      .addColumn("started_at", "text", (column) => column.notNull())
      .addColumn("finished_at", "text")
      .execute();
  },
};
