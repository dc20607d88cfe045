// Answers of SQLite that are kept: valid for exactly as long as no commit has written a column that they were read from.
import type { DatabaseSync } from "node:sqlite";
import { RecentMap } from "@/core/recent_map.ts";
import type { Rows } from "./session.ts";

const ANSWERS_MAX = 10_000;
/** Actions as SQLite numbers them: https://sqlite.org/c3ref/c_alter_table.html */
const DELETE = 9;
const INSERT = 18;
const READ = 20;
const UPDATE = 23;
const OK = 0;

/** What Deno's types of `node:sqlite` do not know yet. */
type Watched = {
  setAuthorizer(listener: (action: number, table: string | null, column: string | null) => number): void;
};

/** What the engine says a statement does, as `table.column`; a row that comes or goes writes the `table`. */
export type Footprint = { reads: readonly string[]; writes: readonly string[] };

/** The answers of one statement. */
export type Answers = {
  reads: readonly string[];
  rows: Map<string, { rows: Rows; at: number }>;
  /** When a column in `reads` was last written, as known at `lookedAt`. */
  writtenAt: number;
  lookedAt: number;
};

/**
 * Why it is right: all writes of the file pass through the one write connection of this process, and the engine itself
 * names the columns of every statement it prepares. Both connections live on one thread, so between a `commit` and the
 * `settle` that follows it nobody reads. The batch that is open sees its own writes, so it does not get kept answers to
 * what it has written, and what it reads then is not kept.
 */
export class KeptAnswers {
  /** Counts batches that wrote. */
  #now = 0;
  readonly #writtenAt = new Map<string, number>();
  readonly #dirty = new Set<string>();

  /** To be called for every statement of the open batch that writes. */
  touch(writes: readonly string[]): void {
    for (const place of writes) this.#dirty.add(place);
  }

  /** To be called when the batch has ended, well or not. */
  settle(): void {
    if (this.#dirty.size === 0) return;
    this.#now++;
    for (const place of this.#dirty) this.#writtenAt.set(place, this.#now);
    this.#dirty.clear();
  }

  answersOf({ reads }: Footprint): Answers {
    const places = new Set(reads.flatMap((place) => [place, place.slice(0, place.indexOf("."))]));
    return { reads: [...places], rows: new RecentMap(ANSWERS_MAX), writtenAt: 0, lookedAt: -1 };
  }

  /** The rows kept for these parameters, else those of `read`. `isInside` says that the open batch asks. */
  rows(answers: Answers, parameters: readonly unknown[], isInside: boolean, read: () => Rows): Rows {
    if (isInside && this.#dirty.size > 0 && answers.reads.some((place) => this.#dirty.has(place))) return read();
    if (answers.lookedAt !== this.#now) {
      answers.lookedAt = this.#now;
      for (const place of answers.reads) {
        const at = this.#writtenAt.get(place);
        if (at !== undefined && at > answers.writtenAt) answers.writtenAt = at;
      }
    }
    const key = JSON.stringify(parameters);
    const kept = answers.rows.get(key);
    if (kept !== undefined && kept.at >= answers.writtenAt) return kept.rows;
    const rows = read();
    // Many share them from now on.
    for (const row of rows.rows) Object.freeze(row);
    answers.rows.set(key, { rows, at: this.#now });
    return rows;
  }
}

/**
 * Has the engine tell the footprint of what it prepares from now on; `take` returns it and starts anew. Where the runtime
 * is too old for that, footprints are empty; what seems to read nothing is not kept.
 */
export function footprintsOf(db: DatabaseSync): { take(): Footprint } {
  let reads = new Set<string>();
  let writes = new Set<string>();
  (db as DatabaseSync & Partial<Watched>).setAuthorizer?.((action, table, column) => {
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
