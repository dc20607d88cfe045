// Documents: Markdown that people and programs edit together.
//
// A document is one Yjs CRDT with a single `Y.Text` named `content`, which contains Markdown source. Editors that bind to plain
// text (CodeMirror, Monaco, a textarea) use it directly, and REST reads and edits the same text. Editors with a tree model
// (TipTap, BlockNote, Lexical) read and write it through their Markdown support. Updates with anything but text are refused,
// because other clients would not see it.
//
// The log in the store is the source of truth. Every change, by an API call or a live editor on any node, is appended to it
// first; nodes then receive a signal and read the log. `revision` counts its updates.
export { type DocumentModule, documentModule } from "./module.ts";
export { collaborationRoute } from "./routes.ts";
