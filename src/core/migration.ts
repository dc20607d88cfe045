// Migrations. The core has its own, and so has each module with tables.
import type { Expression, Kysely, SqlBool } from "kysely";

export type Dialect = "sqlite" | "postgres";

/** Committed state, or the state that a transaction sees. Each module knows the types of its own tables only. */
// deno-lint-ignore no-explicit-any
export type AnyDatabase = Kysely<any>;

/** A condition of a query, which a module gives to another one. */
export type SqlCondition = Expression<SqlBool>;

/** A step that creates or changes tables, the same for both engines. It is never changed after a release. */
export type Migration = {
  /** A number and what it does, such as `0002_add_topic`. */
  name: string;
  /** Runs once, in the transaction of all missing steps. It has no table types, since those change after it. */
  up(db: Kysely<unknown>, dialect: Dialect): Promise<void>;
};

/** A module, by its name, with the steps to its tables in order. Only new steps at the end may be added. */
export type MigrationOwner = { name: string; migrations?: readonly Migration[] };
