// The inverted index in SQL: one contract, and for each engine the statements that keep it and look tokens up.
import { Buffer } from "node:buffer";
import { type Kysely, type SelectQueryBuilder, sql } from "kysely";
import type { MessageTables } from "@/modules/message/mod.ts";
import { isOneOf } from "@/ports/list.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { Dialect, Transaction } from "@/ports/store.ts";

export type SearchDocumentRow = {
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
  /** Where it stands: everything of kinds before `kind`, and of `kind` up to `after_id`, is done. */
  kind: string | null;
  after_id: string | null;
  done: number;
  requested_by: string;
  started_at: string;
  finished_at: string | null;
};

export type SearchTables = MessageTables & {
  /** `tokens` exists on PostgreSQL only; SQLite keeps them in `search_terms`. */
  search_document: SearchDocumentRow & { tokens: number[] };
  search_terms: { rowid: number; tokens: string; search_terms: string };
  search_cursor: { tenant_id: string; room_id: string; seq: number; floor: number };
  search_reindex: ReindexRow;
};

/** A document with its tokens, about to be written; `n` is where its time wants it to be. */
export type IndexedDocument = { row: SearchDocumentRow; tokens: readonly number[] };

type Db = Kysely<SearchTables>;
type Tx = Transaction<SearchTables>;
/** A query over documents `d`. */
export type DocumentQuery = SelectQueryBuilder<SearchTables & { d: SearchTables["search_document"] }, "d", unknown>;

/** Tokens to look up: all of `all`; `any` is a hint, of which every answer has at least one when it is not empty. */
export type Tokens = { all: readonly number[]; any: readonly number[] };

const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz";
/** What takes seven digits. */
const SIX_DIGITS = 36 ** 6;
/** Seven digits and the space before them. */
const WORD_MAX = 8;
const SPACE = 32;
let bytes = Buffer.alloc(1024 * WORD_MAX);

/** Places per millisecond in `n`; more in one millisecond go on in the next. */
export const PLACES_PER_MS = 1024;

/** What an engine does its own way. Every method takes part in the transaction it is given. */
export interface IndexEngine {
  /** Adds documents or replaces older versions of them; all belong to one tenant and no two are the same. */
  put(tx: Tx, tenantId: string, documents: readonly IndexedDocument[]): Promise<void>;
  /** Removes documents by their `n`. */
  remove(tx: Tx, tenantId: string, rows: readonly Pick<SearchDocumentRow, "n" | "kind" | "id">[]): Promise<void>;
  /** Documents having the tokens. */
  matching(db: Db, tenantId: string, tokens: Tokens): DocumentQuery;
  /** The same query, newest first. */
  newestFirst(query: DocumentQuery): DocumentQuery;
}

/** FTS5 without content: a document's `n` is the row id of its tokens, so the newest come first without sorting. */
class SqliteEngine implements IndexEngine {
  async put(tx: Tx, tenantId: string, documents: readonly IndexedDocument[]): Promise<void> {
    const known = await knownDocuments(tx.db, tenantId, documents);
    const last = new Map<number, number>();
    const rows: SearchDocumentRow[] = [];
    const terms: { rowid: number; tokens: string }[] = [];
    for (const { row, tokens } of documents) {
      const before = known.get(`${row.kind} ${row.id}`);
      if (before !== undefined && before.version > row.version) continue;
      const n = before?.n ?? await freePlace(tx.db, row.n, last);
      if (before !== undefined) {
        await dropTerms.run(tx.db, { n });
        const { n: _, ...set } = row;
        await tx.db.updateTable("search_document").set(set).where("tenant_id", "=", tenantId).where("n", "=", n)
          .execute();
      } else rows.push({ ...row, n });
      terms.push({ rowid: n, tokens: wordsOf(tokens) });
    }
    await tx.insertMany("search_document", rows);
    await tx.insertMany("search_terms", terms);
  }

  async remove(tx: Tx, tenantId: string, rows: readonly Pick<SearchDocumentRow, "n">[]): Promise<void> {
    for (const { n } of rows) {
      await dropTerms.run(tx.db, { n });
      await tx.db.deleteFrom("search_document").where("tenant_id", "=", tenantId).where("n", "=", n).execute();
    }
  }

  matching(db: Db, tenantId: string, { all, any }: Tokens): DocumentQuery {
    const quoted = (tokens: readonly number[]): string[] => tokens.map((token) => `"${wordsOf([token])}"`);
    const parts = quoted(all);
    if (any.length > 0) parts.push(`(${quoted(any).join(" OR ")})`);
    // A cross join keeps its order in SQLite: tokens first, so that the newest rows are met first and a limit ends the walk.
    const query = db.selectFrom("search_terms as f").crossJoin("search_document as d")
      .where(sql.ref("f.search_terms"), "match", parts.join(" AND ")).whereRef("d.n", "=", "f.rowid")
      .where("d.tenant_id", "=", tenantId);
    // What comes on top only sees `d`.
    return query as unknown as DocumentQuery;
  }

  newestFirst(query: DocumentQuery): DocumentQuery {
    return query.orderBy(sql.ref("f.rowid"), "desc");
  }
}

/** A GIN index over the tokens as integers. */
class PostgresEngine implements IndexEngine {
  async put(tx: Tx, _tenantId: string, documents: readonly IndexedDocument[]): Promise<void> {
    if (documents.length === 0) return;
    const rows = documents.map(({ row, tokens }) => ({ ...row, tokens: `{${tokens.join(",")}}` }));
    // Sorted, so that two writers lock the rows they share in one order.
    rows.sort((a, b) => a.kind < b.kind || a.kind === b.kind && a.id < b.id ? -1 : 1);
    await sql`
      insert into search_document (n, tenant_id, kind, id, room_id, principal_id, author_id, seq, at, version, tokens)
      select n, tenant_id, kind, id, room_id, principal_id, author_id, seq, at, version, tokens
      from json_populate_recordset(null::search_document, ${JSON.stringify(rows)}::text::json)
      on conflict (tenant_id, kind, id) do update set room_id = excluded.room_id, principal_id = excluded.principal_id,
        author_id = excluded.author_id, seq = excluded.seq, at = excluded.at, version = excluded.version,
        tokens = excluded.tokens
      where search_document.version <= excluded.version`.execute(tx.db);
  }

  async remove(tx: Tx, tenantId: string, rows: readonly Pick<SearchDocumentRow, "kind" | "id">[]): Promise<void> {
    for (const [kind, group] of Map.groupBy(rows, (row) => row.kind)) {
      await tx.db.deleteFrom("search_document").where("tenant_id", "=", tenantId).where("kind", "=", kind)
        .where("id", "in", group.map((row) => row.id).sort()).execute();
    }
  }

  matching(db: Db, tenantId: string, { all, any }: Tokens): DocumentQuery {
    // Reading the long lists of several rooms costs more than it saves; one room is one token more.
    const needed = `{${(any.length === 1 ? [...all, ...any] : all).join(",")}}`;
    const query = db.selectFrom("search_document as d").where("d.tenant_id", "=", tenantId)
      .where(sql<boolean>`d.tokens @> ${needed}::text::integer[]`);
    return query as unknown as DocumentQuery; // as above
  }

  newestFirst(query: DocumentQuery): DocumentQuery {
    return query.orderBy("d.n", "desc").orderBy("d.id", "desc");
  }
}

/** The engine of a dialect. */
export function indexEngineOf(dialect: Dialect): IndexEngine {
  return dialect === "sqlite" ? new SqliteEngine() : new PostgresEngine();
}

const documentsByIds = prepared(
  (db: Db, value: Param<{ tenantId: string; kind: string; ids: string }>, dialect) =>
    db.selectFrom("search_document").select(["n", "kind", "id", "version"]).where("tenant_id", "=", value("tenantId"))
      .where("kind", "=", value("kind")).where(isOneOf(dialect, "id", value("ids"))),
);
/** Places are unique across tenants, so this one look goes over all of them. */
const lastPlace = prepared((db: Db, value: Param<{ from: number; to: number }>) =>
  db.selectFrom("search_document").select(({ fn }) => fn.max("n").as("n")).where("n", ">=", value("from"))
    .where("n", "<", value("to"))
);
const dropTerms = prepared((db: Db, value: Param<{ n: number }>) =>
  db.deleteFrom("search_terms").where("rowid", "=", value("n"))
);

/** Documents by kind and id. */
export function documentsById(
  db: Db,
  tenantId: string,
  kind: string,
  ids: readonly string[],
): Promise<Pick<SearchDocumentRow, "n" | "kind" | "id" | "version">[]> {
  return documentsByIds.all(db, { tenantId, kind, ids: JSON.stringify(ids) });
}

/** Some documents of a room. */
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

/** The first free `n` from `wanted` on; `last` remembers what this batch took. */
async function freePlace(db: Db, wanted: number, last: Map<number, number>): Promise<number> {
  for (let from = wanted;; from += PLACES_PER_MS) {
    let taken = last.get(from);
    if (taken === undefined) {
      taken = (await lastPlace.first(db, { from, to: from + PLACES_PER_MS }))?.n ?? from - 1;
    }
    if (taken + 1 < from + PLACES_PER_MS) {
      last.set(from, taken + 1);
      return taken + 1;
    }
    last.set(from, taken);
  }
}

/** Tokens in base 36, with spaces between them; into bytes, since a text has a hundred and more. */
export function wordsOf(tokens: readonly number[]): string {
  const places = tokens.length * WORD_MAX;
  if (bytes.length < places) bytes = Buffer.alloc(places);
  let end = 0;
  for (const token of tokens) {
    let rest = token >>> 0;
    if (end > 0) bytes[end++] = SPACE;
    end += rest >= SIX_DIGITS ? 7 : rest >= SIX_DIGITS / 36 ? 6 : rest.toString(36).length;
    for (let at = end - 1;; at--) {
      const left = Math.floor(rest / 36);
      bytes[at] = DIGITS.charCodeAt(rest - left * 36);
      if (left === 0) break;
      rest = left;
    }
  }
  return bytes.toString("latin1", 0, end);
}
