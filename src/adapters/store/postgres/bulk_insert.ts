// Many rows in one statement of PostgreSQL.
//
// What is the same in all rows is sent once. Of any other column one text carries the values of all rows, which the server
// takes apart at a mark that none of them contains: it does so several times faster than it reads them as JSON.
import { quoteIdentifier, type Row, type SqlValue, sqlValue } from "../sql_session.ts";

/**
 * How a column is sent. It only changes from `absent` (null in all rows so far) to `same` to one of the others, so each table has
 * a few statements, whatever rows are mixed.
 */
type ColumnEncoding = "absent" | "same" | "text" | "bigint" | "numeric";
type Statement = { sql: string; parameters: string[] };
type Value = Exclude<SqlValue, Uint8Array>;
type Column = { name: string; encoding: ColumnEncoding };

const SEPARATOR = "\x1f";

const inserters = new Map<string, BulkInserter>();

/** One statement that inserts `rows`, at least one, all with the columns of the first. */
export function bulkInsert(table: string, rows: readonly Row[]): Statement {
  const names = Object.keys(rows[0] ?? {});
  const key = `${table} ${names.join(" ")}`;
  let known = inserters.get(key);
  if (known === undefined) inserters.set(key, known = new BulkInserter(table, names));
  return known.insert(rows);
}

/** Rows of one table that have the same columns. */
class BulkInserter {
  readonly #table: string;
  readonly #columns: readonly Column[];
  #singleSql: string | undefined;
  #bulkSql: string | undefined;

  constructor(table: string, names: readonly string[]) {
    this.#table = quoteIdentifier(table);
    this.#columns = names.map((name) => ({ name, encoding: "absent" }));
  }

  insert(rows: readonly Row[]): Statement {
    const values = this.#columns.map(({ name }) => rows.map((row) => valueOf(row[name])));
    this.#widen(values);
    if (rows.length === 1) {
      return { sql: this.#singleSql ??= this.#buildSingleSql(), parameters: [this.#first(values, isSent)] };
    }
    const lists = values.filter((_, at) => isList(this.#columns[at]));
    const mark = unusedSeparator(lists);
    const separator = `${mark},`;
    return {
      sql: this.#bulkSql ??= this.#buildBulkSql(),
      parameters: [
        this.#first(values, isSame),
        separator,
        mark,
        ...lists.map((list) => list.map((value) => value ?? mark).join(separator)),
      ],
    };
  }

  #widen(values: readonly (readonly Value[])[]): void {
    for (const [at, column] of this.#columns.entries()) {
      this.#set(column, wider(column.encoding, encodingOf(values[at] ?? [])));
    }
    // Without any list nothing would say how many rows there are.
    if ((values[0]?.length ?? 0) < 2 || this.#columns.some(isList)) return;
    const at = values.findIndex(([value = null]) => value !== null);
    const column = this.#columns[at];
    if (column !== undefined) this.#set(column, typeof values[at]?.[0] === "string" ? "text" : "numeric");
  }

  #set(column: Column, encoding: ColumnEncoding): void {
    if (column.encoding === encoding) return;
    column.encoding = encoding;
    this.#singleSql = this.#bulkSql = undefined;
  }

  /** The values of the first row in some columns, as JSON. */
  #first(values: readonly (readonly Value[])[], isWanted: (column: Column) => boolean): string {
    const row: Row = {};
    for (const [at, column] of this.#columns.entries()) {
      const value = values[at]?.[0];
      if (isWanted(column)) row[column.name] = typeof value === "bigint" ? String(value) : value;
    }
    return JSON.stringify(row);
  }

  #buildSingleSql(): string {
    const sent = this.#columns.filter(isSent).map(({ name }) => quoteIdentifier(name)).join(", ");
    return `insert into ${this.#table} (${sent}) select ${sent} from ${this.#record}`;
  }

  #buildBulkSql(): string {
    const sent = this.#columns.filter(isSent);
    const columns = sent.map(({ name }) => quoteIdentifier(name));
    const lists = columns.filter((_, at) => isList(sent[at]));
    const arrays = lists.map((_, at) => `string_to_array($${at + 4}::text, $2::text, $3::text)`);
    const picked = sent.map(({ encoding }, at) => {
      if (encoding === "same") return `same.${columns[at]}`;
      return encoding === "text" ? `list.${columns[at]}` : `list.${columns[at]}::${encoding}`;
    });
    const from = `${this.#record} as same, unnest(${arrays.join(", ")}) as list(${lists.join(", ")})`;
    return `insert into ${this.#table} (${columns.join(", ")}) select ${picked.join(", ")} from ${from}`;
  }

  get #record(): string {
    return `json_populate_record(null::${this.#table}, $1::text::json)`;
  }
}

function isSent({ encoding }: Column): boolean {
  return encoding !== "absent";
}

function isSame({ encoding }: Column): boolean {
  return encoding === "same";
}

function isList(column: Column | undefined): boolean {
  return column !== undefined && column.encoding !== "absent" && column.encoding !== "same";
}

function valueOf(given: unknown): Value {
  const value = sqlValue(given);
  if (value instanceof Uint8Array) throw new TypeError("Expected rows without bytes for insertMany");
  return value;
}

function encodingOf(values: readonly Value[]): ColumnEncoding {
  const [first = null] = values;
  if (values.every((value) => value === first)) return first === null ? "absent" : "same";
  if (values.some((value) => typeof value === "string")) return "text";
  const isWhole = (value: Value): boolean => value === null || typeof value === "bigint" || Number.isSafeInteger(value);
  return values.every(isWhole) ? "bigint" : "numeric";
}

function wider(before: ColumnEncoding, now: ColumnEncoding): ColumnEncoding {
  if (now === "absent" || before === "text") return before;
  if (now === "same") return before === "absent" ? now : before;
  return before === "numeric" && now === "bigint" ? before : now;
}

/** A text that is in none of the values, and of which no end is another's beginning. */
function unusedSeparator(lists: readonly (readonly Value[])[]): string {
  const isInside = (mark: string): boolean =>
    lists.some((list) => list.some((value) => typeof value === "string" && value.includes(mark)));
  let mark = SEPARATOR;
  while (isInside(mark)) mark = `${SEPARATOR}${crypto.randomUUID()}`;
  return mark;
}
