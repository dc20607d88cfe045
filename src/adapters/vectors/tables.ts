// Tables of vectors in plain SQL, and how many vectors each scope has.
import { type Kysely, sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { inJsonList } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { VectorSpace } from "@/ports/vectors.ts";

export type ScopeRow = { scope: string; rows: number; revision: number; removals: number };

export type VectorTables = {
  vector_row: { n: number; tenant_id: string; space: string; scope: string; kind: string; id: string; code: string };
  vector_scope: ScopeRow & { tenant_id: string; space: string };
};

const baseline: Migration = {
  name: "0001_rows",
  async up(db, dialect) {
    // `n` grows, and no number comes again: what has read up to one continues from there.
    const identity = dialect === "postgres"
      ? "bigint generated always as identity primary key"
      : "integer primary key autoincrement";
    await sql`create table vector_row (
      n ${sql.raw(identity)},
      tenant_id text not null,
      space text not null,
      scope text not null,
      kind text not null,
      id text not null,
      code text not null
    )`.execute(db);
    await sql`create index vector_row_scope on vector_row (tenant_id, space, scope, n)`.execute(db);
    await sql`create index vector_row_resource on vector_row (tenant_id, space, id, kind)`.execute(db);
    // `revision` changes with every change of the scope, and `removals` when vectors were removed.
    await sql`create table vector_scope (
      tenant_id text not null,
      space text not null,
      scope text not null,
      rows bigint not null,
      revision bigint not null,
      removals bigint not null,
      primary key (tenant_id, space, scope)
    )`.execute(db);
  },
};

export const vectorMigrations: readonly Migration[] = [baseline];

type Db = Kysely<VectorTables>;
type Change = { tenantId: string; space: string; scope: string; rows: number; removals: number };

const changeScope = prepared((db: Db, value: Param<Change>) =>
  db.insertInto("vector_scope").values({
    tenant_id: value("tenantId"),
    space: value("space"),
    scope: value("scope"),
    rows: value("rows"),
    revision: sql.lit(1),
    removals: value("removals"),
  }).onConflict((conflict) =>
    conflict.columns(["tenant_id", "space", "scope"]).doUpdateSet((eb) => ({
      rows: eb("vector_scope.rows", "+", eb.ref("excluded.rows")),
      revision: eb("vector_scope.revision", "+", sql.lit(1)),
      removals: eb("vector_scope.removals", "+", eb.ref("excluded.removals")),
    }))
  )
);

/**
 * Counts vectors that are added to scopes, or removed if `sign` is -1. A scope is locked until the commit, so that its vectors are
 * committed in the order of their numbers.
 */
export async function countInScopes(
  tx: AnyTransaction,
  { tenantId, id: space }: VectorSpace,
  rows: readonly { scope: string }[],
  sign: 1 | -1,
): Promise<void> {
  const counts = Map.groupBy(rows, ({ scope }) => scope);
  for (const scope of [...counts.keys()].sort()) {
    const count = counts.get(scope)?.length ?? 0;
    await changeScope.run(tx.db, { tenantId, space, scope, rows: sign * count, removals: sign < 0 ? count : 0 });
  }
}

const scopesOf = prepared((db: Db, value: Param<{ tenantId: string; space: string; scopes: string }>, dialect) =>
  db.selectFrom("vector_scope").select(["scope", "rows", "revision", "removals"])
    .where("tenant_id", "=", value("tenantId")).where("space", "=", value("space")).where("rows", ">", sql.lit(0))
    .where(inJsonList(dialect, "scope", value("scopes")))
);

/** Those of the scopes that have vectors. */
export function readScopes(db: Db, { tenantId, id }: VectorSpace, scopes: readonly string[]): Promise<ScopeRow[]> {
  return scopesOf.all(db, { tenantId, space: id, scopes: JSON.stringify(scopes) });
}

export async function countVectors(db: Db, { tenantId, id }: VectorSpace): Promise<number> {
  const row = await db.selectFrom("vector_scope").select(({ fn }) => fn.sum<number | null>("rows").as("rows"))
    .where("tenant_id", "=", tenantId).where("space", "=", id).executeTakeFirst();
  return Number(row?.rows ?? 0);
}

export async function clearScopes(tx: AnyTransaction, { tenantId, id }: VectorSpace): Promise<void> {
  await tx.db.deleteFrom("vector_scope").where("tenant_id", "=", tenantId).where("space", "=", id).execute();
}
