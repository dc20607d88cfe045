// The one place that knows how a document's text lies in Yjs: one `Y.Text` named `content`, holding Markdown source.
import { createHash } from "node:crypto";
import * as Y from "yjs";
import { isSafeText } from "@/core/text.ts";
import type { Splice } from "./edit.ts";

/** The name editors bind to: `ydoc.getText("content")`. */
const FIELD = "content";
/** Ids of editors' clients are below; those from here on are ours, one for each document. */
const OUR_CLIENTS = 2 ** 32;

/** A document with these updates in it. */
export function openDocument(updates: readonly Uint8Array[]): Y.Doc {
  const doc = new Y.Doc();
  Y.transact(doc, () => {
    for (const update of updates) Y.applyUpdate(doc, update);
  });
  return doc;
}

/** The Markdown in a document, fit to be stored. */
export function textOf(doc: Y.Doc): string {
  return doc.getText(FIELD).toString().toWellFormed();
}

/** Everything in a document, or what is new to one who has `vector`. */
export function encode(doc: Y.Doc, vector?: Uint8Array): Uint8Array {
  return Y.encodeStateAsUpdate(doc, vector);
}

/** Makes splices one after the other, as one transaction; the update that does the same elsewhere. */
export function applySplices(doc: Y.Doc, generation: string, splices: readonly Splice[]): Uint8Array {
  doc.clientID = ourClient(generation);
  const text = doc.getText(FIELD);
  const updates: Uint8Array[] = [];
  const collect = (update: Uint8Array): number => updates.push(update);
  doc.on("update", collect);
  doc.transact(() => {
    for (const { at, remove, insert } of splices) {
      if (remove > 0) text.delete(at, remove);
      if (insert !== "") text.insert(at, insert);
    }
  });
  doc.off("update", collect);
  return Y.mergeUpdates(updates);
}

/**
 * The client that edits a document through the API. One for all edits: they take turns under the document's lock, each on
 * the state the one before left, so its clock never forks, and the state vector does not grow with every edit.
 */
function ourClient(generation: string): number {
  return OUR_CLIENTS + Number.parseInt(createHash("sha256").update(generation).digest("hex").slice(0, 12), 16);
}

/** Whether Yjs can read this. */
export function isReadable(data: Uint8Array, as: "vector" | "update"): boolean {
  try {
    if (as === "vector") Y.decodeStateVector(data);
    else Y.decodeUpdate(data);
    return true;
  } catch {
    return false;
  }
}

/** What is wrong with an update for a document that holds nothing but text; `undefined` when nothing is. */
export function updateFault(update: Uint8Array): string | undefined {
  if (!isReadable(update, "update")) return "not a Yjs update";
  for (const struct of Y.decodeUpdate(update).structs) {
    if (!(struct instanceof Y.Item)) continue;
    const { parent, parentSub, content } = struct;
    // Not yet integrated, a top-level parent is still its name; none means: that of the neighbours.
    const isOfText = parentSub === null && (parent === null || (parent as unknown) === FIELD);
    const isText = content instanceof Y.ContentString || content instanceof Y.ContentDeleted;
    if (!isOfText || !isText) return `only plain text in the Y.Text "${FIELD}" is kept here`;
    if (content instanceof Y.ContentString && !isSafeText(content.str)) return "text with NUL or half a character";
  }
  return undefined;
}

/** How an update relates to a document: it has nothing new, it fits, or it builds on something that is missing. */
export function relationOf(doc: Y.Doc, update: Uint8Array): "known" | "fits" | "foreign" {
  const { from, to } = Y.parseUpdateMeta(update);
  const vector = Y.decodeStateVector(Y.encodeStateVector(doc));
  let hasNew = false;
  for (const [client, clock] of from) {
    const known = vector.get(client) ?? 0;
    const isNew = (to.get(client) ?? 0) > known;
    // What one of our own clients wrote and is not here was written to another document.
    if (clock > known || (isNew && client >= OUR_CLIENTS)) return "foreign";
    hasNew ||= isNew;
  }
  if (hasNew) return "fits";
  // Nothing inserted, so it depends on what it deletes.
  return Y.snapshotContainsUpdate(Y.snapshot(doc), update) ? "known" : "fits";
}

/** Whether everything an update inserts was in a document whose encoded state vector this is; not said of mere deletions. */
export function isWithin(vector: Uint8Array, update: Uint8Array): boolean {
  const { to } = Y.parseUpdateMeta(update);
  const known = Y.decodeStateVector(vector);
  return to.size > 0 && [...to].every(([client, clock]) => clock <= (known.get(client) ?? 0));
}

/** Whether an update says nothing at all, as the first sync of a client that is up to date does. */
export function isEmptyUpdate(update: Uint8Array): boolean {
  return update.length <= 2;
}

/** A place in the text that stays with its neighbours, as base64. `side` is the neighbour it belongs to. */
export function pinPosition(doc: Y.Doc, index: number, side: "next" | "previous"): string {
  const position = Y.createRelativePositionFromTypeIndex(doc.getText(FIELD), index, side === "next" ? 0 : -1);
  return Y.encodeRelativePosition(position).toBase64();
}

/** Where a pinned place is now; `undefined` when that cannot be said. */
export function findPosition(doc: Y.Doc, pinned: string): number | undefined {
  const position = Y.decodeRelativePosition(Uint8Array.fromBase64(pinned));
  return Y.createAbsolutePositionFromRelativePosition(position, doc)?.index;
}
