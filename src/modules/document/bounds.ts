// How long a text may be. By itself, as the worker that renders one is there the sooner the less it reads.

/** Bytes of the text in UTF-8. */
export const TEXT_MAX_BYTES = 1024 * 1024;
/** Lines of a text that is taken apart into blocks, or made HTML of; each may become a block. */
export const LINES_MAX = 50_000;
