// Kinds of the background work on vectors. Each has at most one waiting job for a tenant, or for a space.
import { MINUTE_MS } from "@/core/time/clock.ts";

/** Compares the spaces of a tenant with its embedding model. */
export const CHECK_JOB = "vector.check";
/** Embeds what waits. */
export const EMBED_JOB = "vector.embed";
/** Finds what a new space lacks, and activates it when that is nothing. */
export const BUILD_JOB = "vector.build";
/** Deletes a retired space. */
export const CLEAR_JOB = "vector.clear";

/** The longest pause of a space; a longer one, which its provider asked for, also ends with the next check. */
export const PAUSE_MAX_MS = 15 * MINUTE_MS;
