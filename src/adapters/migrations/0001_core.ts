// Streams, events, jobs and remembered answers.
import { type Kysely, sql } from "kysely";
import type { Dialect } from "@/ports/store.ts";
import type { Migration } from "./migration.ts";

export const core: Migration = {
  name: "0001_core",
  async up(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
    await db.schema.createTable("stream")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("epoch", "text", (column) => column.notNull())
      .addColumn("head", "bigint", (column) => column.notNull())
      .addColumn("floor", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("stream_key", ["tenant_id", "name"])
      // A row that changes at every write: room on its page lets PostgreSQL update it without touching the index.
      .modifyEnd(dialect === "postgres" ? sql`with (fillfactor = 50)` : sql`without rowid`)
      .execute();

    await db.schema.createTable("event")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("stream", "text", (column) => column.notNull())
      .addColumn("seq", "bigint", (column) => column.notNull())
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("at", "text", (column) => column.notNull())
      .addColumn("json", "text", (column) => column.notNull())
      .addColumn("effect", "text")
      .addPrimaryKeyConstraint("event_key", ["tenant_id", "stream", "seq"])
      .$call((table) => dialect === "sqlite" ? table.modifyEnd(sql`without rowid`) : table)
      .execute();

    await db.schema.createTable("job")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("payload", "text", (column) => column.notNull())
      .addColumn("key", "text")
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("run_at", "text", (column) => column.notNull())
      .addColumn("attempts", "integer", (column) => column.notNull())
      .addColumn("lease_until", "text")
      .addColumn("lease_owner", "text")
      .addColumn("last_error", "text")
      .addColumn("created_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createIndex("job_due").on("job").columns(["state", "run_at"]).execute();
    await db.schema.createIndex("job_waiting_key").unique().on("job").columns(["tenant_id", "kind", "key"])
      .where(sql.ref("state"), "=", sql.lit("waiting")).execute();

    await db.schema.createTable("idempotency")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("method", "text", (column) => column.notNull())
      .addColumn("path", "text", (column) => column.notNull())
      .addColumn("key", "text", (column) => column.notNull())
      .addColumn("fingerprint", "text", (column) => column.notNull())
      .addColumn("status", "integer")
      .addColumn("headers", "text")
      .addColumn("body", "text")
      .addColumn("created_at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("idempotency_key", ["tenant_id", "principal_id", "method", "path", "key"])
      .execute();
    await db.schema.createIndex("idempotency_created").on("idempotency").column("created_at").execute();
  },
};
