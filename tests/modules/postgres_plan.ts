// What PostgreSQL reads for a statement, planned as for the gateway.
import type postgres from "postgres";
import type { LoggedQuery } from "./query_log.ts";

type Plan = Record<string, unknown> & { Plans?: Plan[] };

/**
 * Prepares a statement: a prepared query for any values, in a tenant of any size. The result runs it with its own, and returns how
 * many rows that read.
 */
export async function prepareStatement(
  database: postgres.Sql,
  { sql, parameters, prepared }: LoggedQuery,
): Promise<() => Promise<number>> {
  const name = `statement_${crypto.randomUUID().replaceAll("-", "")}`;
  const values = parameters.map((value) => `'${String(value).replaceAll("'", "''")}'`).join();
  const mode = prepared === undefined ? "force_custom_plan" : "force_generic_plan";
  await database.unsafe(`set plan_cache_mode = ${mode}; prepare ${name} as ${sql}`);
  return async () => {
    const [row] = await database.unsafe(`explain (analyze, format json) execute ${name}(${values})`);
    return rowsRead(row?.["QUERY PLAN"][0].Plan);
  };
}

/** Rows that all scans of a plan read. */
function rowsRead({ Plans = [], ...node }: Plan): number {
  const numberOf = (name: string): number => Number(node[name] ?? 0);
  const rows = numberOf("Actual Rows") + numberOf("Rows Removed by Filter") + numberOf("Rows Removed by Join Filter");
  return Plans.reduce((sum, plan) => sum + rowsRead(plan), rows * numberOf("Actual Loops"));
}
