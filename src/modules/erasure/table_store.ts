// SQL on the tables that modules declare for erasure: their rows in the order of their keys, in parts of bounded size.
import { type ExpressionBuilder, sql, type SqlBool } from "kysely";
import { columnsOf, conditionsOf, type ErasedPerson, type Row, type TableErasure, textsOf } from "@/core/erasure.ts";
import { escapeLike, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { AnyDatabase, Dialect } from "@/ports/store.ts";

/** Rows after a key, up to another one; without it, up to the end. */
export type KeyRange = { after: Row | undefined; to: Row | undefined };

export class ErasedTableStore {
  readonly #db: AnyDatabase;
  readonly #dialect: Dialect;
  readonly #name: string;
  readonly #table: TableErasure;

  constructor(db: AnyDatabase, dialect: Dialect, name: string, table: TableErasure) {
    this.#db = db;
    this.#dialect = dialect;
    this.#name = name;
    this.#table = table;
  }

  /** The key of the row that is `size` rows after another one; `undefined` if there are fewer. */
  async keyAfter(tenantId: string, after: Row | undefined, size: number): Promise<Row | undefined> {
    const key = this.#key;
    // One row for each tenant.
    if (key.length === 0) return undefined;
    let query = this.#db.selectFrom(this.#name).select(key).where(this.#isOf(tenantId));
    if (after !== undefined) query = query.where(this.#compare(">", after));
    for (const column of key) query = query.orderBy(column);
    return await query.offset(size - 1).limit(1).executeTakeFirst();
  }

  /** Rows of a range that may have the person in them, as far as SQL can say; locked until the end of the transaction. */
  async rowsOf(person: ErasedPerson, { after, to }: KeyRange, isLocked: boolean): Promise<Row[]> {
    let query = this.#db.selectFrom(this.#name).select(columnsOf(this.#table))
      .where(this.#isOf(person.tenantId)).where((row) => this.#names(row, person));
    if (after !== undefined) query = query.where(this.#compare(">", after));
    if (to !== undefined) query = query.where(this.#compare("<=", to));
    if (isLocked && this.#dialect === "postgres") query = query.forUpdate();
    return await query.execute();
  }

  async update(tenantId: string, row: Row, set: Record<string, unknown>): Promise<void> {
    await this.#db.updateTable(this.#name).set(set).where("tenant_id", "=", tenantId).where(this.#compare("=", row))
      .execute();
  }

  async remove(tenantId: string, row: Row): Promise<void> {
    await this.#db.deleteFrom(this.#name).where("tenant_id", "=", tenantId).where(this.#compare("=", row)).execute();
  }

  // deno-lint-ignore no-explicit-any -- tables of every module
  #names({ or, eb }: ExpressionBuilder<any, any>, person: ErasedPerson) {
    const { equal, containing } = conditionsOf(this.#table);
    return or([
      ...equal.map((column) => eb(column, "=", person.principalId)),
      ...containing.flatMap((column) => textsOf(person).map((text) => contains(column, text))),
    ]);
  }

  /** Within a tenant. */
  get #key(): string[] {
    return this.#table.key.filter((column) => column !== "tenant_id");
  }

  /**
   * By the primary key: on SQLite, by another index, all rows of the tenant would be sorted for each part. PostgreSQL knows how many
   * rows a tenant has, but not of an expression: it would read the whole table for each part.
   */
  #isOf(tenantId: string) {
    return this.#dialect === "postgres" || this.#table.key[0] === "tenant_id"
      ? sql<SqlBool>`tenant_id = ${tenantId}`
      : tenantIsUnindexed(tenantId);
  }

  #compare(operator: ">" | "<=" | "=", row: Row) {
    const key = this.#key;
    if (key.length === 0) return sql<SqlBool>`1 = 1`;
    const [columns, values] = [key.map((column) => sql.ref(column)), key.map((column) => sql`${row[column]}`)];
    return sql<SqlBool>`(${sql.join(columns)}) ${sql.raw(operator)} (${sql.join(values)})`;
  }
}

function contains(column: string, text: string) {
  return sql<SqlBool>`${sql.ref(column)} like ${`%${escapeLike(text)}%`} escape '\\'`;
}
