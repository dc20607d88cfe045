// SQL of imports and exports: their rows, the lines that wait to be sorted, and what was here before.
import { type Kysely, sql, type SqlBool } from "kysely";
import { queryInChunks } from "@/core/page.ts";
import { deleteSome } from "@/ports/sql/deletion.ts";
import { orderedAfter } from "@/ports/sql/filters.ts";
import type { ImportHistoryRow, LineRow, TransferTables } from "./tables.ts";

export type { ExportRow, ImportRow, LineRow, TransferTables } from "./tables.ts";

type Db = Kysely<TransferTables>;
export type JobTable = "transfer_import" | "transfer_export";

/** The rows of imports, or those of exports: what both tables have. */
export class TransferJobStore<Table extends JobTable> {
  readonly #db: Db;
  readonly #table: JobTable;

  constructor(db: Db, table: Table) {
    this.#db = db;
    this.#table = table;
  }

  async add(row: TransferTables[Table]): Promise<void> {
    await this.#db.insertInto(this.#table).values(row).execute();
  }

  async find(tenantId: string, id: string): Promise<TransferTables[Table] | undefined> {
    const row = await this.#rows(tenantId).where("id", "=", id).executeTakeFirst();
    // The query builder knows no more than that the table is one of the two.
    return row as TransferTables[Table] | undefined;
  }

  /** The row, locked until the transaction ends. */
  async lock(tenantId: string, id: string): Promise<TransferTables[Table] | undefined> {
    // An update that changes nothing is the row lock that both engines have.
    const row: unknown = await this.#db.updateTable(this.#table).set(({ ref }) => ({ version: ref("version") }))
      .where("tenant_id", "=", tenantId).where("id", "=", id).returningAll().executeTakeFirst();
    // As above.
    return row as TransferTables[Table] | undefined;
  }

  /** Newest first, those of one principal or all. */
  async page(
    tenantId: string,
    requestedBy: string | undefined,
    before: string | undefined,
    limit: number,
  ): Promise<TransferTables[Table][]> {
    let query = this.#rows(tenantId);
    if (requestedBy !== undefined) query = query.where("requested_by", "=", requestedBy);
    if (before !== undefined) query = query.where("id", "<", before);
    const rows: unknown[] = await query.orderBy("id", "desc").limit(limit).execute();
    // As above.
    return rows as TransferTables[Table][];
  }

  async update(tenantId: string, id: string, set: Partial<TransferTables[Table]>): Promise<void> {
    await this.#db.updateTable(this.#table).set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Adds to the bytes reserved for a content; resolves to whether the row still names that content. */
  async chargeBytes({ tenant_id, id, blob_key }: TransferTables[Table], bytes: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable(this.#table)
      .set({ charged_bytes: sql<number>`charged_bytes + ${bytes}` })
      .where("tenant_id", "=", tenant_id).where("id", "=", id).where("blob_key", "=", blob_key).executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** How many of the tenant, or of one principal, have not ended. */
  async countUnfinished(tenantId: string, chargedId?: string): Promise<number> {
    let query = this.#db.selectFrom(this.#table).select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("state", "in", ["waiting", "queued", "running"]);
    if (chargedId !== undefined) query = query.where("charged_id", "=", chargedId);
    return Number((await query.executeTakeFirstOrThrow()).n);
  }

  /** Ids of those of a principal and its agents whose work is done, the newest first. */
  async finishedIds(tenantId: string, chargedId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom(this.#table).select("id").where("tenant_id", "=", tenantId)
      .where("charged_id", "=", chargedId).where("state", "=", "done").orderBy("id", "desc").execute();
    return rows.map((row) => row.id);
  }

  #rows(tenantId: string) {
    return this.#db.selectFrom(this.#table).selectAll().where("tenant_id", "=", tenantId);
  }
}

export class TransferStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Lines of one import in the order of rooms, times and lines. */
  lines(
    tenantId: string,
    importId: string,
    after: Pick<LineRow, "room_key" | "at" | "line">,
    limit: number,
  ): Promise<LineRow[]> {
    const lines = this.#db.selectFrom("transfer_line").selectAll().where("tenant_id", "=", tenantId)
      .where("import_id", "=", importId);
    return orderedAfter(lines, ["room_key", "at", "line"], [after.room_key, after.at, after.line]).limit(limit)
      .execute();
  }

  /** When a principal last asked for a copy of its data that did not fail. */
  async lastOwnExportAt(tenantId: string, principalId: string): Promise<string | undefined> {
    const row = await this.#db.selectFrom("transfer_export").select("created_at").where("tenant_id", "=", tenantId)
      .where("requested_by", "=", principalId).where("kind", "=", "principal").where("state", "<>", "failed")
      .orderBy("id", "desc").limit(1).executeTakeFirst();
    return row?.created_at;
  }

  /** Deletes some of the lines of an import; returns whether there may be more. */
  removeLines(tenantId: string, importId: string): Promise<boolean> {
    const ofImport = sql<SqlBool>`tenant_id = ${tenantId} and import_id = ${importId}`;
    return deleteSome(this.#db, "transfer_line", ofImport);
  }

  /** History of these parts, and of others with the same names. */
  importHistory(tenantId: string, parts: readonly Omit<ImportHistoryRow, "tenant_id">[]): Promise<ImportHistoryRow[]> {
    const containers = [...new Set(parts.map(({ container }) => container))];
    return queryInChunks(
      parts,
      (some) =>
        this.#db.selectFrom("transfer_import_history").selectAll().where("tenant_id", "=", tenantId)
          .where("container", "in", containers).where("name", "in", some.map(({ name }) => name)).execute(),
    );
  }

  async addImportHistory(rows: readonly ImportHistoryRow[]): Promise<void> {
    await queryInChunks(
      rows,
      (some) =>
        this.#db.insertInto("transfer_import_history").values(some).onConflict((conflict) => conflict.doNothing())
          .execute(),
    );
  }

  /** Deletes some of what was in a container; returns whether there may be more. */
  deleteImportHistory(tenantId: string, container: string): Promise<boolean> {
    const ofContainer = sql<SqlBool>`tenant_id = ${tenantId} and container = ${container}`;
    return deleteSome(this.#db, "transfer_import_history", ofContainer);
  }
}
