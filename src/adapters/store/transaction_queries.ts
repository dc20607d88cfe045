// The statements that every writer runs, prepared.
import { type Compilable, type Kysely, type QueryCreator, type RawBuilder, sql, type SqlBool } from "kysely";
import type { JobRow } from "@/core/job.ts";
import { jsonRows } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { CoreTables, StreamRow } from "./core_tables.ts";

type Asked = { name: string; count: number };
export type StreamHead = Pick<StreamRow, "epoch" | "head"> & { access_version?: number };

/** Moves a stream's head by `count`; nothing for a stream that is new. */
export const advanceStream = prepared((
  db: Kysely<CoreTables>,
  param: Param<{ tenantId: string; name: string; count: number }>,
  dialect,
): Compilable<StreamHead> => {
  if (dialect === "sqlite") return { compile: () => advanceOnSqlite(param).compile(db) };
  return db.updateTable("stream").set((row) => ({ head: row("head", "+", param("count")) }))
    .where("tenant_id", "=", param("tenantId")).where("name", "=", param("name"))
    .returning(["epoch", "head"]);
});

/** With `or fail`, which Kysely does not know; see `InsertStatements`. */
function advanceOnSqlite(param: Param<{ tenantId: string; name: string; count: number }>): RawBuilder<StreamHead> {
  return sql`update or fail stream set head = head + ${param("count")}
    where tenant_id = ${param("tenantId")} and name = ${param("name")} returning epoch, head`;
}

/** The same for many streams at once, each `{name, count}`, locked in the order of their names. PostgreSQL only. */
export const advanceStreams = prepared((db: Kysely<CoreTables>, param: Param<{ tenantId: string; wanted: string }>) =>
  db.with("asked", (from) => askedStreams(from, param)).with("held", (from) => lockedStreams(from, param))
    .updateTable("stream").from("held")
    .set((row) => ({ head: row("stream.head", "+", row.ref("held.count")) }))
    .where("stream.tenant_id", "=", param("tenantId")).whereRef("stream.name", "=", "held.name").where(isAsked)
    .returning(["stream.name", "stream.epoch", "stream.head", "stream.access_version"])
);

/** Each is looked up. Of some thousand streams that a tenant has, a join alone would read all. */
const isAsked = sql<SqlBool>`stream.name = any(array(select asked.name from asked))`;

// The return types are inferred: these are queries under construction.
function askedStreams(db: QueryCreator<CoreTables>, param: Param<{ wanted: string }>) {
  return db.selectFrom(jsonRows<Asked, "given">(param("wanted"), sql`given(name text, count bigint)`)).selectAll();
}

function lockedStreams(db: QueryCreator<CoreTables & { asked: Asked }>, param: Param<{ tenantId: string }>) {
  return db.selectFrom("stream").innerJoin("asked", "asked.name", "stream.name").select(["stream.name", "asked.count"])
    .where("stream.tenant_id", "=", param("tenantId")).where(isAsked).orderBy("stream.name").forUpdate("stream");
}

/** The same for a stream that was not there just now. */
export const upsertStream = prepared((
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
export const upsertKeyedJob = prepared((db: Kysely<CoreTables>, param: Param<JobRow>) =>
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
      deaths: param("deaths"),
      revivals: param("revivals"),
      charged_to: param("charged_to"),
      created_at: param("created_at"),
    })
    .onConflict((conflict) =>
      conflict.columns(["tenant_id", "kind", "key"]).where("state", "=", sql.lit("waiting")).doUpdateSet((row) => ({
        run_at: row.ref("excluded.run_at"),
        payload: row.ref("excluded.payload"),
        attempts: row.ref("excluded.attempts"),
        deaths: row.ref("excluded.deaths"),
        revivals: row.ref("excluded.revivals"),
        charged_to: row.ref("excluded.charged_to"),
        created_at: row.ref("excluded.created_at"),
      }))
    )
);
