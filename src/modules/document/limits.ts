// Limits of contents. A module of its own, so that the rendering worker starts without loading the schemas.

/** Size of a text in UTF-8, and of the JSON of a rich document. */
export const TEXT_MAX_BYTES = 1024 * 1024;
/** Lines of a text that is rendered; each may become a block. */
export const LINES_MAX = 50_000;
/** Nested nodes of a rich document; editors, and what reads it here, recurse over them. */
export const RICH_DEPTH_MAX = 64;
/** Nodes and marks of a rich document. */
export const RICH_NODES_MAX = 50_000;
/** Attributes of a node or mark in JSON, which are compared at once; those of editors have a dozen. */
export const ATTRIBUTES_MAX = 1000;
/** Characters of the name of a node, a mark, an attribute or a fragment. */
export const NAME_MAX_CHARS = 100;
export const TITLE_MAX = 200;
/** A text of the maximal size as JSON, with every second byte escaped; also the largest update of a rich document. */
export const BODY_MAX_BYTES = 2 * TEXT_MAX_BYTES + 64 * 1024;
export const COMMENT_MAX = 4000;
export const COMMENTS_MAX = 2000;
export const QUOTE_MAX = 1000;
/** Commented text beyond this length is not included in the comment. */
export const ANCHORED_MAX = 4000;
export const EDITS_MAX = 100;
/** Occurrences that the edits of one call may change. */
export const PLACES_MAX = 5000;
export const REVISIONS_MAX = 200;
export const REVISION_DAYS = 90;
/** Authors stored with a revision. */
export const AUTHORS_MAX = 100;
export const DEPTH_MAX = 20;
/** Documents deleted or moved to another room in one transaction, for which others wait. */
export const BRANCH_MAX = 2000;
export const READERS_MAX = 200;
/** Bytes of the CRDT, snapshot and updates together, including deleted text. */
export const STATE_MAX_BYTES = 16 * 1024 * 1024;
/** CRDT items of a document; each takes a few hundred bytes on every node that has it open. */
export const ITEMS_MAX = 100_000;
export const FRAME_MAX_BYTES = 64 * 1024;
/** Awareness states of an editor as JSON: who opens its document, or requests its awareness, gets those of all editors at once. */
export const STATES_MAX_CHARS = 8 * 1024;
export const UPDATE_MAX_BYTES = 512 * 1024;
/** By kind of document: for the same text, Yjs needs several times the bytes in a rich one. */
export const UPDATE_MAX_BYTES_OF = { text: UPDATE_MAX_BYTES, rich: 2 * 1024 * 1024 } as const;
export const EDITORS_MAX = 100;
/** Editors of one document on one socket, so that one socket cannot use up `EDITORS_MAX`. */
export const VIEWS_MAX = 8;
