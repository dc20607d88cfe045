// Erases a person from the tables that all modules declare: in parts of bounded size, each of which commits with its counts.
import { nextSlice } from "@/core/caller.ts";
import {
  conditionsOf,
  type ErasedPerson,
  eraseRow,
  isRemoved,
  type PrincipalErasure,
  type Row,
  type TableErasure,
} from "@/core/erasure.ts";
import { inChunks } from "@/core/page.ts";
import { type AnyTransaction, type Store, UniqueViolation } from "@/ports/store.ts";
import { ErasedTableStore, type KeyRange } from "./table_store.ts";

/** Rows of a table that one transaction reads, and may change: others wait for its commit. */
const ROWS_AT_ONCE = 200;
/** Rows that a module removes in one transaction, such as messages, each with its events. */
const REMOVED_AT_ONCE = 20;

/** Rows of one table. */
export type Change = { table: string; changed: number; deleted: number };

type Deps = {
  store: Store<unknown>;
  /** What all modules, and the store itself, erase. */
  erasures: () => readonly PrincipalErasure[];
  /** Part of the transaction of a change. */
  onChange: (tx: AnyTransaction, person: ErasedPerson, change: Change) => Promise<void>;
};
type Named = { name: string; table: TableErasure };
type Columns = Record<string, unknown>;
type Update = (rows: ErasedTableStore, row: Row, set: Columns) => Promise<void>;

export class Eraser {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** What there is to do, by table. */
  async count(person: ErasedPerson): Promise<Change[]> {
    const changes: Change[] = [];
    for (const named of this.#tables) {
      for await (const range of this.#ranges(person.tenantId, named)) {
        const rows = await this.#find(person, named, range);
        const removed = rows.filter((row) => isRemoved(named.table, row, person));
        // What a removal leaves of a row is counted as any other.
        const left = named.table.removal?.applies === undefined ? rows.filter((row) => !removed.includes(row)) : rows;
        changes.push({ table: named.name, changed: 0, deleted: removed.length });
        changes.push(tally(named.name, left.map((row) => eraseRow(named.table, row, person))));
      }
    }
    return changes;
  }

  /** Removes what modules remove by themselves. Safe to repeat. */
  async runRemovals(person: ErasedPerson): Promise<void> {
    for (const named of this.#tables.filter(({ table }) => table.removal !== undefined)) {
      for await (const range of this.#ranges(person.tenantId, named)) await this.#remove(person, named, range);
    }
  }

  /** One pass over all tables; resolves to whether it found anything. Safe to repeat. */
  async runTables(person: ErasedPerson): Promise<boolean> {
    let found = false;
    for (const named of this.#tables) {
      for await (const range of this.#ranges(person.tenantId, named)) {
        found = await this.#erase(person, named, range) || found;
      }
    }
    return found;
  }

  /** Those that have something to do. */
  get #tables(): Named[] {
    const all = this.#deps.erasures().flatMap((tables) => Object.entries(tables));
    return all.map(([name, table]) => ({ name, table })).filter(({ table }) =>
      Object.values(conditionsOf(table)).some((columns) => columns.length > 0)
    );
  }

  async *#ranges(tenantId: string, { name, table }: Named): AsyncGenerator<KeyRange> {
    const { db, dialect } = this.#deps.store;
    let after: Row | undefined;
    do {
      const to = await new ErasedTableStore(db, dialect, name, table).keyAfter(tenantId, after, ROWS_AT_ONCE);
      yield { after, to };
      after = to;
      await nextSlice();
    } while (after !== undefined);
  }

  #find(person: ErasedPerson, { name, table }: Named, range: KeyRange): Promise<Row[]> {
    const { db, dialect } = this.#deps.store;
    return new ErasedTableStore(db, dialect, name, table).rowsOf(person, range, false);
  }

  async #remove(person: ErasedPerson, named: Named, range: KeyRange): Promise<void> {
    const { store, onChange } = this.#deps;
    const { name, table } = named;
    const rows = (await this.#find(person, named, range)).filter((row) => isRemoved(table, row, person));
    for (const some of inChunks(rows, REMOVED_AT_ONCE)) {
      await store.write(async (tx) => {
        const deleted = await table.removal?.run(person, some) ?? 0;
        await onChange(tx, person, { table: name, changed: 0, deleted });
      });
      await nextSlice();
    }
  }

  /** Most parts of most tables have nothing of the person: only those that may have are written. */
  async #erase(person: ErasedPerson, named: Named, range: KeyRange): Promise<boolean> {
    const found = await this.#find(person, named, range);
    if (!found.some((row) => eraseRow(named.table, row, person) !== undefined)) return false;
    try {
      await this.#change(person, named, range, (rows, row, set) => rows.update(person.tenantId, row, set));
    } catch (thrown) {
      if (!(thrown instanceof UniqueViolation)) throw thrown;
      await this.#change(person, named, range, (...of) => this.#updateOrRemove(person, ...of));
    }
    return true;
  }

  async #change(person: ErasedPerson, { name, table }: Named, range: KeyRange, update: Update): Promise<void> {
    const { store, onChange } = this.#deps;
    await store.write(async (tx) => {
      const rows = new ErasedTableStore(tx.db, store.dialect, name, table);
      const outcomes: ReturnType<typeof eraseRow>[] = [];
      for (const row of await rows.rowsOf(person, range, true)) {
        const outcome = eraseRow(table, row, person);
        outcomes.push(outcome);
        if (outcome === "delete") await rows.remove(person.tenantId, row);
        else if (outcome !== undefined) await update(rows, row, outcome);
      }
      await onChange(tx, person, tally(name, outcomes));
    });
  }

  /** Others write about the person meanwhile: what the pseudonym has already is not written a second time, but removed. */
  async #updateOrRemove({ tenantId }: ErasedPerson, rows: ErasedTableStore, row: Row, set: Columns): Promise<void> {
    try {
      await this.#deps.store.write(() => rows.update(tenantId, row, set));
    } catch (thrown) {
      if (!(thrown instanceof UniqueViolation)) throw thrown;
      await rows.remove(tenantId, row);
    }
  }
}

function tally(table: string, outcomes: readonly ReturnType<typeof eraseRow>[]): Change {
  const deleted = outcomes.filter((outcome) => outcome === "delete").length;
  return { table, deleted, changed: outcomes.filter((outcome) => outcome !== undefined).length - deleted };
}
