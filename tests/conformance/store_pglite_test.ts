// The store's suites on PostgreSQL's own SQL engine, in the process, where there is no server to run them on.
import { isQuick, postgresUrl } from "../tier.ts";
import { idempotencySuite } from "./idempotency_suite.ts";
import { jobSuite } from "./job_suite.ts";
import { pgliteBackend } from "./store_backends.ts";
import { storeSuite } from "./store_suite.ts";

// Loading it and making its data folder takes seconds, and `store_postgres_test.ts` runs the same suites on a server.
if (!isQuick && postgresUrl === undefined) {
  const { PGlite } = await import("npm:@electric-sql/pglite@0.5.16");
  // Made once, outside the tests.
  const backend = pgliteBackend(await PGlite.create());
  storeSuite(backend);
  jobSuite(backend);
  idempotencySuite(backend);
}
