// What a document costs whoever opens it, told before more is put into it. Yjs looks for the place of a part among all those
// between the two neighbours that the part names, and believes whoever names them: a few bytes that name the two ends of a
// large document hold everybody up for a second, each time it is opened.
import * as Y from "yjs";
import { Fault } from "@/core/fault.ts";
import { PARTS_MAX } from "./schema.ts";

/** Parts looked at to find places for others, since a document was opened; honest editors come to a few thousand. */
const STEPS_MAX = 1_000_000;
/** What lies in the log is given up beyond this; nothing is taken that would bring it here. */
const OPENING_STEPS_MAX = 2 * STEPS_MAX;
/** Of one update; one that cannot take more is not tried out. */
const UPDATE_STEPS_MAX = 300_000;

/** So fast this goes here; what is done is timed. */
const [STEPS_PER_MS, PARTS_PER_MS] = [4000, 3000];

const taken = new WeakMap<Y.Doc, number>();
const bounds = new WeakMap<Y.Doc, number>();
const integrate = Y.Item.prototype.integrate;

/** Has Yjs count its steps, in every document from now on. */
export function countSteps(): void {
  Y.Item.prototype.integrate = function (transaction, offset): void {
    const { doc } = transaction;
    const before = stepsOf(doc);
    const bound = bounds.get(doc) ?? Infinity;
    const steps = before + stepsTo(this, offset, transaction, bound - before);
    if (steps > before) taken.set(doc, steps);
    if (steps > bound) throw tangled();
    integrate.call(this, transaction, offset);
  };
}

/** An empty document that is given up when it takes too many steps to fill. */
export function boundedDocument(bound = OPENING_STEPS_MAX): Y.Doc {
  const doc = new Y.Doc();
  bounds.set(doc, bound);
  return doc;
}

/** Steps a document has taken so far. */
function stepsOf(doc: Y.Doc): number {
  return taken.get(doc) ?? 0;
}

/** Parts of a document: pieces of text written, or deleted, in one go and not parted since. */
export function partsOf(doc: Y.Doc): number {
  let count = 0;
  for (const structs of doc.store.clients.values()) count += structs.length;
  return count;
}

/** Throws when a document has grown, from so many parts, beyond what is kept. */
export function checkParts(doc: Y.Doc, before: number): void {
  if (partsOf(doc) <= Math.max(before, PARTS_MAX)) return;
  throw new Fault(
    "limit_reached",
    `A document is written in at most ${PARTS_MAX} pieces; go on in a new one made of its text`,
  );
}

/** How long it takes about to go over a document once, as to encode it, in milliseconds. */
export function readingMs(doc: Y.Doc): number {
  return partsOf(doc) / PARTS_PER_MS;
}

/**
 * Throws unless a document can take an update, which fits it, at a cost that others can bear. Tells how long it takes at
 * most, in milliseconds.
 */
export function weigh(doc: Y.Doc, update: Uint8Array): number {
  return stepsOfUpdate(doc, update) / STEPS_PER_MS;
}

function stepsOfUpdate(doc: Y.Doc, update: Uint8Array): number {
  const { structs, ds } = Y.decodeUpdate(update);
  const parts = partsOf(doc);
  const deletions = ds.clients.values().reduce((sum, { length }) => sum + length, 0);
  const steps = structs.length * (parts + structs.length);
  // Each may part one that is there at both of its ends.
  const grown = parts + 3 * structs.length + 2 * deletions;
  const isOfOne = structs.every(({ id }) => id.client === structs[0]?.id.client);
  const isLight = steps <= UPDATE_STEPS_MAX && stepsOf(doc) + steps <= STEPS_MAX && grown <= PARTS_MAX;
  return isLight && isOfOne ? steps : tried(doc, update, parts);
}

/** The steps an update takes, known by taking them on a copy. */
function tried(doc: Y.Doc, update: Uint8Array, parts: number): number {
  const copy = boundedDocument(STEPS_MAX);
  Y.applyUpdate(copy, Y.encodeStateAsUpdate(doc));
  const before = stepsOf(copy);
  bounds.set(copy, before + Math.min(UPDATE_STEPS_MAX, STEPS_MAX - stepsOf(doc)));
  Y.applyUpdate(copy, update);
  if (copy.store.pendingStructs !== null && doc.store.pendingStructs === null) {
    throw new Fault("validation_failed", "Refused: parts that wait for each other");
  }
  checkParts(copy, parts);
  return stepsOf(copy) - before;
}

/** The document that a snapshot holds; `undefined` where it takes too much work, which the order of its parts decides. */
export function fromSnapshot(snapshot: Uint8Array): Y.Doc | undefined {
  const doc = boundedDocument(STEPS_MAX);
  try {
    Y.applyUpdate(doc, snapshot);
    return doc;
  } catch (thrown) {
    if (thrown instanceof Fault) return undefined;
    throw thrown;
  }
}

/** The walk that `Item.integrate` makes to the place of a part, up to one step beyond `max`. */
function stepsTo(item: Y.Item, offset: number, { doc: { store } }: Y.Transaction, max: number): number {
  const { id: { client, clock }, right, rightOrigin, parent } = item;
  if (!(parent instanceof Y.AbstractType) || item.parentSub !== null) return 0;
  // Where its beginning is known, the rest comes after that.
  const origin = offset === 0 ? item.origin : Y.createID(client, clock + offset - 1);
  const left = offset === 0 || origin === null ? item.left : Y.getItem(store, origin);
  let at = left === null ? parent._start : left.right;
  if (at === null || at === right) return 0;
  const passed = new Set<Y.Item>();
  for (; at !== null && at !== right && passed.size <= max; at = at.right) {
    passed.add(at);
    const isEnd = Y.compareIDs(origin, at.origin)
      ? at.id.client >= client && Y.compareIDs(rightOrigin, at.rightOrigin)
      : at.origin === null || !passed.has(Y.getItem(store, at.origin));
    if (isEnd) break;
  }
  return passed.size;
}

function tangled(): Fault {
  return new Fault(
    "limit_reached",
    "This takes more work to merge than one document may cause; make the change anew, or go on in a new document",
  );
}
