// Tests of the whole gateway on SQLite and on PostgreSQL.
import { temporaryDatabase } from "./temporary_database.ts";

/** `environment` names the database, without rows and the test's own. */
type Run = (environment: Record<string, string>) => Promise<void>;

const url = Deno.env.get("TEST_POSTGRES_URL");

/** Registers a test for each engine. */
export function onEngines(name: string, run: Run): void {
  Deno.test(`sqlite: ${name}`, () => run({}));
  onPostgres(name, run);
}

/** Registers a test for PostgreSQL, ignored unless TEST_POSTGRES_URL names a server. */
export function onPostgres(name: string, run: Run): void {
  Deno.test({
    name: `postgres: ${name}`,
    ignore: url === undefined,
    async fn() {
      const database = await temporaryDatabase(url ?? "");
      try {
        await run({ SVC_DATABASE_URL: database.url });
      } finally {
        await database.drop();
      }
    },
  });
}
