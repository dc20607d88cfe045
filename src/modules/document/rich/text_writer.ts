// Writes one text of a rich document, changing only the characters and the formatting that differ. All changes are applied in passes
// over the text: for each by its index, Yjs would search from the first character on.
import type * as Y from "yjs";
import type { Steps } from "@/core/caller.ts";
import { canonicalJson } from "@/core/json.ts";
import { type DiffBudget, diffText, type Splice } from "../content/text_edits.ts";
import { readRuns, type TextRun } from "./fragment.ts";

/** Characters that are compared in one step. */
const STEP_CHARS = 50;
/** Changes that are applied in one step. */
const STEP_CHANGES = 200;

type Delta = { retain?: number; insert?: string; delete?: number; attributes?: Record<string, unknown> };

/** Makes a text equal to `target`, whose marks have the names that they have in Yjs. */
export function* writeText(text: Y.XmlText, target: readonly TextRun[], budget: DiffBudget): Steps {
  const before = readRuns(text).map((run) => run.text).join("");
  const after = target.map((run) => run.text).join("");
  const splices = diffText(before, after, budget);
  yield target.length + Math.ceil((before.length + after.length) / STEP_CHARS);
  yield* applyDelta(text, spliceDelta(splices, target));
  const changes = formatDelta(readRuns(text), target);
  yield target.length;
  yield* applyDelta(text, changes);
}

function* applyDelta(text: Y.XmlText, delta: readonly Delta[]): Steps {
  let at = 0;
  for (let from = 0; from < delta.length; from += STEP_CHANGES) {
    const part = delta.slice(from, from + STEP_CHANGES);
    text.applyDelta(at === 0 ? part : [retain(at), ...part]);
    for (const { retain = 0, insert = "" } of part) at += retain + insert.length;
    yield part.length;
  }
}

/** Splices, which are ordered from the end to the start; what they insert is formatted as in the target. */
function spliceDelta(splices: readonly Splice[], target: readonly TextRun[]): Delta[] {
  const delta: Delta[] = [];
  const runs = new RunReader(target);
  let at = 0;
  for (const splice of splices.toReversed()) {
    const kept = splice.at - at;
    if (kept > 0) delta.push(retain(kept));
    runs.take(kept);
    // Inserts first, so that text typed concurrently after the old text follows the new one.
    for (const { text, marks } of runs.take(splice.insert.length)) {
      delta.push({ insert: text, attributes: toAttributes(marks) });
    }
    if (splice.remove > 0) delta.push({ delete: splice.remove });
    at = splice.at + splice.remove;
  }
  return delta;
}

/** Changes of formatting where it differs; the characters are those of `target`. */
function formatDelta(current: readonly TextRun[], target: readonly TextRun[]): Delta[] {
  const delta: Delta[] = [];
  const runs = new RunReader(target);
  let kept = 0;
  for (const { text, marks } of current) {
    for (const run of runs.take(text.length)) {
      const changed = new Map<string, unknown>();
      for (const name of marks.keys()) if (!run.marks.has(name)) changed.set(name, null);
      for (const [name, value] of run.marks) {
        if (canonicalJson(marks.get(name)) !== canonicalJson(value)) changed.set(name, value);
      }
      if (changed.size === 0) kept += run.text.length;
      else {
        if (kept > 0) delta.push(retain(kept));
        delta.push(retain(run.text.length, changed));
        kept = 0;
      }
    }
  }
  return delta;
}

/** Reads the runs of a text in pieces. */
class RunReader {
  readonly #runs: readonly TextRun[];
  #at = 0;
  #offset = 0;

  constructor(runs: readonly TextRun[]) {
    this.#runs = runs;
  }

  /** The runs of the next `length` characters. */
  take(length: number): TextRun[] {
    const taken: TextRun[] = [];
    let left = length;
    for (let run = this.#runs[this.#at]; left > 0 && run !== undefined; run = this.#runs[this.#at]) {
      const text = run.text.slice(this.#offset, this.#offset + left);
      if (text !== "") taken.push({ text, marks: run.marks });
      left -= text.length;
      this.#offset += text.length;
      if (this.#offset >= run.text.length) [this.#at, this.#offset] = [this.#at + 1, 0];
    }
    return taken;
  }
}

function retain(length: number, marks?: ReadonlyMap<string, unknown>): Delta {
  return { retain: length, attributes: toAttributes(marks) };
}

/** Attributes for Yjs, which looks names of marks up in them: editors may choose one that every object inherits. */
function toAttributes(marks: ReadonlyMap<string, unknown> = new Map()): Record<string, unknown> {
  const attributes: Record<string, unknown> = Object.create(null);
  for (const [name, value] of marks) attributes[name] = value;
  return attributes;
}
