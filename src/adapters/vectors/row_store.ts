// SQL of vectors in plain rows.
import { type Kysely, sql } from "kysely";
import { inJsonList, inJsonNumbers } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { VectorSpace } from "@/ports/vectors.ts";
import type { StoredVector } from "./partition.ts";
import type { VectorTables } from "./tables.ts";

type Db = Kysely<VectorTables>;
type InSpace = { tenantId: string; space: string };

const after = prepared((db: Db, value: Param<InSpace & { scope: string; n: number; limit: number }>) =>
  db.selectFrom("vector_row").select(["n", "kind", "code"]).where("tenant_id", "=", value("tenantId"))
    .where("space", "=", value("space")).where("scope", "=", value("scope")).where("n", ">", value("n"))
    .orderBy("n").limit(value("limit"))
);
const inScopes = prepared((db: Db, value: Param<InSpace & { scopes: string }>, dialect) =>
  db.selectFrom("vector_row").select(["n", "scope", "kind", "code"]).where("tenant_id", "=", value("tenantId"))
    .where("space", "=", value("space")).where(inJsonList(dialect, "scope", value("scopes"))).orderBy("n")
);
const numbers = prepared((db: Db, value: Param<InSpace & { scope: string }>) =>
  db.selectFrom("vector_row").select("n").where("tenant_id", "=", value("tenantId"))
    .where("space", "=", value("space")).where("scope", "=", value("scope"))
);
const found = prepared((db: Db, value: Param<InSpace & { ns: string }>, dialect) =>
  db.selectFrom("vector_row").select(["n", "kind", "id", "code"]).where(inJsonNumbers(dialect, "n", value("ns"))).where(
    sql<boolean>`tenant_id || '' = ${value("tenantId")}`,
  ).where(sql<boolean>`space || '' = ${value("space")}`)
);
const remove = prepared((db: Db, value: Param<InSpace & { kind: string; ids: string }>, dialect) =>
  db.deleteFrom("vector_row").where("tenant_id", "=", value("tenantId")).where("space", "=", value("space"))
    .where("kind", "=", value("kind")).where(inJsonList(dialect, "id", value("ids"))).returning("scope")
);
const removeSome = prepared((db: Db, value: Param<InSpace & { limit: number }>) =>
  db.deleteFrom("vector_row").where("tenant_id", "=", value("tenantId")).where(
    "n",
    "in",
    (eb) =>
      eb.selectFrom("vector_row").select("n").where("tenant_id", "=", value("tenantId"))
        .where("space", "=", value("space")).limit(value("limit")),
  )
);

export class VectorRowStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  add(tx: AnyTransaction, rows: readonly Omit<VectorTables["vector_row"], "n">[]): Promise<void> {
    return tx.insertMany("vector_row", rows);
  }

  /** Vectors of a scope in the order of their numbers. */
  after({ tenantId, id }: VectorSpace, scope: string, n: number, limit: number): Promise<StoredVector[]> {
    return after.all(this.#db, { tenantId, space: id, scope, n, limit });
  }

  async inScopes({ tenantId, id }: VectorSpace, scopes: readonly string[]): Promise<Map<string, StoredVector[]>> {
    const rows = await inScopes.all(this.#db, { tenantId, space: id, scopes: JSON.stringify(scopes) });
    return Map.groupBy(rows, ({ scope }) => scope);
  }

  async numbers({ tenantId, id }: VectorSpace, scope: string): Promise<Set<number>> {
    const rows = await numbers.all(this.#db, { tenantId, space: id, scope });
    return new Set(rows.map(({ n }) => n));
  }

  async find(
    { tenantId, id }: VectorSpace,
    ns: readonly number[],
  ): Promise<Map<number, StoredVector & { id: string }>> {
    const rows = await found.all(this.#db, { tenantId, space: id, ns: JSON.stringify(ns) });
    return new Map(rows.map((row) => [row.n, row]));
  }

  /** Resolves to the scopes of the removed vectors. */
  remove({ tenantId, id }: VectorSpace, kind: string, ids: readonly string[]): Promise<{ scope: string }[]> {
    return remove.all(this.#db, { tenantId, space: id, kind, ids: JSON.stringify(ids) });
  }

  /** Resolves to how many were removed. */
  removeSome({ tenantId, id }: VectorSpace, limit: number): Promise<number> {
    return removeSome.run(this.#db, { tenantId, space: id, limit });
  }
}
