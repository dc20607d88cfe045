// What a run of the tests may use: `deno task test` no servers, no browser and little time, any other run what there is.

export const isQuick = Deno.env.get("TEST_TIER") === "quick";

/** A PostgreSQL server, as a superuser; tests make databases of their own there. */
export const postgresUrl = isQuick ? undefined : Deno.env.get("TEST_POSTGRES_URL");

/** A PostgreSQL server with the extension pgvector, as a superuser. */
export const pgvectorUrl = isQuick ? undefined : Deno.env.get("TEST_PGVECTOR_URL");

export const redisUrl = isQuick ? undefined : Deno.env.get("TEST_REDIS_URL");

/** Whether `redis-server` can be run here. */
export const hasRedisServer = !isQuick && await new Deno.Command("redis-server", { args: ["--version"] }).output()
  .then(({ success }) => success, () => false);

/** Registers a test that takes long: the quick tier leaves it out. */
export const slowTest: (name: string, run: (t: Deno.TestContext) => void | Promise<void>) => void = isQuick
  ? Deno.test.ignore
  : Deno.test;
