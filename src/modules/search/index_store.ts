// The inverted index in SQL: one contract, implemented for each database engine.
import { type Generated, type Kysely, type RawBuilder, type SelectQueryBuilder, sql } from "kysely";
import { compareText } from "@/core/text/text.ts";
import type { RoomTables } from "@/modules/room/mod.ts";
import { inJsonList } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { Dialect, Transaction } from "@/ports/store.ts";
import { encodeTokens, quoteTokens } from "./term_query.ts";
import { mergeTerms } from "./term_store.ts";

type SearchDocumentRow = {
  n: number;
  tenant_id: string;
  kind: string;
  id: string;
  room_id: string | null;
  principal_id: string | null;
  author_id: string | null;
  seq: number | null;
  at: string;
  version: number;
};

export type ReindexRow = {
  tenant_id: string;
  id: string;
  kinds_json: string;
  /** Progress: all kinds before `kind` are done, and `kind` up to `after_id`. */
  kind: string | null;
  after_id: string | null;
  done: number;
  requested_by: string;
  started_at: string;
  finished_at: string | null;
};

export type SearchTables = RoomTables & {
  /** `tokens` exists on PostgreSQL only; SQLite stores them in `search_terms`. */
  search_document: SearchDocumentRow & { tokens: number[] };
  search_terms: { rowid: number; tokens: string; search_terms: string };
  /** Parts of a document with a long text; `tokens` as above. */
  search_part: Pick<SearchDocumentRow, "tenant_id" | "kind" | "id" | "n"> & {
    part: Generated<number>;
    tokens: Generated<string>;
  };
  search_part_terms: { rowid: number; tokens: string };
  search_cursor: { tenant_id: string; room_id: string; seq: number; floor: number };
  search_reindex: ReindexRow;
};

/**
 * A document to write, with its tokens; `n` is the slot of its time. If it is not whole, these are its first tokens, and its
 * existing parts stay until new ones replace them.
 */
export type IndexedDocument = { row: SearchDocumentRow; tokens: readonly number[]; isWhole: boolean };

/** A document in the index, with the version at the time of the lookup. */
type DocumentRef = Pick<SearchDocumentRow, "n" | "kind" | "id" | "version">;

type Db = Kysely<SearchTables>;
type Tx = Transaction<SearchTables>;
/** A query over documents `d`. */
export type DocumentQuery = SelectQueryBuilder<SearchTables & { d: SearchTables["search_document"] }, "d", unknown>;

/** A position among the documents of a tenant, which are sorted newest first. */
export type DocumentPosition = { n: number; id: string };

/**
 * Tokens to look up: all of `all`, and at least one of `any` unless it is empty; `any` only narrows the search. With `newest`, only
 * that many documents of a kind are read, the newest ones after a position.
 */
export type Tokens = {
  all: readonly number[];
  any: readonly number[];
  newest?: { kind: string; rows: number; after: DocumentPosition | undefined };
};

/** Documents that one statement of SQLite reads: some milliseconds, in which the thread does nothing else. */
const SLICE_DOCUMENTS = 2000;

/** Maximum number of a query's tokens that are looked up in parts. */
const PART_LOOKUPS_MAX = 8;

/** Slots per millisecond in `n`; further documents of a millisecond use slots of the next. */
export const SLOTS_PER_MS = 1024;

/** The engine-specific part of the index. Every method with `tx` is part of that transaction. */
export interface IndexEngine {
  /** Adds documents or replaces older versions of them; all are distinct documents of one tenant. */
  put(tx: Tx, tenantId: string, documents: readonly IndexedDocument[]): Promise<void>;
  /** Removes documents by their `n`. */
  remove(tx: Tx, tenantId: string, rows: readonly Pick<SearchDocumentRow, "n" | "kind" | "id">[]): Promise<void>;
  /** Adds a part of a document and returns its number, which increases; `undefined` if the document has changed. */
  addPart(tx: Tx, tenantId: string, document: DocumentRef, tokens: readonly number[]): Promise<number | undefined>;
  /** Removes the parts of documents, or those before a part. */
  dropParts(tx: Tx, tenantId: string, ids: readonly string[], before?: number): Promise<void>;
  matching(db: Db, tenantId: string, tokens: Tokens): DocumentQuery;
  /** Documents whose parts together have the tokens. */
  matchingInParts(db: Db, tenantId: string, tokens: Tokens): DocumentQuery;
  /** The same query, newest first. */
  newestFirst(query: DocumentQuery): DocumentQuery;
  /**
   * The part of a query of `matching` that one statement may read, newest first and before `n`, and where it ends; `undefined` if it
   * has all others. Absent: a statement may read all.
   */
  slice?(db: Db, query: DocumentQuery, tokens: Tokens, n: number): Promise<{ query: DocumentQuery; end?: number }>;
  /** Does a part of the work that writes leave behind; returns whether there may be more. Absent: there is none. */
  merge?(tx: Tx): Promise<boolean>;
  /** How many of the newest documents to read before all with the tokens are, which takes long where most documents have them. */
  readonly newestRows: readonly number[];
}

/** FTS5 without content: a document's `n` is the row id of its tokens, so results are newest first without sorting. */
class SqliteEngine implements IndexEngine {
  readonly newestRows = [];

  async put(tx: Tx, tenantId: string, documents: readonly IndexedDocument[]): Promise<void> {
    const known = await knownDocuments(tx.db, tenantId, documents);
    const last = new Map<number, number>();
    const rows: SearchDocumentRow[] = [];
    const terms: { rowid: number; tokens: string }[] = [];
    const withoutParts: string[] = [];
    for (const { row, tokens, isWhole } of documents) {
      const before = known.get(`${row.kind} ${row.id}`);
      if (before !== undefined && before.version > row.version) continue;
      const n = before?.n ?? await findFreeSlot(tx.db, row.n, last);
      if (before !== undefined) {
        await dropTerms.run(tx.db, { n });
        if (isWhole) withoutParts.push(row.id);
        const { n: _, ...set } = row;
        await tx.db.updateTable("search_document").set(set).where("tenant_id", "=", tenantId).where("n", "=", n)
          .execute();
      } else rows.push({ ...row, n });
      terms.push({ rowid: n, tokens: encodeTokens(tokens) });
    }
    await tx.insertMany("search_document", rows);
    await tx.insertMany("search_terms", terms);
    await this.dropParts(tx, tenantId, withoutParts);
  }

  async remove(tx: Tx, tenantId: string, rows: readonly Pick<SearchDocumentRow, "n" | "id">[]): Promise<void> {
    await this.dropParts(tx, tenantId, rows.map(({ id }) => id));
    for (const { n } of rows) {
      await dropTerms.run(tx.db, { n });
      await tx.db.deleteFrom("search_document").where("tenant_id", "=", tenantId).where("n", "=", n).execute();
    }
  }

  async addPart(
    tx: Tx,
    tenantId: string,
    { n, kind, id, version }: DocumentRef,
    tokens: readonly number[],
  ): Promise<number | undefined> {
    const [current] = await documentsById(tx.db, tenantId, kind, [id]);
    if (current?.version !== version) return undefined;
    const { part } = await tx.db.insertInto("search_part").values({ tenant_id: tenantId, kind, id, n })
      .returning("part").executeTakeFirstOrThrow();
    await tx.insertMany("search_part_terms", [{ rowid: part, tokens: encodeTokens(tokens) }]);
    return part;
  }

  async dropParts(tx: Tx, tenantId: string, ids: readonly string[], before: number = Infinity): Promise<void> {
    if (ids.length === 0) return;
    for (const { part } of await partsOf.all(tx.db, { tenantId, ids: JSON.stringify(ids) })) {
      if (part >= before) continue;
      await tx.db.deleteFrom("search_part_terms").where("rowid", "=", part).execute();
      await tx.db.deleteFrom("search_part").where("tenant_id", "=", tenantId).where("part", "=", part).execute();
    }
  }

  matching(db: Db, tenantId: string, tokens: Tokens): DocumentQuery {
    // SQLite does not reorder a cross join: tokens first, so that the newest rows are read first and a limit ends the scan.
    const query = db.selectFrom("search_terms as f").crossJoin("search_document as d")
      .where(sql.ref("f.search_terms"), "match", matchOf(tokens)).whereRef("d.n", "=", "f.rowid")
      .where("d.tenant_id", "=", tenantId);
    // Callers only use `d`.
    return query as unknown as DocumentQuery;
  }

  matchingInParts(db: Db, tenantId: string, tokens: Tokens): DocumentQuery {
    const having = quoteTokens(partTokensOf(tokens)).map((token) =>
      sql`select p.n as rowid from search_part_terms as t cross join search_part as p on p.part = t.rowid
        where t.search_part_terms match ${token}`
    );
    const query = db.selectFrom(intersectAll<{ rowid: number }>(having).as("f")).crossJoin("search_document as d")
      .whereRef("d.n", "=", "f.rowid").where("d.tenant_id", "=", tenantId);
    return query as unknown as DocumentQuery; // as above
  }

  newestFirst(query: DocumentQuery): DocumentQuery {
    return query.orderBy(sql.ref("f.rowid"), "desc");
  }

  async slice(
    db: Db,
    query: DocumentQuery,
    tokens: Tokens,
    n: number,
  ): Promise<{ query: DocumentQuery; end?: number }> {
    const last = await lastOfSlice.first(db, { match: matchOf(tokens), n });
    const part = query.where(sql<boolean>`f.rowid < ${asInteger(n)}`);
    return last === undefined
      ? { query: part }
      : { query: part.where(sql<boolean>`f.rowid >= ${asInteger(last.rowid)}`), end: last.rowid };
  }

  merge({ db }: Tx): Promise<boolean> {
    return mergeTerms(db);
  }
}

/** A GIN index over the tokens as integers. */
class PostgresEngine implements IndexEngine {
  readonly newestRows = [2000, 40_000];

  async put(tx: Tx, tenantId: string, documents: readonly IndexedDocument[]): Promise<void> {
    if (documents.length === 0) return;
    const long = documents.filter(({ isWhole }) => !isWhole).map(({ row }) => row.id);
    const rows = documents.map(({ row, tokens }) => ({ ...row, tokens: `{${tokens.join(",")}}` }));
    // Sorted, so that two writers lock shared rows in the same order.
    rows.sort((a, b) => compareText(a.kind, b.kind) || compareText(a.id, b.id));
    await sql`with written as (insert into search_document (n, tenant_id, kind, id, room_id, principal_id, author_id, seq, at, version, tokens)
      select n, tenant_id, kind, id, room_id, principal_id, author_id, seq, at, version, tokens
      from json_populate_recordset(null::search_document, ${JSON.stringify(rows)}::text::json)
      on conflict (tenant_id, kind, id) do update set room_id = excluded.room_id, principal_id = excluded.principal_id,
        author_id = excluded.author_id, seq = excluded.seq, at = excluded.at, version = excluded.version,
        tokens = excluded.tokens
      where search_document.version <= excluded.version returning kind, id)
      delete from search_part using written where search_part.tenant_id = ${tenantId}
        and search_part.kind = written.kind and search_part.id = written.id
        and not written.id = any(array(select json_array_elements_text(${JSON.stringify(long)}::text::json)))`
      .execute(tx.db);
  }

  async remove(tx: Tx, tenantId: string, rows: readonly Pick<SearchDocumentRow, "kind" | "id">[]): Promise<void> {
    for (const [kind, group] of Map.groupBy(rows, (row) => row.kind)) {
      await tx.db.deleteFrom("search_document").where("tenant_id", "=", tenantId).where("kind", "=", kind)
        .where("id", "in", group.map((row) => row.id).sort()).execute();
    }
    await this.dropParts(tx, tenantId, rows.map(({ id }) => id));
  }

  async addPart(
    tx: Tx,
    tenantId: string,
    { n, kind, id, version }: DocumentRef,
    tokens: readonly number[],
  ): Promise<number | undefined> {
    // Locked, so that a concurrent removal of the document finds the part.
    const now = await tx.db.selectFrom("search_document").select("version").where("tenant_id", "=", tenantId)
      .where("kind", "=", kind).where("id", "=", id).forUpdate().executeTakeFirst();
    if (now?.version !== version) return undefined;
    const { part } = await tx.db.insertInto("search_part")
      .values({ tenant_id: tenantId, kind, id, n, tokens: `{${tokens.join(",")}}` })
      .returning("part").executeTakeFirstOrThrow();
    return part;
  }

  async dropParts(tx: Tx, tenantId: string, ids: readonly string[], before: number = Infinity): Promise<void> {
    if (ids.length === 0) return;
    await tx.db.deleteFrom("search_part").where("tenant_id", "=", tenantId)
      .where(inJsonList("postgres", "id", JSON.stringify(ids)))
      .$if(before !== Infinity, (query) => query.where("part", "<", before)).execute();
  }

  matching(db: Db, tenantId: string, { all, any, newest }: Tokens): DocumentQuery {
    // Reading the long lists of several rooms costs more than it saves; one room is one token more.
    const needed = `{${(any.length === 1 ? [...all, ...any] : all).join(",")}}`;
    const documents = newest === undefined
      ? db.selectFrom("search_document as d").where("d.tenant_id", "=", tenantId)
      : db.selectFrom(newestDocuments(db, tenantId, newest).as("d"));
    return (documents as unknown as DocumentQuery).where(sql<boolean>`d.tokens @> ${needed}::text::integer[]`); // as above
  }

  matchingInParts(db: Db, tenantId: string, tokens: Tokens): DocumentQuery {
    const having = partTokensOf(tokens).map((token) =>
      sql`select id from search_part where tenant_id = ${tenantId} and tokens @> ${`{${token}}`}::text::integer[]`
    );
    const query = db.selectFrom("search_document as d").where("d.tenant_id", "=", tenantId)
      .where(sql<boolean>`d.id in ${intersectAll(having)}`);
    return query as unknown as DocumentQuery; // as above
  }

  newestFirst(query: DocumentQuery): DocumentQuery {
    return query.orderBy("d.n", "desc").orderBy("d.id", "desc");
  }
}

export function indexEngineOf(dialect: Dialect): IndexEngine {
  return dialect === "sqlite" ? new SqliteEngine() : new PostgresEngine();
}

/** Newest first, on PostgreSQL. The tenant is an expression that no other query has, so that none is planned with this index. */
function newestDocuments(db: Db, tenantId: string, { kind, rows, after }: NonNullable<Tokens["newest"]>) {
  let query = db.selectFrom("search_document").selectAll().where(sql<boolean>`'' || tenant_id = ${tenantId}`)
    .where("kind", "=", kind);
  if (after !== undefined) query = query.where(sql<boolean>`(n, id) < (${after.n}, ${after.id})`);
  return query.orderBy("n", "desc").orderBy("id", "desc").limit(rows);
}

const documentsByIds = prepared(
  (db: Db, value: Param<{ tenantId: string; kind: string; ids: string }>, dialect) =>
    db.selectFrom("search_document").select(["n", "kind", "id", "version"]).where("tenant_id", "=", value("tenantId"))
      .where("kind", "=", value("kind")).where(inJsonList(dialect, "id", value("ids"))),
);
/** Slots are unique across tenants, so this query is not limited to one. */
const lastSlot = prepared((db: Db, value: Param<{ from: number; to: number }>) =>
  db.selectFrom("search_document").select(({ fn }) => fn.max("n").as("n")).where("n", ">=", value("from"))
    .where("n", "<", value("to"))
);
const partsOf = prepared((db: Db, value: Param<{ tenantId: string; ids: string }>, dialect) =>
  db.selectFrom("search_part").select("part").where("tenant_id", "=", value("tenantId"))
    .where(inJsonList(dialect, "id", value("ids")))
);
/** No condition on the tenant: each has its own tokens. */
const lastOfSlice = prepared((db: Db, value: Param<{ match: string; n: number }>) =>
  db.selectFrom("search_terms").select("rowid").where("search_terms", "match", value("match"))
    .where(sql<boolean>`rowid < ${asInteger(value("n"))}`).orderBy("rowid", "desc").limit(sql.lit(1)).offset(
      sql.lit(SLICE_DOCUMENTS - 1),
    )
);
const dropTerms = prepared((db: Db, value: Param<{ n: number }>) =>
  db.deleteFrom("search_terms").where("rowid", "=", value("n"))
);

export function documentsById(db: Db, tenantId: string, kind: string, ids: readonly string[]): Promise<DocumentRef[]> {
  return documentsByIds.all(db, { tenantId, kind, ids: JSON.stringify(ids) });
}

/** Up to `limit` documents of a room. */
export function documentsOfRoom(
  db: Db,
  tenantId: string,
  roomId: string,
  limit: number,
): Promise<Pick<SearchDocumentRow, "n" | "kind" | "id">[]> {
  return db.selectFrom("search_document").select(["n", "kind", "id"]).where("tenant_id", "=", tenantId)
    .where("room_id", "=", roomId).limit(limit).execute();
}

async function knownDocuments(
  db: Db,
  tenantId: string,
  documents: readonly IndexedDocument[],
): Promise<Map<string, Pick<SearchDocumentRow, "n" | "version">>> {
  const known = new Map<string, Pick<SearchDocumentRow, "n" | "version">>();
  for (const [kind, group] of Map.groupBy(documents, ({ row }) => row.kind)) {
    const rows = await documentsById(db, tenantId, kind, group.map(({ row }) => row.id));
    for (const row of rows) known.set(`${kind} ${row.id}`, row);
  }
  return known;
}

/** The first free `n` from `wanted` on; `last` has the slots taken by this batch. */
async function findFreeSlot(db: Db, wanted: number, last: Map<number, number>): Promise<number> {
  for (let from = wanted;; from += SLOTS_PER_MS) {
    let taken = last.get(from);
    if (taken === undefined) taken = (await lastSlot.first(db, { from, to: from + SLOTS_PER_MS }))?.n ?? from - 1;
    if (taken + 1 < from + SLOTS_PER_MS) {
      last.set(from, taken + 1);
      return taken + 1;
    }
    last.set(from, taken);
  }
}

/** The tokens to look up one by one, as each may be in any part: a sample of many tokens narrows enough. */
function partTokensOf({ all }: Tokens): number[] {
  const step = Math.max(1, all.length / PART_LOOKUPS_MAX);
  // From the end, where the token of the reader is, which narrows most.
  const last = all.toReversed();
  return Array.from({ length: Math.min(all.length, PART_LOOKUPS_MAX) }, (_, at) => last[Math.floor(at * step)] ?? 0);
}

/** The rows that all of these queries find. */
function intersectAll<Row>(queries: readonly RawBuilder<unknown>[]): RawBuilder<Row> {
  return sql<Row>`(${sql.join(queries, sql` intersect `)})`;
}

/** An expression of FTS5. */
function matchOf({ all, any }: Tokens): string {
  const parts = quoteTokens(all);
  if (any.length > 0) parts.push(`(${quoteTokens(any).join(" OR ")})`);
  return parts.join(" AND ");
}

/** FTS5 reads from a row on only where that is an integer. The driver binds large numbers as floating-point ones. */
function asInteger(n: number): RawBuilder<number> {
  return sql`cast(${n} as integer)`;
}
