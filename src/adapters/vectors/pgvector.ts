// Vectors in PostgreSQL with the extension pgvector, as half-precision numbers.
//
// Up to `EXACT_MAX` visible vectors the scan is exact, over rows that are selected first: left to itself the planner takes an HNSW index
// before the condition on the scopes, and returns less than was asked for. Beyond, each space has an HNSW index of its own.
import { type Kysely, type RawBuilder, sql } from "kysely";
import { failureOf, logOf } from "@/core/log.ts";
import type { Migration } from "@/core/migration.ts";
import { jsonRows } from "@/ports/sql/filters.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { VectorHit, VectorQuery, VectorRef, VectorRow, Vectors, VectorSpace } from "@/ports/vectors.ts";
import { clearScopes, countInScopes, countVectors, readScopes, vectorMigrations, type VectorTables } from "./tables.ts";

const EXACT_MAX = 100_000;
/** The index has at most so many dimensions. */
const DIMENSIONS_MAX = 4000;
const VECTORS_PER_HIT = 4;
/** How many neighbours the index looks at. */
const SEARCH_WIDTH_MAX = 1000;
const CLEAR_ROWS = 1000;
/** Any number that no other user of the database locks. */
const LOCK_KEY = 5_170_323;
const SAFE_NAME = /^[a-z0-9_]{1,40}$/;

type Tables = VectorTables & {
  vector_embedding: { n: number; tenant_id: string; space: string; scope: string; kind: string; id: string };
};
type Db = Kysely<Tables>;

type PgvectorOptions = {
  exactMax?: number;
  /** Runs a statement by itself, without a time limit. */
  runAlone: (statement: string) => Promise<void>;
};

const log = logOf("vector");

class PgvectorVectors implements Vectors {
  readonly engine = "pgvector";
  readonly dimensionsMax = DIMENSIONS_MAX;
  // Its table exists only with the extension, which may be installed later.
  readonly migrations: readonly Migration[] = vectorMigrations;
  readonly #store: Store<Tables>;
  readonly #exactMax: number;
  readonly #runAlone: PgvectorOptions["runAlone"];

  /** Use `openPgvector`. */
  constructor(store: Store<Tables>, { exactMax = EXACT_MAX, runAlone }: PgvectorOptions) {
    this.#store = store;
    this.#exactMax = exactMax;
    this.#runAlone = runAlone;
  }

  async put(tx: AnyTransaction, space: VectorSpace, rows: readonly VectorRow[]): Promise<void> {
    if (rows.length === 0) return;
    await countInScopes(tx, space, rows, 1);
    const json = JSON.stringify(
      rows.map(({ scope, kind, id, vector }) => ({ scope, kind, id, vector: literalOf(vector) })),
    );
    const added = jsonRows(json, sql`added(scope text, kind text, id text, vector text)`);
    await sql`insert into vector_embedding (tenant_id, space, scope, kind, id, embedding)
      select ${space.tenantId}, ${space.id}, scope, kind, id, vector::halfvec from ${added}`.execute(tx.db);
  }

  async remove(tx: AnyTransaction, space: VectorSpace, refs: readonly VectorRef[]): Promise<void> {
    for (const [kind, group] of Map.groupBy(refs, (ref) => ref.kind)) {
      const { rows } = await sql<{ scope: string }>`delete from vector_embedding where tenant_id = ${space.tenantId}
        and space = ${space.id} and kind = ${kind} and id = ${anyOf(group.map(({ id }) => id))} returning scope`
        .execute(tx.db);
      await countInScopes(tx, space, rows, -1);
    }
  }

  async search(space: VectorSpace, query: VectorQuery): Promise<VectorHit[]> {
    const visible = await readScopes(this.#store.db, space, query.scopes);
    const total = visible.reduce((sum, { rows }) => sum + rows, 0);
    if (total === 0 || query.limit === 0) return [];
    const wanted = query.limit * VECTORS_PER_HIT;
    const scopes = visible.map(({ scope }) => scope);
    const isIndexed = total > this.#exactMax && await this.#hasIndex(space);
    const near = isIndexed ? await this.#searchIndex(space, query, scopes, wanted) : [];
    // A search of the index may end before it has read everything.
    const rows = near.length >= Math.min(wanted, total)
      ? near
      : await this.#searchExactly(space, query, scopes, wanted);
    const hits = new Map<string, VectorHit>();
    for (const { kind, id, score } of rows) {
      const key = `${kind} ${id}`;
      if (!hits.has(key)) hits.set(key, { kind, id, score });
      if (hits.size === query.limit) break;
    }
    return [...hits.values()];
  }

  count(space: VectorSpace): Promise<number> {
    return countVectors(this.#store.db, space);
  }

  /** Builds the index of a space that needs one, while it is searched and written. */
  async optimize(space: VectorSpace): Promise<void> {
    if (await this.count(space) <= this.#exactMax || await this.#hasIndex(space)) return;
    const name = indexOf(space);
    log.info("building an index of vectors", { tenant: space.tenantId, space: space.id });
    try {
      // What an interrupted attempt left is not valid.
      await this.#runAlone(`drop index concurrently if exists ${name}`);
      await this.#runAlone(
        `create index concurrently ${name} on vector_embedding
          using hnsw ((embedding::halfvec(${space.dimensions})) halfvec_cosine_ops) where space = '${space.id}'`,
      );
    } catch (cause) {
      // Searches are exact until it succeeds.
      log.warn("building an index of vectors failed", { space: space.id, ...failureOf(cause) });
    }
  }

  async clear(space: VectorSpace): Promise<boolean> {
    const isMore = await this.#store.write(async (tx) => {
      const { numAffectedRows = 0n } = await sql`delete from vector_embedding where tenant_id = ${space.tenantId}
        and n in (select n from vector_embedding where tenant_id = ${space.tenantId} and space = ${space.id}
          limit ${CLEAR_ROWS})`.execute(tx.db);
      if (numAffectedRows < CLEAR_ROWS) await clearScopes(tx, space);
      return numAffectedRows >= CLEAR_ROWS;
    });
    if (!isMore && await this.#hasIndex(space)) await this.#runAlone(`drop index concurrently ${indexOf(space)}`);
    return isMore;
  }

  // Nothing is in memory.
  reset(): void {}

  async #searchExactly(
    { tenantId, id }: VectorSpace,
    { vector, kinds }: VectorQuery,
    scopes: readonly string[],
    limit: number,
  ): Promise<VectorHit[]> {
    const { rows } = await sql<VectorHit>`with visible as materialized (
        select kind, id, embedding from vector_embedding where tenant_id = ${tenantId} and space = ${id}
          and scope = ${anyOf(scopes)} and kind = ${anyOf(kinds)})
      select kind, id, 1 - (embedding <=> ${literalOf(vector)}::text::halfvec) as score from visible
      order by score desc limit ${limit}`.execute(this.#store.db);
    return rows;
  }

  #searchIndex(
    { tenantId, id, dimensions }: VectorSpace,
    { vector, kinds }: VectorQuery,
    scopes: readonly string[],
    limit: number,
  ): Promise<VectorHit[]> {
    const type = sql.raw(`halfvec(${dimensions})`);
    return this.#store.write(async ({ db }) => {
      await sql`select set_config('hnsw.iterative_scan', 'strict_order', true),
        set_config('hnsw.ef_search', ${String(Math.min(limit, SEARCH_WIDTH_MAX))}, true)`.execute(db);
      // The statement contains the name of the space, since that is the condition of its index.
      const { rows } = await sql<VectorHit>`
        select kind, id, 1 - (embedding::${type} <=> ${literalOf(vector)}::text::${type}) as score from vector_embedding
        where space = ${sql.lit(id)} and tenant_id = ${tenantId} and scope = ${anyOf(scopes)} and kind = ${anyOf(kinds)}
        order by embedding::${type} <=> ${literalOf(vector)}::text::${type} limit ${limit}`.execute(db);
      return rows;
    });
  }

  async #hasIndex(space: VectorSpace): Promise<boolean> {
    const { rows } = await sql`select 1 from pg_index where indexrelid = to_regclass(${indexOf(space)}) and indisvalid`
      .execute(this.#store.db);
    return rows.length > 0;
  }
}

/** The adapter, where the extension is installed or can be; else `undefined`. */
export async function openPgvector(
  store: Store<Tables>,
  options: PgvectorOptions,
): Promise<PgvectorVectors | undefined> {
  const { rows } = await sql`select 1 from pg_available_extensions where name = 'vector'`.execute(store.db);
  if (rows.length === 0) return undefined;
  try {
    await store.write(({ db }) => createTable(db));
  } catch (cause) {
    // For instance a role that may not create extensions.
    log.info("the extension vector cannot be used; vectors are compared by the gateway", failureOf(cause));
    return undefined;
  }
  return new PgvectorVectors(store, options);
}

async function createTable(db: Db): Promise<void> {
  // Several nodes may start at the same time.
  await sql`select pg_advisory_xact_lock(${LOCK_KEY}::bigint)`.execute(db);
  await sql`create extension if not exists vector`.execute(db);
  await sql`create table if not exists vector_embedding (
    n bigint generated always as identity primary key,
    tenant_id text not null,
    space text not null,
    scope text not null,
    kind text not null,
    id text not null,
    embedding halfvec not null
  )`.execute(db);
  await sql`create index if not exists vector_embedding_scope on vector_embedding (tenant_id, space, scope)`.execute(
    db,
  );
  await sql`create index if not exists vector_embedding_resource on vector_embedding (tenant_id, space, id, kind)`
    .execute(db);
}

/** Spaces are named by the gateway; a name that is part of a statement is checked all the same. */
function indexOf({ id }: VectorSpace): string {
  if (!SAFE_NAME.test(id)) throw new TypeError("Expected the name of a space, received something else");
  return `vector_hnsw_${id}`;
}

function literalOf(vector: readonly number[]): string {
  const length = Math.hypot(...vector) || 1;
  return `[${vector.map((value) => (value / length).toFixed(6)).join(",")}]`;
}

function anyOf(values: readonly string[]): RawBuilder<unknown> {
  return sql`any(array(select json_array_elements_text(${JSON.stringify(values)}::text::json)))`;
}
