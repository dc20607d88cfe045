// Prepared queries: written once with Kysely, compiled once per dialect, then run with new values at the price of the engine.
import type { Compilable, Kysely } from "kysely";
import type { Dialect } from "./store.ts";

/** Names a value of the query being prepared. It stands for the value and must be passed on untouched. */
export type Param<Values> = <Name extends keyof Values & string>(name: Name) => Values[Name];

/** What a handle runs prepared queries with. */
type Runner = {
  dialect: Dialect;
  run(sql: string, parameters: readonly unknown[], mayKeep: boolean): Promise<{ rows: unknown[]; changed: number }>;
};

/** A query that only lacks its values. `db` is any Kysely handle of a store: committed state or a transaction. */
export type Prepared<Values, Row> = {
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
 * To be called by whoever makes a handle. Kysely writes and compiles a query once; from then on only the runner is asked. It is
 * kept on the handle: an old WeakMap would hold what it got, here a whole transaction, until the next full collection.
 */
export function bindPrepared(db: object, runner: Runner): void {
  (db as Handle)[RUNNER] = runner;
}

/**
 * Prepares the query that `build` makes. `build` runs once per dialect, so it may not depend on anything but its
 * arguments, and it may put a `param` wherever Kysely takes a single value. With `mayKeep`, an engine that can tell that
 * nothing of it was written since gives the rows of an earlier run: for what is asked much more often than it changes.
 */
export function prepared<Tables, Values extends Record<string, unknown>, Row>(
  build: (db: Kysely<Tables>, param: Param<Values>, dialect: Dialect) => Compilable<Row>,
  { mayKeep = false }: { mayKeep?: boolean } = {},
): Prepared<Values, Row> {
  const templates = new Map<Dialect, Template>();

  // What follows is asked for in every request, so it is without an async function around another.
  function execute(db: object, values: Values): Promise<{ rows: Row[]; changed: number }> {
    const runner = (db as Handle)[RUNNER];
    if (runner === undefined) throw new TypeError("Expected the handle of a store");
    let template = templates.get(runner.dialect);
    if (template === undefined) {
      // The handle is of a database that has these tables among others; and a placeholder poses as the value it stands
      // for, which Kysely carries through to the parameters as it is.
      const placeholder = ((name) => new Placeholder(name)) as Param<Values>;
      template = build(db as unknown as Kysely<Tables>, placeholder, runner.dialect).compile();
      templates.set(runner.dialect, template);
    }
    const parameters = template.parameters.map((value) => value instanceof Placeholder ? values[value.name] : value);
    // The row type is Kysely's for this query.
    return runner.run(template.sql, parameters, mayKeep) as Promise<{ rows: Row[]; changed: number }>;
  }

  return {
    all: (db, values) => execute(db, values).then(({ rows }) => rows),
    first: (db, values) => execute(db, values).then(({ rows: [row] }) => row),
    run: (db, values) => execute(db, values).then(({ changed }) => changed),
  };
}
