// Prepared queries: written once with Kysely, compiled once per dialect, then run with new values at the price of the engine.
import type { Compilable, CompiledQuery, Kysely, QueryExecutorProvider, QueryResult } from "kysely";

/** Names a value of the query being prepared. It stands for the value and must be passed on untouched. */
export type Param<Values> = <Name extends keyof Values & string>(name: Name) => Values[Name];

/** What a prepared query runs on: the part of a Kysely handle that is the same whatever its tables are. */
export type Handle = QueryExecutorProvider & {
  executeQuery<Row>(query: CompiledQuery<Row>): Promise<QueryResult<Row>>;
};

/** A query that only lacks its values. `db` is any handle: committed state or a transaction. */
export type Prepared<Values, Row> = {
  all(db: Handle, values: Values): Promise<Row[]>;
  first(db: Handle, values: Values): Promise<Row | undefined>;
  /** Runs it and returns how many rows it changed. */
  run(db: Handle, values: Values): Promise<number>;
};

class Placeholder {
  constructor(readonly name: string) {}
}

type Template = { compiled: CompiledQuery; parameters: readonly unknown[] };

/**
 * Prepares the query that `build` makes. `build` runs once per dialect, so it may not depend on anything but its
 * arguments, and it may put a `param` wherever Kysely takes a single value.
 */
export function prepared<Tables, Values extends Record<string, unknown>, Row>(
  build: (db: Kysely<Tables>, param: Param<Values>) => Compilable<Row>,
): Prepared<Values, Row> {
  const templates = new Map<unknown, Template>();

  function bind(db: Handle, values: Values): CompiledQuery<Row> {
    // One compiled text per dialect; the adapter's class tells dialects apart.
    const dialect = db.getExecutor().adapter.constructor;
    let template = templates.get(dialect);
    if (template === undefined) {
      // The handle is of a database that has these tables among others; and a placeholder poses as the value it stands
      // for, which Kysely carries through to the parameters as it is.
      const compiled = build(db as unknown as Kysely<Tables>, ((name) => new Placeholder(name)) as Param<Values>)
        .compile();
      template = { compiled, parameters: compiled.parameters };
      templates.set(dialect, template);
    }
    const parameters = template.parameters.map((value) => value instanceof Placeholder ? values[value.name] : value);
    return { ...template.compiled, parameters } as CompiledQuery<Row>;
  }

  return {
    all: async (db, values) => (await db.executeQuery(bind(db, values))).rows,
    first: async (db, values) => (await db.executeQuery(bind(db, values))).rows[0],
    run: async (db, values) => Number((await db.executeQuery(bind(db, values))).numAffectedRows ?? 0),
  };
}
