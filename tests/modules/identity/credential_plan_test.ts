// What a write on PostgreSQL reads to check its caller, whatever it believed of the size of the tenant when it planned that.
import assert from "node:assert/strict";
import type { Kysely } from "kysely";
import { CredentialStore } from "@/modules/identity/credential_store.ts";
import type { IdentityTables } from "@/modules/identity/store.ts";
import { bindPrepared } from "@/ports/sql/prepared.ts";
import { testOnPostgres } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { withAdminConnection } from "../../temporary_database.ts";
import { createCallers } from "../fixtures.ts";
import { prepareStatement } from "../postgres_plan.ts";
import type { LoggedQuery } from "../query_log.ts";

const PRINCIPALS = 3000;
/** Everybody a few times, where a plan takes an index of the tenant alone; but not everybody for everybody. */
const TIMES_MAX = 10;

testOnPostgres(
  "a caller is checked by itself, however many principals came since that was planned",
  async (environment) => {
    await using gateway = await openGateway(environment);
    await createCallers(gateway, "alice");
    await withAdminConnection(environment["SVC_DATABASE_URL"] ?? "", async (sql) => {
      // As a connection that has been open for long: its plan is from when the tenant was small.
      const countRows = await prepareStatement(sql, await readStatement(gateway));
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
async function readStatement(gateway: Harness): Promise<LoggedQuery> {
  let statement: LoggedQuery = { sql: "", parameters: [] };
  const db = gateway.app.store.db.withoutPlugins() as unknown as Kysely<IdentityTables>; // one of the modules' tables
  bindPrepared(db, {
    dialect: "postgres",
    run(sql, parameters, prepared) {
      statement = { sql, parameters, prepared };
      return Promise.resolve({ rows: [], changed: 0 });
    },
  });
  await new CredentialStore(db).findMany("default", [{ principalId: "alice", tokenId: "" }]);
  return statement;
}
