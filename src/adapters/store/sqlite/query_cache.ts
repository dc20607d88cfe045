// Cached results of SQLite queries, valid until a commit writes a column that they were read from.
import type { DatabaseSync } from "node:sqlite";
import { LruMap } from "@/core/lru_map.ts";
import type { Rows } from "../sql_session.ts";

const RESULTS_MAX = 10_000;
/** Actions as SQLite numbers them: https://sqlite.org/c3ref/c_alter_table.html */
const DELETE = 9;
const INSERT = 18;
const READ = 20;
const UPDATE = 23;
const OK = 0;

/** What the engine says a statement does, as `table.column`; inserting or deleting a row writes the `table`. */
export type ColumnUsage = { reads: readonly string[]; writes: readonly string[] };

/** The cached results of one statement. */
export type CachedQuery = {
  reads: readonly string[];
  rows: Map<string, { rows: Rows; at: number }>;
  /** When a column in `reads` was last written, as known at `checkedAt`. */
  writtenAt: number;
  checkedAt: number;
};

/**
 * Why it is correct: all writes of the file use the one write connection of this process, and the engine itself reports the
 * columns of every statement it prepares. Both connections are on one thread, so no read happens between a `commit` and the
 * `endBatch` that follows it. The open batch sees its own writes, so it uses no cached results of columns that it has written,
 * and its results of those are not cached.
 */
export class QueryCache {
  /** Counts batches that wrote. */
  #batchNumber = 0;
  readonly #writtenAt = new Map<string, number>();
  readonly #dirty = new Set<string>();

  /** To be called for every statement of the open batch that writes. */
  markWritten(writes: readonly string[]): void {
    for (const place of writes) this.#dirty.add(place);
  }

  /** To be called when the batch has ended, well or not. */
  endBatch(): void {
    if (this.#dirty.size === 0) return;
    this.#batchNumber++;
    for (const place of this.#dirty) this.#writtenAt.set(place, this.#batchNumber);
    this.#dirty.clear();
  }

  createQuery({ reads }: ColumnUsage): CachedQuery {
    const places = new Set(reads.flatMap((place) => [place, place.slice(0, place.indexOf("."))]));
    return { reads: [...places], rows: new LruMap(RESULTS_MAX), writtenAt: 0, checkedAt: -1 };
  }

  /** The cached rows for these parameters, else those of `read`. `isMember` is true if the open batch reads. */
  getOrRead(cached: CachedQuery, parameters: readonly unknown[], isInside: boolean, read: () => Rows): Rows {
    if (isInside && this.#dirty.size > 0 && cached.reads.some((place) => this.#dirty.has(place))) return read();
    if (cached.checkedAt !== this.#batchNumber) {
      cached.checkedAt = this.#batchNumber;
      for (const place of cached.reads) {
        const at = this.#writtenAt.get(place);
        if (at !== undefined && at > cached.writtenAt) cached.writtenAt = at;
      }
    }
    const key = JSON.stringify(parameters);
    const hit = cached.rows.get(key);
    if (hit !== undefined && hit.at >= cached.writtenAt) return hit.rows;
    const rows = read();
    // They are shared from now on.
    for (const row of rows.rows) Object.freeze(row);
    cached.rows.set(key, { rows, at: this.#batchNumber });
    return rows;
  }
}

/** Makes the engine record which columns the statements prepared from now on use; `take` returns them and resets the record. */
export function trackColumnUsage(db: DatabaseSync): { take(): ColumnUsage } {
  let reads = new Set<string>();
  let writes = new Set<string>();
  db.setAuthorizer((action, table, column) => {
    if (action === READ) reads.add(`${table}.${column}`);
    else if (action === UPDATE) writes.add(`${table}.${column}`);
    else if (action === INSERT || action === DELETE) writes.add(String(table));
    return OK;
  });
  return {
    take() {
      const footprint = { reads: [...reads], writes: [...writes] };
      reads = new Set();
      writes = new Set();
      return footprint;
    },
  };
}
