// Writes nodes into the XML fragment of a rich document, changing only what differs: what stays the same keeps its place in Yjs,
// and with it the cursors and comments of others.
import { createHash } from "node:crypto";
import { diffArrays } from "diff";
import * as Y from "yjs";
import { canonicalJson } from "@/core/json.ts";
import { diffText } from "../content/text_edits.ts";
import { attributesOf, childrenOf, markName, readRuns, readType, type TextRun } from "./fragment.ts";
import { plainTextOf, type RichMark, type RichNode, type RichUnit, unitsOf } from "./node.ts";

/** Changed neighbors are matched by similarity while the pairs to compare are at most this many, and else in order. */
const PAIRS_MAX = 400;
/** A search for unchanged children ends after this many differences, and all between the first and the last are compared. */
const DIFFERENCES_MAX = 400;
/** Least similarity at which a text is changed rather than replaced. */
const SIMILAR = 0.3;

/** BlockNote's blocks each have an id. */
const ID_NODE = "blockContainer";

type YChild = Y.XmlElement | Y.XmlText;

/**
 * Makes the content of the fragment equal to `nodes`. Runs within a transaction. Ids that editors gave to nodes stay if `nodes`
 * have none, as from Markdown.
 */
export function writeFragment(fragment: Y.XmlFragment, nodes: readonly RichNode[]): void {
  new FragmentWriter(fragment, hasIds(nodes)).children(fragment, unitsOf(nodes));
}

/** Whether the nodes of a fragment are these, apart from ids that they do not name. */
export function isWritten(written: readonly RichNode[], nodes: readonly RichNode[]): boolean {
  const withIds = hasIds(nodes);
  return canonicalJson(normalForm(written, withIds)) === canonicalJson(normalForm(nodes, withIds));
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

function normalForm(nodes: readonly RichNode[], withIds: boolean): unknown {
  return nodes.map(({ type, attrs, content = [], text, marks = [] }) => ({
    type,
    text,
    attrs: withoutId(attrs, withIds),
    marks: marks.map(keyOfMark).sort(),
    content: normalForm(content, withIds),
  }));
}

function withoutId(attrs: Record<string, unknown> = {}, withIds: boolean): Record<string, unknown> {
  if (withIds || attrs.id === undefined) return attrs;
  const { id: _id, ...others } = attrs;
  return others;
}

class FragmentWriter {
  /** Equal subtrees have equal numbers. */
  readonly #ids = new Map<string, number>();
  readonly #existing = new Map<YChild, { id: number; text: string }>();
  /** Marks that have hashed names in this document. */
  readonly #hashed = new Set<string>();
  readonly #withIds: boolean;

  constructor(fragment: Y.XmlFragment, withIds: boolean) {
    this.#withIds = withIds;
    for (const child of childrenOf(fragment)) this.#register(child);
  }

  children(parent: Y.XmlFragment, target: readonly RichUnit[]): void {
    const before = childrenOf(parent);
    const beforeIds = before.map((child) => this.#existing.get(child)?.id ?? -1);
    const targetIds = target.map((unit) => this.#idOf(unit));
    // Positions among the children while they change.
    let [at, old, next] = [0, 0, 0];
    for (const { removed, added, unchanged } of changedRuns(beforeIds, targetIds)) {
      const pairs = this.#pairs(before.slice(old, old + removed), target.slice(next, next + added));
      for (const [child, unit] of pairs) {
        if (child === undefined && unit !== undefined) parent.insert(at++, [this.#create(unit)]);
        else if (child !== undefined && unit === undefined) parent.delete(at, 1);
        else if (child !== undefined && unit !== undefined) {
          this.#update(child, unit);
          at++;
        }
      }
      at += unchanged;
      old += removed + unchanged;
      next += added + unchanged;
    }
  }

  /** Which children become which units, in order; a child without a unit is deleted, a unit without a child inserted. */
  #pairs(before: readonly YChild[], target: readonly RichUnit[]): [YChild | undefined, RichUnit | undefined][] {
    const score = (child: YChild | undefined, unit: RichUnit | undefined): number => {
      if (child === undefined || unit === undefined || !isSameKind(child, unit)) return 0;
      return SIMILAR + similarity(this.#existing.get(child)?.text ?? "", textOfUnit(unit));
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

  #update(child: YChild, unit: RichUnit): void {
    if (child instanceof Y.XmlText) return this.#updateText(child, unit as readonly RichNode[]); // of the same kind
    const { attrs = {}, content = [] } = unit as RichNode; // of the same kind
    const current = attributesOf(child);
    for (const [name, value] of Object.entries(attrs)) {
      if (canonicalJson(current[name]) !== canonicalJson(value)) setAttribute(child, name, value);
    }
    for (const name of Object.keys(current)) {
      if (!Object.hasOwn(attrs, name) && (name !== "id" || this.#withIds)) child.removeAttribute(name);
    }
    this.children(child, unitsOf(content));
  }

  #updateText(text: Y.XmlText, nodes: readonly RichNode[]): void {
    const target = nodes.map((node): TextRun => ({ text: node.text ?? "", marks: this.#attributes(node.marks) }));
    const after = target.map((run) => run.text).join("");
    const before = readRuns(text).map((run) => run.text).join("");
    // From the end to the start, so that earlier offsets stay valid.
    for (const { at, remove, insert } of diffText(before, after)) {
      if (insert !== "") text.insert(at, insert);
      if (remove > 0) text.delete(at + insert.length, remove);
    }
    formatText(text, target);
  }

  #create(unit: RichUnit): YChild {
    if (!("type" in unit)) {
      const text = new Y.XmlText();
      text.applyDelta(unit.map((node) => {
        const attributes = Object.fromEntries(this.#attributes(node.marks));
        return { insert: node.text, attributes };
      }));
      return text;
    }
    const element = new Y.XmlElement(unit.type);
    for (const [name, value] of Object.entries(unit.attrs ?? {})) setAttribute(element, name, value);
    // Otherwise each editor that has it open would give it another one.
    if (unit.type === ID_NODE && unit.attrs?.id === undefined) setAttribute(element, "id", crypto.randomUUID());
    element.insert(0, unitsOf(unit.content ?? []).map((child) => this.#create(child)));
    return element;
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

  #register(child: YChild): { id: number; text: string } {
    let known: { id: number; text: string };
    if (child instanceof Y.XmlText) {
      for (const { marks } of readRuns(child)) {
        for (const name of marks.keys()) {
          if (markName(name) !== name) this.#hashed.add(markName(name));
        }
      }
      const nodes = readType(child) as RichNode[]; // of a text
      known = { id: this.#idOf(nodes), text: plainTextOf(nodes) };
    } else {
      const children = childrenOf(child).map((one) => this.#register(one));
      const key = keyOf(child.nodeName, withoutId(attributesOf(child), this.#withIds), children.map(({ id }) => id));
      known = { id: this.#number(key), text: children.map(({ text }) => text).join("") };
    }
    this.#existing.set(child, known);
    return known;
  }

  #idOf(unit: RichUnit): number {
    if (!("type" in unit)) {
      return this.#number(canonicalJson(unit.map(({ text, marks = [] }) => [text, marks.map(keyOfMark).sort()])));
    }
    const { type, attrs = {}, content = [] } = unit;
    return this.#number(keyOf(type, attrs, unitsOf(content).map((child) => this.#idOf(child))));
  }

  #number(key: string): number {
    const known = this.#ids.get(key) ?? this.#ids.size;
    this.#ids.set(key, known);
    return known;
  }
}

function keyOf(type: string, attrs: Record<string, unknown>, children: readonly number[]): string {
  return canonicalJson({ type, attrs, children });
}

function keyOfMark({ type, attrs = {} }: RichMark): string {
  return canonicalJson([type, attrs]);
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

/** Changes the formatting of a text where it differs; its characters are those of `target`. */
function formatText(text: Y.XmlText, target: readonly TextRun[]): void {
  const current = readRuns(text);
  const changes: { at: number; length: number; marks: Record<string, unknown> }[] = [];
  let [at, i, j, inCurrent, inTarget] = [0, 0, 0, 0, 0];
  for (let [a, b] = [current[0], target[0]]; a !== undefined && b !== undefined; [a, b] = [current[i], target[j]]) {
    const length = Math.min(a.text.length - inCurrent, b.text.length - inTarget);
    const marks: Record<string, unknown> = {};
    for (const name of a.marks.keys()) if (!b.marks.has(name)) marks[name] = null;
    for (const [name, value] of b.marks) {
      if (canonicalJson(a.marks.get(name)) !== canonicalJson(value)) marks[name] = value;
    }
    if (length > 0 && Object.keys(marks).length > 0) changes.push({ at, length, marks });
    at += length;
    inCurrent += length;
    inTarget += length;
    if (inCurrent >= a.text.length) [i, inCurrent] = [i + 1, 0];
    if (inTarget >= b.text.length) [j, inTarget] = [j + 1, 0];
  }
  for (const change of changes.reverse()) text.format(change.at, change.length, change.marks);
}

function isSameKind(child: YChild, unit: RichUnit): boolean {
  return child instanceof Y.XmlText ? !("type" in unit) : "type" in unit && unit.type === child.nodeName;
}

function textOfUnit(unit: RichUnit): string {
  return plainTextOf("type" in unit ? [unit] : unit);
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
