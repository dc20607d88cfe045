// The representation of a document in Yjs. A text has one `Y.Text` named `content`, which contains Markdown source; of a rich
// document, `rich/` reads and writes the fragment.
import { createDecoder } from "lib0/decoding";
import * as Y from "yjs";
import { hashText } from "@/core/crypto.ts";
import { findUnsafeText, isSafeText } from "@/core/text/text.ts";
import type { Steps } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import { ITEMS_MAX } from "../limits.ts";
import { RICH_JSON_VALUES_MAX } from "../rich/node.ts";
import type { Splice } from "./text_edits.ts";
import { type DecodedUpdate, decodeUpdate } from "./decoded_update.ts";
import { createBoundedDocument } from "./merge_cost.ts";
import { type DocumentKind, scanContents } from "./update_scan.ts";

/** The name editors bind to: `ydoc.getText("content")`. */
const TEXT_FIELD = "content";
/** Client ids from here on are the server's; those of editors are smaller. */
const SERVER_CLIENT_MIN = 2 ** 32;
/** No honest client reaches this clock. */
const CLOCK_MAX = 2 ** 32;
/** Steps of a change that are one transaction: its end takes as long as they do. */
const TRANSACTION_STEPS = 200;
/** Updates of one change are merged up to this size together. */
const MERGED_MAX_BYTES = 64 * 1024;
/** Fault of data that is not an update. */
export const INVALID_UPDATE = "invalid Yjs update";
const REFUSED_CONTENT: Readonly<Record<DocumentKind, string>> = {
  text: `expected changes of text in the Y.Text "${TEXT_FIELD}" only; for TipTap, BlockNote and other editors of ` +
    "ProseMirror create a document of the kind rich",
  rich: "expected elements, texts and JSON without NUL only",
};
const TOO_MANY = `An update can have at most ${ITEMS_MAX} CRDT items, and ${RICH_JSON_VALUES_MAX} JSON values`;

/** Loads a document from updates; throws `limit_reached` if that is too expensive. */
export function openDocument(updates: readonly Uint8Array[]): Y.Doc {
  const load = (run: (doc: Y.Doc, work: () => void) => void): Y.Doc => {
    const doc = createBoundedDocument();
    run(doc, () => updates.forEach((update) => Y.applyUpdate(doc, update)));
    return doc;
  };
  try {
    return load(Y.transact);
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown;
    // Adjacent items are merged at the end of a transaction only, so with one for each update there are fewer items to search.
    return load((_doc, work) => work());
  }
}

export function applyUpdate(doc: Y.Doc, update: Uint8Array): void {
  Y.applyUpdate(doc, update);
}

/** The Markdown in a document, well-formed so that it can be stored. */
export function textOf(doc: Y.Doc): string {
  return doc.getText(TEXT_FIELD).toString().toWellFormed();
}

/** Encodes a document, or only the changes missing in a copy with the state `vector`. */
export function encode(doc: Y.Doc, vector?: Uint8Array): Uint8Array {
  return Y.encodeStateAsUpdate(doc, vector);
}

/** Applies splices to the text in order. */
export function* spliceText(doc: Y.Doc, splices: readonly Splice[]): Steps {
  const text = doc.getText(TEXT_FIELD);
  for (const { at, remove, insert } of splices) {
    // Inserts first, so that text typed concurrently after the old text follows the new one.
    if (insert !== "") text.insert(at, insert);
    if (remove > 0) text.delete(at + insert.length, remove);
    yield;
  }
}

/** Runs a change of the server. */
export function* applyChange(doc: Y.Doc, writer: string, change: Steps): Steps {
  doc.clientID = serverClientId(writer);
  while (!doc.transact(() => isDoneAfter(change, TRANSACTION_STEPS))) yield;
}

/** The same, and returns the update with it. */
export function* recordChange(doc: Y.Doc, writer: string, change: Steps): Steps<Uint8Array> {
  const vector = Y.encodeStateVector(doc);
  const updates: Uint8Array[] = [];
  const collect = (update: Uint8Array): number => updates.push(update);
  doc.on("update", collect);
  try {
    yield* applyChange(doc, writer, change);
  } finally {
    doc.off("update", collect);
  }
  const bytes = updates.reduce((sum, { length }) => sum + length, 0);
  if (bytes <= MERGED_MAX_BYTES) return Y.mergeUpdates(updates);
  yield;
  // Merging takes ten times as long. It would leave out earlier deletions, which are few beside so much else.
  return Y.encodeStateAsUpdate(doc, vector);
}

function isDoneAfter(work: Steps, steps: number): boolean {
  for (let left = steps; left > 0;) {
    const { done, value } = work.next();
    if (done === true) return true;
    left -= value ?? 1;
  }
  return false;
}

/**
 * The client id of edits through the API. All edits share one, so that the state vector does not grow with each: they run under
 * the document's lock, so the clock does not fork. After the database is restored from a backup the id is another one: editors
 * may still have lost edits, and would mistake new ones with the same clocks for them.
 */
function serverClientId(writer: string): number {
  return SERVER_CLIENT_MIN + Number.parseInt(hashText(writer).slice(0, 12), 16);
}

/** Whether this is a valid state vector. */
export function isStateVector(data: Uint8Array): boolean {
  try {
    Y.decodeStateVector(data);
    return true;
  } catch {
    return false;
  }
}

/**
 * Parses an update; a string is the reason why it is invalid. Yjs decodes only what documents of this kind contain: other content
 * expands to hundreds of times its size, so that one frame would block the thread for seconds.
 */
function parseUpdate(update: Uint8Array, kind: DocumentKind): DecodedUpdate | string {
  try {
    const contents = scanContents(kind, createDecoder(update));
    if (contents === "too_many") return TOO_MANY;
    return contents === "allowed" ? decodeUpdate(update) : REFUSED_CONTENT[kind];
  } catch {
    return INVALID_UPDATE;
  }
}

/**
 * Why an update is invalid; `undefined` if it is valid, apart from where its items lie in a rich document. Yjs does not validate
 * updates, and a crafted one can leave a document that cannot be opened again.
 */
export function updateFault(update: Uint8Array, kind: DocumentKind): string | undefined {
  const parsed = parseUpdate(update, kind);
  if (typeof parsed === "string") return parsed;
  const { structs, ds } = parsed;
  const ends = new Map<number, number>();
  let before: number | undefined;
  for (const struct of structs) {
    const { client, clock } = struct.id;
    const end = clock + struct.length;
    if (struct.length < 1 || end > CLOCK_MAX) return "invalid length of an item";
    // Items are grouped by client and contiguous within it.
    if (client === before ? ends.get(client) !== clock : ends.has(client)) return "items are not in order";
    ends.set(client, end);
    before = client;
    if (kind === "text") {
      // Before integration, a top-level parent is its name; null: the parent of the neighbors.
      const { parent, parentSub } = struct as Y.Item; // others were refused as another kind of content
      if (parentSub !== null || (parent !== null && (parent as unknown) !== TEXT_FIELD)) return REFUSED_CONTENT.text;
    }
    if (struct instanceof Y.Item && !isSafeContent(struct)) return "text with NUL or a lone surrogate";
  }
  for (const deleted of ds.clients.values()) {
    let end = 0;
    for (const { clock, len } of deleted) {
      if (len < 1 || clock + len > CLOCK_MAX) return "invalid length of a deletion";
      // Yjs iterates over the whole range of each deletion, even if ranges overlap.
      if (clock < end) return "deletions are not in order";
      end = clock + len;
    }
  }
  return undefined;
}

/** The fault of an update, by the reason that `updateFault` returned. */
export function refusalOf(reason: string): Fault {
  return reason === TOO_MANY
    ? new Fault("limit_reached", reason)
    : new Fault("validation_failed", `Refused: ${reason}`);
}

/** Whether all texts in an item are well-formed, apart from JSON of other items than marks, which was scanned. */
function isSafeContent({ content, parentSub }: Y.Item): boolean {
  if (parentSub !== null && !isSafeText(parentSub)) return false;
  if (content instanceof Y.ContentString) return isSafeText(content.str);
  if (content instanceof Y.ContentFormat) {
    // As JSON again, which escapes what is not safe.
    return isSafeText(content.key) && findUnsafeText(JSON.stringify(content.value) ?? "", content.value) === undefined;
  }
  return !(content instanceof Y.ContentType && content.type instanceof Y.XmlElement) ||
    isSafeText(content.type.nodeName);
}

/** Whether an update has nothing new, can be applied, or depends on changes that are missing. */
export function classifyUpdate(doc: Y.Doc, update: Uint8Array): "duplicate" | "applicable" | "missing_dependency" {
  const { structs, ds } = decodeUpdate(update);
  const { from, to } = Y.parseUpdateMeta(update);
  let hasNew = false;
  for (const [client, clock] of from) {
    const known = Y.getState(doc.store, client);
    const isNew = (to.get(client) ?? 0) > known;
    // Edits of the server that are missing here were written to another document.
    if (clock > known || (isNew && client >= SERVER_CLIENT_MIN)) return "missing_dependency";
    hasNew ||= isNew;
  }
  const exists = (client: number, end: number): boolean =>
    end <= Math.max(Y.getState(doc.store, client), to.get(client) ?? 0);
  for (const struct of structs) {
    if (!(struct instanceof Y.Item)) continue;
    const parent: unknown = struct.parent;
    for (const neighbor of [struct.origin, struct.rightOrigin, parent instanceof Y.ID ? parent : null]) {
      if (neighbor === null) continue;
      const isOwn = neighbor.client === struct.id.client;
      if (isOwn ? neighbor.clock >= struct.id.clock : !exists(neighbor.client, neighbor.clock + 1)) {
        return "missing_dependency";
      }
    }
  }
  for (const [client, deleted] of ds.clients) {
    if (!deleted.every(({ clock, len }) => exists(client, clock + len))) return "missing_dependency";
  }
  if (hasNew) return "applicable";
  // Without insertions, it depends on what it deletes.
  return Y.snapshotContainsUpdate(Y.snapshot(doc), update) ? "duplicate" : "applicable";
}

/** Whether all insertions of an update are covered by an encoded state vector; false for updates with deletions only. */
export function isIncludedIn(vector: Uint8Array, update: Uint8Array): boolean {
  const { to } = Y.parseUpdateMeta(update);
  const known = Y.decodeStateVector(vector);
  return to.size > 0 && [...to].every(([client, clock]) => clock <= (known.get(client) ?? 0));
}

/** Whether an update is empty, as in the first sync of an up-to-date client. */
export function isEmptyUpdate(update: Uint8Array): boolean {
  return update.length <= 2;
}

/** A relative position as base64, which moves with the neighbor on `side`. */
export function encodeAnchor(doc: Y.Doc, index: number, side: "next" | "previous"): string {
  const position = Y.createRelativePositionFromTypeIndex(doc.getText(TEXT_FIELD), index, side === "next" ? 0 : -1);
  return Y.encodeRelativePosition(position).toBase64();
}

/** The canonical encoding of an imported anchor; `undefined` if it is not a position in a text. */
export function normalizeAnchor(anchor: string, kind: DocumentKind): string | undefined {
  try {
    const position = Y.decodeRelativePosition(Uint8Array.fromBase64(anchor));
    const isInText = position.item !== null ||
      (kind === "text" ? position.tname === TEXT_FIELD : position.type !== null);
    return isInText ? Y.encodeRelativePosition(position).toBase64() : undefined;
  } catch {
    return undefined;
  }
}

/** The type and index of an anchor now; `undefined` if it cannot be resolved. */
export function resolveAnchor(doc: Y.Doc, anchor: string): { type: unknown; index: number } | undefined {
  const position = Y.decodeRelativePosition(Uint8Array.fromBase64(anchor));
  return Y.createAbsolutePositionFromRelativePosition(position, doc) ?? undefined;
}
