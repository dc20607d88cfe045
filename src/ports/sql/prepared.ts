// Prepared queries: written with Kysely, compiled once per dialect, then run with new values without any work of Kysely.
import type { Compilable, Kysely } from "kysely";
import type { Dialect } from "../store.ts";

/** Names a parameter of the query. It returns a placeholder for the value, which must be passed on unchanged. */
export type Param<Values> = <Name extends keyof Values & string>(name: Name) => Values[Name];

/** `cacheable`: the rows may be those of an earlier run, where it is certain that they are the same; nobody changes them. */
export type PreparedOptions = { cacheable: boolean };

/** Runs the prepared queries of a handle. */
type Runner = {
  dialect: Dialect;
  run(
    sql: string,
    parameters: readonly unknown[],
    options: PreparedOptions,
  ): Promise<{ rows: unknown[]; changed: number }>;
};

/** A query that only lacks its values. `db` is any Kysely handle of a store: committed state or a transaction. */
type Prepared<Values, Row> = {
  all(db: object, values: Values): Promise<Row[]>;
  first(db: object, values: Values): Promise<Row | undefined>;
  /** Runs it and returns how many rows it changed. */
  run(db: object, values: Values): Promise<number>;
};

class Placeholder {
  constructor(readonly name: string) {}
}

type Template = { sql: string; parameters: readonly unknown[] };

const RUNNER = Symbol("runner");
type Handle = { [RUNNER]?: Runner };

/**
 * To be called for every new handle. Kysely compiles a query once; from then on only the runner is used. It is a property of the
 * handle: a long-lived WeakMap would retain its values, here whole transactions, until the next full collection.
 */
export function bindPrepared(db: object, runner: Runner): void {
  (db as Handle)[RUNNER] = runner;
}

/** The dialect of a store's handle, where a statement differs. */
export function dialectOf(db: object): Dialect {
  return runnerOf(db).dialect;
}

function runnerOf(db: object): Runner {
  const runner = (db as Handle)[RUNNER];
  if (runner === undefined) throw new TypeError("Expected the database handle of a store");
  return runner;
}

/**
 * Prepares the query that `build` returns. `build` runs once per dialect, so it may depend on nothing but its arguments, and it
 * may use a `param` wherever Kysely takes a single value. With `cacheable`, the store may return the rows of an earlier run if it
 * knows that none of the columns were written since: for queries that run much more often than their data changes.
 */
export function prepared<Tables, Values extends Record<string, unknown>, Row>(
  build: (db: Kysely<Tables>, param: Param<Values>, dialect: Dialect) => Compilable<Row>,
  options: PreparedOptions = { cacheable: false },
): Prepared<Values, Row> {
  const templates = new Map<Dialect, Template>();

  // Hot path: no nested async functions.
  function execute(db: object, values: Values): Promise<{ rows: Row[]; changed: number }> {
    const runner = runnerOf(db);
    let template = templates.get(runner.dialect);
    if (template === undefined) {
      // The handle's database has these tables among others. A placeholder has the type of its value; Kysely passes it to the
      // parameters unchanged.
      const placeholder = ((name) => new Placeholder(name)) as Param<Values>;
      template = build(db as unknown as Kysely<Tables>, placeholder, runner.dialect).compile();
      templates.set(runner.dialect, template);
    }
    const parameters = template.parameters.map((value) => value instanceof Placeholder ? values[value.name] : value);
    // The row type is Kysely's for this query.
    return runner.run(template.sql, parameters, options) as Promise<{ rows: Row[]; changed: number }>;
  }

  return {
    all: (db, values) => execute(db, values).then(({ rows }) => rows),
    first: (db, values) => execute(db, values).then(({ rows: [row] }) => row),
    run: (db, values) => execute(db, values).then(({ changed }) => changed),
  };
}
