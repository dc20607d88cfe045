// The one place that knows how a document's text lies in Yjs: one `Y.Text` named `content`, holding Markdown source.
import { createHash } from "node:crypto";
import { createDecoder, type Decoder, readUint8, readVarUint, readVarUint8Array } from "lib0/decoding";
import * as Y from "yjs";
import { isSafeText } from "@/core/text.ts";
import { Fault } from "@/core/fault.ts";
import type { Splice } from "./edit.ts";
import { boundedDocument } from "./weight.ts";

/** The name editors bind to: `ydoc.getText("content")`. */
const FIELD = "content";
/** Ids of editors' clients are below; those from here on are ours. */
const OUR_CLIENTS = 2 ** 32;
/** No client writes so much. */
const CLOCK_MAX = 2 ** 32;
/** What is wrong with what is no update at all. */
export const BROKEN = "not a Yjs update";
const NOT_TEXT = `only plain text in the Y.Text "${FIELD}" is kept here`;
/** Of the byte that begins a part of an update: the kind of its content, and what else is told of it. */
const [CONTENT, HAS_SUB, HAS_RIGHT, HAS_LEFT] = [0x1f, 0x20, 0x40, 0x80];
const [DELETED, STRING] = [1, 4];

/** A document with these updates in it; throws `limit_reached` where they take too much work. */
export function openDocument(updates: readonly Uint8Array[]): Y.Doc {
  const fill = (together: (doc: Y.Doc, work: () => void) => void): Y.Doc => {
    const doc = boundedDocument();
    together(doc, () => updates.forEach((update) => Y.applyUpdate(doc, update)));
    return doc;
  };
  try {
    return fill(Y.transact);
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown;
    // Only the end of a transaction joins parts that continue each other: one by one, as they came, updates find fewer.
    return fill((_doc, work) => work());
  }
}

/** Puts an update into a document. */
export function takeUpdate(doc: Y.Doc, update: Uint8Array): void {
  Y.applyUpdate(doc, update);
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
export function applySplices(doc: Y.Doc, writer: string, splices: readonly Splice[]): Uint8Array {
  doc.clientID = ourClient(writer);
  const text = doc.getText(FIELD);
  const updates: Uint8Array[] = [];
  const collect = (update: Uint8Array): number => updates.push(update);
  doc.on("update", collect);
  doc.transact(() => {
    for (const { at, remove, insert } of splices) {
      // New text first: what others type right after the old one meanwhile then comes after the new one.
      if (insert !== "") text.insert(at, insert);
      if (remove > 0) text.delete(at + insert.length, remove);
    }
  });
  doc.off("update", collect);
  return Y.mergeUpdates(updates);
}

/**
 * The client that edits a document through the API. One for all edits: they take turns under the document's lock, each on
 * the state the one before left, so its clock never forks, and the state vector does not grow with every edit. Another one
 * once the database was restored from a copy: what was written since is still in editors, and these would take other text
 * in its places for what they have.
 */
function ourClient(writer: string): number {
  return OUR_CLIENTS + Number.parseInt(createHash("sha256").update(writer).digest("hex").slice(0, 12), 16);
}

/** Whether Yjs can read this as a state vector. */
export function isVector(data: Uint8Array): boolean {
  try {
    Y.decodeStateVector(data);
    return true;
  } catch {
    return false;
  }
}

/**
 * An update taken apart, or what is wrong with it. Yjs gets to read only text: of other content it makes things that weigh
 * hundreds of times what they did on their way, so that a frame of it would stop everybody for seconds.
 */
function readUpdate(update: Uint8Array): ReturnType<typeof Y.decodeUpdate> | string {
  try {
    return hasOnlyText(createDecoder(update)) ? Y.decodeUpdate(update) : NOT_TEXT;
  } catch {
    return BROKEN;
  }
}

/** Walks over the parts of an update as they lie in version 1. */
function hasOnlyText(decoder: Decoder): boolean {
  const skipId = (): void => {
    readVarUint(decoder);
    readVarUint(decoder);
  };
  for (let clients = readVarUint(decoder); clients > 0; clients--) {
    let parts = readVarUint(decoder);
    skipId();
    for (; parts > 0; parts--) {
      const info = readUint8(decoder);
      const content = info & CONTENT;
      if (content !== STRING && content !== DELETED) return false;
      if ((info & HAS_LEFT) !== 0) skipId();
      if ((info & HAS_RIGHT) !== 0) skipId();
      if ((info & (HAS_LEFT | HAS_RIGHT)) === 0) {
        if (readVarUint(decoder) === 1) readVarUint8Array(decoder);
        else skipId();
        if ((info & HAS_SUB) !== 0) readVarUint8Array(decoder);
      }
      if (content === STRING) readVarUint8Array(decoder);
      else readVarUint(decoder);
    }
  }
  return true;
}

/**
 * What is wrong with an update for a document that holds nothing but text; `undefined` when nothing is. Yjs believes what it
 * reads, and an update that no editor makes can leave a document that never opens again, so that is refused here.
 */
export function updateFault(update: Uint8Array): string | undefined {
  const parts = readUpdate(update);
  if (typeof parts === "string") return parts;
  const { structs, ds } = parts;
  const ends = new Map<number, number>();
  let before: number | undefined;
  for (const struct of structs) {
    const { client, clock } = struct.id;
    const end = clock + struct.length;
    if (struct.length < 1 || end > CLOCK_MAX) return "a part of no length, or beyond any";
    // The parts of a client follow each other, and those of another come after them.
    if (client === before ? ends.get(client) !== clock : ends.has(client)) return "parts out of order";
    ends.set(client, end);
    before = client;
    if (!(struct instanceof Y.Item)) return NOT_TEXT;
    const { parent, parentSub, content } = struct;
    // Not yet integrated, a top-level parent is still its name; none means: that of the neighbours.
    const isOfText = parentSub === null && (parent === null || (parent as unknown) === FIELD);
    const isText = content instanceof Y.ContentString || content instanceof Y.ContentDeleted;
    if (!isOfText || !isText) return NOT_TEXT;
    if (content instanceof Y.ContentString && !isSafeText(content.str)) return "text with NUL or half a character";
  }
  for (const deleted of ds.clients.values()) {
    let end = 0;
    for (const { clock, len } of deleted) {
      if (len < 1 || clock + len > CLOCK_MAX) return "a deletion of nothing, or beyond all";
      // Yjs goes over all that each of them covers, however often it is covered.
      if (clock < end) return "deletions out of order";
      end = clock + len;
    }
  }
  return undefined;
}

/** How an update relates to a document: it has nothing new, it fits, or it builds on something that is missing. */
export function relationOf(doc: Y.Doc, update: Uint8Array): "known" | "fits" | "foreign" {
  const { structs, ds } = Y.decodeUpdate(update);
  const { from, to } = Y.parseUpdateMeta(update);
  let hasNew = false;
  for (const [client, clock] of from) {
    const known = Y.getState(doc.store, client);
    const isNew = (to.get(client) ?? 0) > known;
    // What one of our own clients wrote and is not here was written to another document.
    if (clock > known || (isNew && client >= OUR_CLIENTS)) return "foreign";
    hasNew ||= isNew;
  }
  const isThere = (client: number, end: number): boolean =>
    end <= Math.max(Y.getState(doc.store, client), to.get(client) ?? 0);
  for (const struct of structs) {
    if (!(struct instanceof Y.Item)) continue;
    for (const neighbour of [struct.origin, struct.rightOrigin]) {
      if (neighbour === null) continue;
      const isOwn = neighbour.client === struct.id.client;
      if (isOwn ? neighbour.clock >= struct.id.clock : !isThere(neighbour.client, neighbour.clock + 1)) {
        return "foreign";
      }
    }
  }
  for (const [client, deleted] of ds.clients) {
    if (!deleted.every(({ clock, len }) => isThere(client, clock + len))) return "foreign";
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

/** A pinned place from elsewhere as it is written here; `undefined` when it is none in the text. */
export function cleanPosition(pinned: string): string | undefined {
  try {
    const position = Y.decodeRelativePosition(Uint8Array.fromBase64(pinned));
    const isInText = position.item !== null || position.tname === FIELD;
    return isInText ? Y.encodeRelativePosition(position).toBase64() : undefined;
  } catch {
    return undefined;
  }
}

/** Where a pinned place is now; `undefined` when that cannot be said. */
export function findPosition(doc: Y.Doc, pinned: string): number | undefined {
  const position = Y.decodeRelativePosition(Uint8Array.fromBase64(pinned));
  return Y.createAbsolutePositionFromRelativePosition(position, doc)?.index;
}
