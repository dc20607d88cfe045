// Tests of the whole gateway on SQLite and on PostgreSQL.
import { createTemporaryDatabase } from "./temporary_database.ts";
import { postgresUrl } from "./tier.ts";

/** `environment` names the database, without rows and the test's own. */
type EngineTest = (environment: Record<string, string>) => Promise<void>;

/** Registers a test for each engine. */
export function testOnEngines(name: string, run: EngineTest): void {
  Deno.test(`sqlite: ${name}`, () => run({}));
  testOnPostgres(name, run);
}

/** Registers a test for PostgreSQL, ignored unless TEST_POSTGRES_URL names a server. */
export function testOnPostgres(name: string, run: EngineTest, { ignore = false } = {}): void {
  Deno.test({
    name: `postgres: ${name}`,
    ignore: ignore || postgresUrl === undefined,
    async fn() {
      const database = await createTemporaryDatabase(postgresUrl ?? "");
      try {
        await run({ SVC_DATABASE_URL: database.url });
      } finally {
        await database.release();
      }
    },
  });
}
