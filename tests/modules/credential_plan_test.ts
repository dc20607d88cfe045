// What a write on PostgreSQL reads to check its caller, whatever it believed of the size of the tenant when it planned that.
import assert from "node:assert/strict";
import type { Kysely } from "kysely";
import { CredentialStore } from "@/modules/identity/credential_store.ts";
import type { IdentityTables } from "@/modules/identity/store.ts";
import { bindPrepared } from "@/ports/prepared.ts";
import { testOnPostgres } from "../engines.ts";
import { type Harness, openGateway } from "../harness.ts";
import { withAdminConnection } from "../temporary_database.ts";
import { createCallers } from "./fixtures.ts";

const PRINCIPALS = 3000;
/** Everybody a few times, where a plan takes an index of the tenant alone; but not everybody for everybody. */
const TIMES_MAX = 10;

type Plan = Record<string, unknown> & { Plans?: Plan[] };

testOnPostgres(
  "a caller is checked by itself, however many principals came since that was planned",
  async (environment) => {
    await using gateway = await openGateway(environment);
    await createCallers(gateway, "alice");
    const { text, parameters } = await readStatement(gateway);
    const values = parameters.map((value) => `'${String(value).replaceAll("'", "''")}'`).join();
    await withAdminConnection(environment["SVC_DATABASE_URL"] ?? "", async (sql) => {
      const countRows = async (): Promise<number> => {
        const [row] = await sql.unsafe(`explain (analyze, format json) execute credentials(${values})`);
        return rowsRead(row?.["QUERY PLAN"][0].Plan);
      };
      // As a connection that has been open for long: its plan is from when the tenant was small.
      await sql.unsafe(`set plan_cache_mode = force_generic_plan; prepare credentials as ${text}`);
      assert.ok(await countRows() < PRINCIPALS);
      await sql.unsafe(`insert into principal
      select (json_populate_record(one, json_build_object('id', 'p' || n, 'handle', 'p' || n))).*
      from principal as one, generate_series(1, ${PRINCIPALS}) as n where one.id = 'alice'`);
      const rows = await countRows();
      assert.ok(rows < TIMES_MAX * PRINCIPALS, `${rows} rows are read for one caller`);
    });
  },
);

/** The statement that checks callers, which is not sent. */
async function readStatement(gateway: Harness): Promise<{ text: string; parameters: readonly unknown[] }> {
  let statement: { text: string; parameters: readonly unknown[] } = { text: "", parameters: [] };
  const db = gateway.app.store.db.withoutPlugins() as unknown as Kysely<IdentityTables>; // one of the modules' tables
  bindPrepared(db, {
    dialect: "postgres",
    run(text, parameters) {
      statement = { text, parameters };
      return Promise.resolve({ rows: [], changed: 0 });
    },
  });
  await new CredentialStore(db).findMany("default", [{ principalId: "alice", tokenId: "" }]);
  return statement;
}

/** Rows that all scans of a plan read. */
function rowsRead({ Plans = [], ...node }: Plan): number {
  const numberOf = (name: string): number => Number(node[name] ?? 0);
  const rows = numberOf("Actual Rows") + numberOf("Rows Removed by Filter") + numberOf("Rows Removed by Join Filter");
  return Plans.reduce((sum, plan) => sum + rowsRead(plan), rows * numberOf("Actual Loops"));
}
