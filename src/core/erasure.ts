// How a person is erased: each module declares what becomes of the columns of its tables that name or describe people, as data.
import { DELETED_NAME, type ErasedPerson, replaceInJson, textsOf } from "./erasure_json.ts";

export { DELETED_NAME, type ErasedPerson, textsOf };

export type Row = Readonly<Record<string, unknown>>;

/** A column that has the id of a principal, or a text that is made of it. */
export type PrincipalColumn = string | { column: string; text: (id: string, row: Row) => string };

type Overwrite = Readonly<Record<string, string | number | null>>;

/** What becomes of a table. A column that holds nothing of people is not named. */
export type TableErasure = {
  /** The primary key. */
  key: readonly string[];
  /** Other columns that are read to decide. */
  reads?: readonly string[];
  /** Rows are deleted that have the person in one of these columns. */
  deletes?: readonly PrincipalColumn[];
  /** The person is replaced by the pseudonym. */
  renames?: readonly PrincipalColumn[];
  /** JSON in which the person is replaced, see `replaceInJson`. */
  json?: readonly string[];
  /** JSON that has nothing but ids: a list, or a map to ids. */
  ids?: readonly string[];
  /** Columns that are overwritten where the person was replaced in one of the columns `of` of the row. */
  clears?: readonly { of: readonly string[]; set: Overwrite }[];
  /** The same, if what the person wrote is deleted. */
  content?: { of: readonly string[]; set: Overwrite };
  /** Comes before all else. */
  removal?: Removal;
  /** Columns that stay as they are although they may name or describe people, each with the reason. */
  keeps?: Readonly<Record<string, string>>;
};

/** Rows of the person that the module removes by itself, with the events that clients expect. */
type Removal = {
  /** The column that names the person. */
  of: string;
  /** Only if what the person wrote is deleted. */
  isContent?: true;
  /** Which rows, by columns that `reads` has. What stays of them, such as a tombstone, is treated like any other row. */
  applies?: (row: Row) => boolean;
  /** Removes some rows, given by their keys, within the transaction of the caller; resolves to how many it found and removed. */
  run(person: ErasedPerson, rows: readonly Row[]): Promise<number>;
};

/** What a module declares of all its tables, by their names. */
export type PrincipalErasure = Readonly<Record<string, TableErasure>>;

/** Why texts stay. */
export const WORK_OF_ROOM = "work of the room, which its members continue; it stays under the pseudonym";
export const WRITTEN = "what was written stays under the pseudonym, unless contents are deleted";

/** The columns that are read to decide on a row. */
export function columnsOf(table: TableErasure): string[] {
  const { key, reads = [], deletes = [], renames = [], json = [], ids = [], removal } = table;
  const named = [...deletes, ...renames].map(nameOf);
  return [...new Set([...key, ...reads, ...named, ...json, ...ids, ...removal === undefined ? [] : [removal.of]])];
}

/** The columns that may have the id itself, and those that may have it within a text. */
export function conditionsOf(
  { deletes = [], renames = [], json = [], ids = [], removal }: TableErasure,
): { equal: string[]; containing: string[] } {
  const columns = [...deletes, ...renames, ...removal === undefined ? [] : [removal.of]];
  const within = columns.filter((column) => !isPlain(column)).map(nameOf);
  return { equal: [...new Set(columns.filter(isPlain))], containing: [...new Set([...within, ...json, ...ids])] };
}

/** Every column that the declaration names. */
export function declaredColumns(table: TableErasure): ReadonlySet<string> {
  const { keeps = {}, clears = [], content } = table;
  const overwritten = [...clears, content].flatMap((part) => Object.keys(part?.set ?? {}));
  return new Set([...columnsOf(table), ...Object.keys(keeps), ...overwritten]);
}

/** What becomes of a row: the columns that change, or its deletion; `undefined` if it has nothing of the person. */
export function eraseRow(
  table: TableErasure,
  row: Row,
  person: ErasedPerson,
): Record<string, unknown> | "delete" | undefined {
  const { deletes = [], renames = [], json = [], ids = [], clears = [], content } = table;
  if (deletes.some((column) => isNamed(column, row, person))) return "delete";
  const changed: Record<string, unknown> = {};
  for (const column of renames) {
    if (isNamed(column, row, person)) changed[nameOf(column)] = textOf(column, row, person.pseudonymId);
  }
  for (const column of [...json, ...ids]) {
    const replaced = replaceInJson(row[column], person, ids.includes(column));
    if (replaced !== row[column]) changed[column] = replaced;
  }
  const overwrites = content !== undefined && person.deletesContent ? [...clears, content] : clears;
  const set = overwrites.filter(({ of }) => of.some((column) => column in changed)).map((overwrite) => overwrite.set);
  Object.assign(changed, ...set);
  return Object.keys(changed).length === 0 ? undefined : changed;
}

/** Whether the module itself removes the row. */
export function isRemoved({ removal }: TableErasure, row: Row, person: ErasedPerson): boolean {
  if (removal === undefined || !isNamed(removal.of, row, person)) return false;
  return (removal.isContent !== true || person.deletesContent) && (removal.applies?.(row) ?? true);
}

function isNamed(column: PrincipalColumn, row: Row, { principalId }: ErasedPerson): boolean {
  return row[nameOf(column)] === textOf(column, row, principalId);
}

function nameOf(column: PrincipalColumn): string {
  return isPlain(column) ? column : column.column;
}

function textOf(column: PrincipalColumn, row: Row, id: string): string {
  return isPlain(column) ? id : column.text(id, row);
}

function isPlain(column: PrincipalColumn): column is string {
  return typeof column === "string";
}
