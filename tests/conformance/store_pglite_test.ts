// The store's suites on PostgreSQL's own SQL engine, in the process.
import { PGlite } from "npm:@electric-sql/pglite@0.5.16";
import { idempotencySuite } from "./idempotency_suite.ts";
import { jobSuite } from "./job_suite.ts";
import { pgliteServer } from "./store_backends.ts";
import { storeSuite } from "./store_suite.ts";

// Made once, outside the tests: making its data folder takes seconds.
const backend = pgliteServer(await PGlite.create());
storeSuite(backend);
jobSuite(backend);
idempotencySuite(backend);
