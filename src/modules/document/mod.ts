// Documents: Markdown that people and programs write together.
//
// A document is one Yjs CRDT with one `Y.Text` named `content`, which holds Markdown source, and nothing else: editors that
// bind to plain text (CodeMirror, Monaco, a textarea) use it as it is, and what REST reads and edits is the very same text.
// An editor with a tree of its own (TipTap, BlockNote, Lexical) reads and writes it through its Markdown support; updates
// that put anything but text into the CRDT are refused, so that no client can keep there what the others do not see.
//
// The log in the store is the truth. Whoever changes a document, through an API call or a live editor on any node, appends
// to it first; nodes then hear a signal that it moved, and read it. `revision` counts its updates.
export type { CarriedComment, CarriedRevision, HeldDocument } from "./appendix.ts";
export { type Carried, type CarriedContent, DocumentCarrier } from "./carrier.ts";
export { documentModule } from "./module.ts";
export type { Document, DocumentAccess, Origin } from "./schema.ts";
export { syncRoute } from "./routes.ts";
export {
  ACCESS_ROLES,
  AUTHORS_MAX,
  COMMENT_MAX,
  CommentId,
  COMMENTS_MAX,
  DOCUMENT_STATES,
  DocumentId,
  QUOTE_MAX,
  READERS_MAX,
  REVISION_KINDS,
  REVISIONS_MAX,
  STATE_MAX_BYTES,
  TEXT_MAX_BYTES,
  TITLE_MAX,
} from "./schema.ts";
export { DocumentSource } from "./searchable.ts";
export { type SyncService } from "./sync/service.ts";
export { type DocumentTables } from "./tables.ts";
