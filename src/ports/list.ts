// Lists as one parameter: JSON that the engine takes apart, so that a prepared query takes lists of any length.
import { type AliasedRawBuilder, type Expression, type RawBuilder, sql } from "kysely";
import type { Dialect } from "./store.ts";

/** The texts of a JSON array, for the right side of `in`. */
export function textsOf(dialect: Dialect, json: string): RawBuilder<string> {
  return dialect === "sqlite"
    ? sql<string>`(select value from json_each(${json}))`
    : sql<string>`(select json_array_elements_text(${json}::text::json))`;
}

/** The objects of a JSON array as rows of a table `as`, such as ``asked(n int, id text)``; PostgreSQL only. */
export function rowsOf<Row, Alias extends string>(
  json: string,
  as: Expression<unknown>,
): AliasedRawBuilder<Row, Alias> {
  return sql<Row>`json_to_recordset(${json}::text::json)`.as<Alias>(as);
}
