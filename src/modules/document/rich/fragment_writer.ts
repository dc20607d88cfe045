// Writes nodes into the XML fragment of a rich document, changing only what differs: what stays the same keeps its place in Yjs,
// and with it the cursors and comments of others.
import { createHash } from "node:crypto";
import { diffArrays } from "diff";
import * as Y from "yjs";
import type { Steps } from "@/core/caller.ts";
import { canonicalJson } from "@/core/json.ts";
import { DiffBudget } from "../content/text_edits.ts";
import { attributesOf, childrenOf, markName, readRuns, readType } from "./fragment.ts";
import { plainTextOf, type RichMark, type RichNode, type RichUnit, unitsOf } from "./node.ts";
import { writeText } from "./text_writer.ts";

/** Changed neighbors are matched by similarity while the pairs to compare are at most this many, and else in order. */
const PAIRS_MAX = 400;
/** A search for unchanged children ends after this many differences, and all between the first and the last are compared. */
const DIFFERENCES_MAX = 400;
/** Least similarity at which a text is changed rather than replaced. */
const SIMILAR = 0.3;

/** The texts of a document are compared as thoroughly as so many texts by themselves. */
const BUDGET_FACTOR = 4;
/** Characters of a text that are compared: of a longer one, half of them from its start and half from its end. */
const EXCERPT_MAX = 2000;

/** BlockNote's blocks each have an id. */
const ID_NODE = "blockContainer";

type YChild = Y.XmlElement | Y.XmlText;
/** A subtree: equal ones have equal numbers. `text` is what its text starts and ends with. */
type Known = { id: number; text: string };

const NO_ATTRIBUTES: Readonly<Record<string, never>> = {};
const NO_MARKS: readonly string[] = [];

/**
 * Makes the content of the fragment equal to `nodes`, step by step, each within a transaction. Ids that editors gave to nodes stay
 * if `nodes` have none, as from Markdown.
 */
export function* writeFragment(fragment: Y.XmlFragment, nodes: readonly RichNode[]): Steps {
  yield* new FragmentWriter(fragment, hasIds(nodes)).write(nodes);
}

/** Whether the nodes of a fragment are these, apart from ids that they do not name. */
export function isWritten(written: readonly RichNode[], nodes: readonly RichNode[]): boolean {
  return areEqual(written, nodes, hasIds(nodes));
}

function areEqual(a: readonly RichNode[] = [], b: readonly RichNode[] = [], withIds: boolean): boolean {
  return a.length === b.length && a.every((node, at) => {
    const other = b[at];
    return other !== undefined && node.type === other.type && node.text === other.text &&
      isSameJson(withoutId(node.attrs, withIds), withoutId(other.attrs, withIds)) &&
      isSameJson(keysOfMarks(node.marks), keysOfMarks(other.marks)) && areEqual(node.content, other.content, withIds);
  });
}

function isSameJson(a: unknown, b: unknown): boolean {
  return a === b || canonicalJson(a) === canonicalJson(b);
}

/** Nodes with an id in each block of BlockNote, if any of them has one; otherwise `writeFragment` leaves or creates them. */
export function completeIds(nodes: readonly RichNode[]): readonly RichNode[] {
  const complete = (node: RichNode): RichNode => {
    const { type, attrs, content } = node;
    const completed = content === undefined ? node : { ...node, content: content.map(complete) };
    if (type !== ID_NODE || attrs?.id !== undefined) return completed;
    return { ...completed, attrs: { ...attrs, id: crypto.randomUUID() } };
  };
  return hasIds(nodes) ? nodes.map(complete) : nodes;
}

function hasIds(nodes: readonly RichNode[]): boolean {
  return nodes.some(({ attrs, content }) => attrs?.id !== undefined || (content !== undefined && hasIds(content)));
}

function withoutId(attrs: Record<string, unknown> = NO_ATTRIBUTES, withIds: boolean): Record<string, unknown> {
  if (withIds || attrs.id === undefined) return attrs;
  const { id: _id, ...others } = attrs;
  return others;
}

class FragmentWriter {
  readonly #fragment: Y.XmlFragment;
  readonly #ids = new Map<string, number>();
  readonly #existing = new Map<YChild, Known>();
  readonly #target = new Map<RichUnit, Known>();
  readonly #units = new Map<RichNode, readonly RichUnit[]>();
  /** Marks that have hashed names in this document. */
  readonly #hashed = new Set<string>();
  readonly #withIds: boolean;
  readonly #budget = new DiffBudget(BUDGET_FACTOR);

  constructor(fragment: Y.XmlFragment, withIds: boolean) {
    this.#fragment = fragment;
    this.#withIds = withIds;
  }

  *write(nodes: readonly RichNode[]): Steps {
    for (const child of childrenOf(this.#fragment)) yield* this.#register(child);
    const units = unitsOf(nodes);
    for (const unit of units) yield* this.#describe(unit);
    yield* this.#children(this.#fragment, units);
  }

  *#children(parent: Y.XmlFragment, target: readonly RichUnit[]): Steps {
    const before = childrenOf(parent);
    const beforeIds = before.map((child) => this.#existing.get(child)?.id ?? -1);
    const targetIds = target.map((unit) => this.#target.get(unit)?.id ?? -1);
    // By neighbors, not by indexes: Yjs would search for each from the first child on.
    let last: YChild | null = null;
    let [old, next] = [0, 0];
    const runs = changedRuns(beforeIds, targetIds);
    yield before.length + target.length;
    for (const { removed, added, unchanged } of runs) {
      const pairs = this.#pairs(before.slice(old, old + removed), target.slice(next, next + added));
      for (const [child, unit] of pairs) {
        if (unit === undefined) this.#delete(child);
        else if (child === undefined) last = yield* this.#insert(parent, last, unit);
        else {
          yield* this.#update(child, unit);
          last = child;
        }
        yield;
      }
      old += removed + unchanged;
      next += added + unchanged;
      if (unchanged > 0) last = before[old - 1] ?? last;
    }
  }

  /** Which children become which units, in order; a child without a unit is deleted, a unit without a child inserted. */
  #pairs(before: readonly YChild[], target: readonly RichUnit[]): [YChild | undefined, RichUnit | undefined][] {
    const score = (child: YChild | undefined, unit: RichUnit | undefined): number => {
      if (child === undefined || unit === undefined || !isSameKind(child, unit)) return 0;
      return SIMILAR + similarity(this.#existing.get(child)?.text ?? "", this.#target.get(unit)?.text ?? "");
    };
    const pairs: [YChild | undefined, RichUnit | undefined][] = [];
    if (before.length === target.length || before.length * target.length > PAIRS_MAX) {
      for (let at = 0; at < Math.max(before.length, target.length); at++) {
        const [child, unit] = [before[at], target[at]];
        if (score(child, unit) > 0) pairs.push([child, unit]);
        else pairs.push([child, undefined], [undefined, unit]);
      }
      return pairs.filter(([child, unit]) => child !== undefined || unit !== undefined);
    }
    // The pairs with the largest similarity in total that keep the order: best[i][j] is that of the rest from i and j on.
    const best = Array.from({ length: before.length + 1 }, () => new Array<number>(target.length + 1).fill(0));
    const bestAt = (i: number, j: number): number => best[i]?.[j] ?? 0;
    for (let i = before.length - 1; i >= 0; i--) {
      for (let j = target.length - 1; j >= 0; j--) {
        const paired = score(before[i], target[j]);
        const row = best[i] ?? [];
        row[j] = Math.max(bestAt(i + 1, j), bestAt(i, j + 1), paired === 0 ? 0 : paired + bestAt(i + 1, j + 1));
      }
    }
    let [i, j] = [0, 0];
    while (i < before.length || j < target.length) {
      const paired = score(before[i], target[j]);
      if (paired > 0 && bestAt(i, j) === paired + bestAt(i + 1, j + 1)) pairs.push([before[i++], target[j++]]);
      else if (i < before.length && (j === target.length || bestAt(i, j) === bestAt(i + 1, j))) {
        pairs.push([before[i++], undefined]);
      } else pairs.push([undefined, target[j++]]);
    }
    return pairs;
  }

  *#update(child: YChild, unit: RichUnit): Steps {
    if (child instanceof Y.XmlText) return yield* this.#writeText(child, unit);
    const { attrs = {} } = unit as RichNode; // of the same kind
    const current = attributesOf(child);
    for (const [name, value] of Object.entries(attrs)) {
      if (canonicalJson(current[name]) === canonicalJson(value)) continue;
      setAttribute(child, name, value);
      yield;
    }
    for (const name of Object.keys(current)) {
      if (Object.hasOwn(attrs, name) || (name === "id" && !this.#withIds)) continue;
      child.removeAttribute(name);
      yield;
    }
    yield* this.#children(child, this.#unitsOf(unit as RichNode));
  }

  *#writeText(text: Y.XmlText, unit: RichUnit): Steps {
    const nodes = unit as readonly RichNode[]; // of the same kind
    const runs = nodes.map((node) => ({ text: node.text ?? "", marks: this.#attributes(node.marks) }));
    yield* writeText(text, runs, this.#budget);
  }

  /** A new child after another one, or before all. */
  *#insert(parent: Y.XmlFragment, last: YChild | null, unit: RichUnit): Steps<YChild> {
    if (!("type" in unit)) {
      const text = new Y.XmlText();
      parent.insertAfter(last, [text]);
      yield* this.#writeText(text, unit);
      return text;
    }
    const element = new Y.XmlElement(unit.type);
    parent.insertAfter(last, [element]);
    for (const [name, value] of Object.entries(unit.attrs ?? {})) {
      setAttribute(element, name, value);
      yield;
    }
    // Otherwise each editor that has it open would give it another one.
    if (unit.type === ID_NODE && unit.attrs?.id === undefined) setAttribute(element, "id", crypto.randomUUID());
    let previous: YChild | null = null;
    for (const one of this.#unitsOf(unit)) previous = yield* this.#insert(element, previous, one);
    yield;
    return element;
  }

  #delete(child: YChild | undefined): void {
    const { doc } = this.#fragment;
    if (doc !== null) Y.transact(doc, (transaction) => child?._item?.delete(transaction));
  }

  /** Marks by their names in Yjs: hashed where one text has several of a type, as editors name those. */
  #attributes(marks: readonly RichMark[] = []): ReadonlyMap<string, unknown> {
    const named = new Map<string, unknown>();
    for (const { type, attrs = {} } of marks) {
      const isHashed = this.#hashed.has(type) || marks.filter((mark) => mark.type === type).length > 1;
      named.set(isHashed ? `${type}--${hashOf({ type, attrs })}` : type, attrs);
    }
    return named;
  }

  *#register(child: YChild): Steps<Known> {
    let known: Known;
    let size = 1;
    if (child instanceof Y.XmlText) {
      for (const { marks } of readRuns(child)) {
        for (const name of marks.keys()) {
          if (markName(name) !== name) this.#hashed.add(markName(name));
        }
      }
      const nodes = readType(child) as RichNode[]; // of a text
      known = this.#knownText(nodes);
      size += nodes.length;
    } else {
      const children: Known[] = [];
      for (const one of childrenOf(child)) children.push(yield* this.#register(one));
      known = this.#knownElement(child.nodeName, withoutId(attributesOf(child), this.#withIds), children);
    }
    this.#existing.set(child, known);
    yield size;
    return known;
  }

  *#describe(unit: RichUnit): Steps<Known> {
    let known: Known;
    if (!("type" in unit)) known = this.#knownText(unit);
    else {
      const children: Known[] = [];
      for (const one of this.#unitsOf(unit)) children.push(yield* this.#describe(one));
      known = this.#knownElement(unit.type, unit.attrs ?? {}, children);
    }
    this.#target.set(unit, known);
    yield "type" in unit ? 1 : unit.length;
    return known;
  }

  /** The same units each time, since what is known of them is found by them. */
  #unitsOf(node: RichNode): readonly RichUnit[] {
    const units = this.#units.get(node) ?? unitsOf(node.content ?? []);
    this.#units.set(node, units);
    return units;
  }

  #knownText(nodes: readonly RichNode[]): Known {
    const id = this.#number(canonicalJson(nodes.map(({ text, marks }) => [text, keysOfMarks(marks)])));
    return { id, text: excerptOf(plainTextOf(nodes)) };
  }

  #knownElement(type: string, attrs: Record<string, unknown>, children: readonly Known[]): Known {
    const id = this.#number(canonicalJson({ type, attrs, children: children.map((child) => child.id) }));
    return { id, text: excerptOf(children.map(({ text }) => text).join("")) };
  }

  #number(key: string): number {
    const known = this.#ids.get(key) ?? this.#ids.size;
    this.#ids.set(key, known);
    return known;
  }
}

/** The marks of a text, in whatever order it has them. */
function keysOfMarks(marks: readonly RichMark[] = []): readonly string[] {
  if (marks.length === 0) return NO_MARKS;
  return marks.map(({ type, attrs = NO_ATTRIBUTES }) => canonicalJson([type, attrs])).sort();
}

function excerptOf(text: string): string {
  return text.length <= EXCERPT_MAX ? text : text.slice(0, EXCERPT_MAX / 2) + text.slice(-EXCERPT_MAX / 2);
}

/** Runs of changed children, each with the number of unchanged ones after it. */
function changedRuns(
  before: readonly number[],
  target: readonly number[],
): { removed: number; added: number; unchanged: number }[] {
  let head = 0;
  const most = Math.min(before.length, target.length);
  while (head < most && before[head] === target[head]) head++;
  let tail = 0;
  while (tail < most - head && before.at(-1 - tail) === target.at(-1 - tail)) tail++;
  const [a, b] = [before.slice(head, before.length - tail), target.slice(head, target.length - tail)];
  const runs = [{ removed: 0, added: 0, unchanged: head }];
  const differences = diffArrays(a, b, { maxEditLength: DIFFERENCES_MAX });
  if (differences === undefined) runs.push({ removed: a.length, added: b.length, unchanged: 0 });
  for (const { added, removed, count } of differences ?? []) {
    let last = runs.at(-1);
    if (last === undefined || last.unchanged > 0) runs.push(last = { removed: 0, added: 0, unchanged: 0 });
    if (added) last.added += count;
    else if (removed) last.removed += count;
    else last.unchanged += count;
  }
  runs.push({ removed: 0, added: 0, unchanged: tail });
  return runs;
}

function isSameKind(child: YChild, unit: RichUnit): boolean {
  return child instanceof Y.XmlText ? !("type" in unit) : "type" in unit && unit.type === child.nodeName;
}

/** How much of two texts is their common start and end, from 0 to 1. */
function similarity(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let head = 0;
  while (head < most && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < most - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  return (head + tail) / Math.max(a.length, b.length, 1);
}

function setAttribute(element: Y.XmlElement, name: string, value: unknown): void {
  // The type says text, but editors store any JSON.
  element.setAttribute(name, value as string);
}

function hashOf(mark: unknown): string {
  return createHash("sha256").update(canonicalJson(mark)).digest().subarray(0, 6).toString("base64");
}
