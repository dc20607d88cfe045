// The store's suites on PostgreSQL's own SQL engine, in the process.
import { isQuick } from "../tier.ts";
import { idempotencySuite } from "./idempotency_suite.ts";
import { jobSuite } from "./job_suite.ts";
import { pgliteBackend } from "./store_backends.ts";
import { storeSuite } from "./store_suite.ts";

// Loading it and making its data folder takes seconds.
if (!isQuick) {
  const { PGlite } = await import("npm:@electric-sql/pglite@0.5.16");
  // Made once, outside the tests.
  const backend = pgliteBackend(await PGlite.create());
  storeSuite(backend);
  jobSuite(backend);
  idempotencySuite(backend);
}
