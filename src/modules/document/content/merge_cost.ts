// Estimates the cost of a document before an update is accepted. Yjs searches for the position of an item among all items between
// the two neighbors that the item names, and does not validate them: a few bytes that name both ends of a large document block
// the thread for a second, each time the document is opened.
//
// Steps are counted in a method of Yjs that is replaced here, because nothing else distinguishes hostile updates from honest ones.
// Size and rate do not: 500 bytes can take seconds, while a client that was offline for a day sends 1500 items that merge at
// once. Time depends on the machine: a timeout that stops the former on an idle machine refuses the latter on a busy one, and
// does not show what many small updates add up to when the document is opened elsewhere.
import * as Y from "yjs";
import { nextTick } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { ITEMS_MAX } from "../schema.ts";
import { decodeUpdate } from "./decoded_update.ts";

/** Items visited to find positions, since a document was opened; honest editors need a few thousand. */
const STEPS_MAX = 1_000_000;
/** A stored document is not opened beyond this; no update is accepted that would lead there. */
const OPENING_STEPS_MAX = 2 * STEPS_MAX;
/** Steps of one update; updates that cannot exceed this are not measured. */
const UPDATE_STEPS_MAX = 300_000;

/** A pass over so many items takes a few milliseconds. */
const LARGE_ITEMS = 2000;
/** Rough speeds for estimates in advance; the actual time is measured. */
const [STEPS_PER_MS, ITEMS_PER_MS] = [4000, 3000];

const stepsTaken = new WeakMap<Y.Doc, number>();
const stepLimits = new WeakMap<Y.Doc, number>();
const integrate = Y.Item.prototype.integrate;
const callObserver = Y.Text.prototype._callObserver;

/** Documents whose formatting is not cleaned up. */
const isRelay = new WeakSet<Y.Doc>();

/**
 * A document that applies changes of others only. After a change of formatting Yjs deletes marks that no longer have an effect:
 * the document would have what the log has not, and a crafted text takes seconds. Editors do it themselves.
 */
export function markAsRelay(doc: Y.Doc): void {
  isRelay.add(doc);
}

/** Makes Yjs count its steps in every document, and clean up formatting in those of editors only. */
export function installStepCounter(): void {
  Y.Text.prototype._callObserver = function (transaction, keys): void {
    callObserver.call(this, transaction, keys);
    if (isRelay.has(transaction.doc)) transaction._needFormattingCleanup = false;
  };
  Y.Item.prototype.integrate = function (transaction, offset): void {
    const { doc } = transaction;
    const before = stepsOf(doc);
    const limit = stepLimits.get(doc) ?? Infinity;
    const steps = before + stepsTo(this, offset, transaction, limit - before);
    if (steps > before) stepsTaken.set(doc, steps);
    if (steps > limit) throw mergeTooCostly();
    integrate.call(this, transaction, offset);
  };
}

/** An empty document that throws when loading it takes too many steps. */
export function createBoundedDocument(limit = OPENING_STEPS_MAX): Y.Doc {
  const doc = new Y.Doc();
  stepLimits.set(doc, limit);
  markAsRelay(doc);
  return doc;
}

function stepsOf(doc: Y.Doc): number {
  return stepsTaken.get(doc) ?? 0;
}

/** Number of items of a document: pieces of text inserted or deleted together and not split since. */
export function countItems(doc: Y.Doc): number {
  let count = 0;
  for (const structs of doc.store.clients.values()) count += structs.length;
  return count;
}

/** Lets others run after a pass over a document that took a while, also within a transaction. */
export async function pauseIfLarge(doc: Y.Doc): Promise<void> {
  if (countItems(doc) > LARGE_ITEMS) await nextTick();
}

/** Throws if the number of items has grown beyond the limit. */
export function assertItemLimit(doc: Y.Doc, before: number): void {
  if (countItems(doc) <= Math.max(before, ITEMS_MAX)) return;
  throw new Fault(
    "limit_reached",
    `A document can have at most ${ITEMS_MAX} CRDT items; continue in a new document with the same text`,
  );
}

/** Estimated milliseconds to iterate over a document once, as for encoding it. */
export function estimateEncodeMs(doc: Y.Doc): number {
  return countItems(doc) / ITEMS_PER_MS;
}

/**
 * Upper bound of the milliseconds to merge an applicable update; throws `limit_reached` if that is too expensive.
 */
export function estimateMergeMs(doc: Y.Doc, update: Uint8Array): number {
  return estimateSteps(doc, update) / STEPS_PER_MS;
}

function estimateSteps(doc: Y.Doc, update: Uint8Array): number {
  const { structs, ds } = decodeUpdate(update);
  const items = countItems(doc);
  const deletions = ds.clients.values().reduce((sum, { length }) => sum + length, 0);
  // All earlier values of an attribute may be visited twice.
  const isKeyed = structs.some((struct) => struct instanceof Y.Item && struct.parentSub !== null);
  const steps = (isKeyed ? 2 : 1) * structs.length * (items + structs.length);
  // Each may split an existing item at both of its ends.
  const itemsAfter = items + 3 * structs.length + 2 * deletions;
  const isOneClient = structs.every(({ id }) => id.client === structs[0]?.id.client);
  const isCheap = steps <= UPDATE_STEPS_MAX && stepsOf(doc) + steps <= STEPS_MAX && itemsAfter <= ITEMS_MAX;
  return isCheap && isOneClient ? steps : measureSteps(doc, update, items);
}

/** Measures the steps of an update by applying it to a copy. */
function measureSteps(doc: Y.Doc, update: Uint8Array, items: number): number {
  const copy = createBoundedDocument(STEPS_MAX);
  Y.applyUpdate(copy, Y.encodeStateAsUpdate(doc));
  const before = stepsOf(copy);
  stepLimits.set(copy, before + Math.min(UPDATE_STEPS_MAX, STEPS_MAX - stepsOf(doc)));
  Y.applyUpdate(copy, update);
  if (copy.store.pendingStructs !== null && doc.store.pendingStructs === null) {
    throw new Fault("validation_failed", "Rejected: circular dependency between items");
  }
  assertItemLimit(copy, items);
  return stepsOf(copy) - before;
}

/** Loads a document from a snapshot; `undefined` if that is too expensive, which depends on the order of its items. */
export function openSnapshot(snapshot: Uint8Array): Y.Doc | undefined {
  const doc = createBoundedDocument(STEPS_MAX);
  try {
    Y.applyUpdate(doc, snapshot);
    return doc;
  } catch (thrown) {
    if (thrown instanceof Fault) return undefined;
    throw thrown;
  }
}

/** Counts the items that `Item.integrate` visits to find the position of an item, up to one beyond `max`. */
function stepsTo(item: Y.Item, offset: number, { doc: { store } }: Y.Transaction, max: number): number {
  const { id: { client, clock }, right, rightOrigin, parent, parentSub } = item;
  if (!(parent instanceof Y.AbstractType)) return 0;
  // If its beginning exists already, only the rest is integrated, after that.
  const origin = offset === 0 ? item.origin : Y.createID(client, clock + offset - 1);
  const left = offset === 0 || origin === null ? item.left : Y.getItem(store, origin);
  let at = left === null ? parentSub === null ? parent._start : parent._map.get(parentSub) ?? null : left.right;
  let steps = 0;
  // Yjs has the last value of an attribute, and searches from the first one on.
  while (left === null && parentSub !== null && at !== null && at.left !== null && steps++ <= max) at = at.left;
  if (at === null || at === right) return steps;
  const visited = new Set<Y.Item>();
  for (; at !== null && at !== right && visited.size <= max; at = at.right) {
    visited.add(at);
    const isEnd = Y.compareIDs(origin, at.origin)
      ? at.id.client >= client && Y.compareIDs(rightOrigin, at.rightOrigin)
      : at.origin === null || !visited.has(Y.getItem(store, at.origin));
    if (isEnd) break;
  }
  return steps + visited.size;
}

function mergeTooCostly(): Fault {
  return new Fault(
    "limit_reached",
    "Merging this update is too costly; make the change again, or continue in a new document",
  );
}
