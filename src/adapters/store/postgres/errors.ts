// PostgreSQL's errors, whichever client speaks to it.
import { Fault } from "@/core/fault.ts";
import { UniqueViolation } from "@/ports/store.ts";
import { ConnectionLost, SerializationRetry } from "../sql_session.ts";

/** Deadlock, serialization failure, a lock not had in time: worth another run. */
const RETRYABLE = new Set(["40P01", "40001", "55P03"]);
const CONNECTION_LOST = new Set([
  "CONNECTION_CLOSED",
  "CONNECTION_ENDED",
  "CONNECTION_DESTROYED",
  "CONNECT_TIMEOUT",
  "ECONNREFUSED",
  "ECONNRESET",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EPIPE",
  "ENOENT",
  "53300",
  "57P01",
  "57P02",
  "57P03",
  "25P03",
]);

/** Out of disk, memory or the like; failing at its own files; a standby or one that was made read-only. */
const UNAVAILABLE = /^(53|58|25006)/;

/** Errors that retrying does not fix: wrong names and passwords, unknown settings. */
const MISCONFIGURED = /^(28|3D|42|22)/;
/** What PgBouncer says to the settings of a session. Its code it has for failures that pass, too. */
const REFUSED_BY_POOLER = /^unsupported startup parameter/;

/** A pooler may run one session's statements in several sessions of the server, without its settings and prepared statements. */
export const NO_POOLER =
  "Session settings are lost between the gateway and PostgreSQL: connect to the server directly, not through a pooler";

/** A driver's error as the store speaks of it. */
export function translateError(thrown: unknown): unknown {
  if (!hasCode(thrown)) return thrown;
  const options = { cause: thrown };
  if (isFatal(thrown)) return new ConnectionLost(thrown.message, options);
  if (thrown.code === "23505") return new UniqueViolation(thrown.message, options);
  if (RETRYABLE.has(thrown.code) || isStalePlan(thrown)) return new SerializationRetry(thrown.message, options);
  if (CONNECTION_LOST.has(thrown.code) || thrown.code.startsWith("08")) {
    return new ConnectionLost(thrown.message, options);
  }
  if (UNAVAILABLE.test(thrown.code)) return new Fault("unavailable", "The database is unavailable", options);
  if (thrown.code === "57014") return new Fault("unavailable", "The database timed out", options);
  return thrown;
}

/** Why the server does not let us in and never will; `undefined` where it may, or is not there. */
export function findMisconfiguration(thrown: unknown): Error | undefined {
  if (hasCode(thrown)) {
    if (isFatal(thrown) && MISCONFIGURED.test(thrown.code)) return thrown;
    if (REFUSED_BY_POOLER.test(thrown.message)) return new Error(NO_POOLER, { cause: thrown });
  }
  return thrown instanceof Error ? findMisconfiguration(thrown.cause) : undefined;
}

/** Whether a statement was prepared before a newer node changed its table. The next run prepares it again. */
function isStalePlan(thrown: Error & { code: string }): boolean {
  return thrown.code === "0A000" && "routine" in thrown && thrown.routine === "RevalidateCachedQuery";
}

function hasCode(thrown: unknown): thrown is Error & { code: string } {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string";
}

/** Whether the server ended the session by it, or began none. */
function isFatal(thrown: Error): boolean {
  return "severity" in thrown && thrown.severity === "FATAL";
}
