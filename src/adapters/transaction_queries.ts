// The statements that every writer runs, prepared.
import { type Kysely, sql } from "kysely";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { CoreTables, JobRow } from "./core_tables.ts";

/** Moves a stream's head by `count`; nothing for a stream that is new. */
export const advanceStream = prepared((
  db: Kysely<CoreTables>,
  param: Param<{ tenantId: string; name: string; count: number }>,
) =>
  db.updateTable("stream").set((row) => ({ head: row("head", "+", param("count")) }))
    .where("tenant_id", "=", param("tenantId")).where("name", "=", param("name"))
    .returning(["epoch", "head"])
);

/** The same for a stream that was not there just now. */
export const beginStream = prepared((
  db: Kysely<CoreTables>,
  param: Param<{ tenantId: string; name: string; epoch: string; count: number }>,
) =>
  db.insertInto("stream")
    .values({
      tenant_id: param("tenantId"),
      name: param("name"),
      epoch: param("epoch"),
      head: param("count"),
      floor: sql.lit(0),
    })
    .onConflict((conflict) =>
      conflict.columns(["tenant_id", "name"]).doUpdateSet((row) => ({
        head: row("stream.head", "+", row.ref("excluded.head")),
      }))
    )
    .returning(["epoch", "head"])
);

/** Adds a job, or moves the one with this key that is still waiting. */
export const putKeyedJob = prepared((db: Kysely<CoreTables>, param: Param<JobRow>) =>
  db.insertInto("job")
    .values({
      id: param("id"),
      tenant_id: param("tenant_id"),
      kind: param("kind"),
      payload: param("payload"),
      key: param("key"),
      state: param("state"),
      run_at: param("run_at"),
      attempts: param("attempts"),
      created_at: param("created_at"),
    })
    .onConflict((conflict) =>
      conflict.columns(["tenant_id", "kind", "key"]).where("state", "=", sql.lit("waiting")).doUpdateSet((row) => ({
        run_at: row.ref("excluded.run_at"),
        payload: row.ref("excluded.payload"),
        attempts: row.ref("excluded.attempts"),
      }))
    )
);
