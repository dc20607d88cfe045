// Limits of texts. A module of its own, so that the rendering worker starts without loading the schemas.

/** Size of a text in UTF-8. */
export const TEXT_MAX_BYTES = 1024 * 1024;
/** Lines of a text that is rendered; each may become a block. */
export const LINES_MAX = 50_000;
