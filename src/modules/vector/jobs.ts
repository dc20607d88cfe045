// Kinds of the background work on vectors. Each has at most one waiting job for a tenant, or for a space.

/** Compares the spaces of a tenant with its embedding model. */
export const CHECK_JOB = "vector.check";
/** Embeds what waits. */
export const EMBED_JOB = "vector.embed";
/** Finds what a new space lacks, and activates it when that is nothing. */
export const BUILD_JOB = "vector.build";
/** Deletes a retired space. */
export const CLEAR_JOB = "vector.clear";
