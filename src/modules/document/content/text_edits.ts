// Plans edits of plain text as splices, independent of the CRDT.
import { diffArrays } from "diff";
import type { Steps } from "@/core/caller.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { PLACES_MAX, TEXT_MAX_BYTES } from "../limits.ts";
import type { Anchor } from "../schema.ts";
import type { Edit } from "./schema.ts";

/** Replaces `remove` UTF-16 units at `at` by `insert`. */
export type Splice = { at: number; remove: number; insert: string };

/** Steps of the diffs of lines and of words; beyond them, the changed part is replaced as a whole. */
const STEPS_MAX = 5_000_000;
/** Continuing from an earlier edit takes as long as this many comparisons. */
const STEPS_PER_EDIT = 16;
/** Runs of lines up to this long are compared word by word. */
const WORD_DIFF_MAX = 20_000;
/** Up to this length, the native search is linear; for longer texts it may be quadratic. */
const NATIVE_SEARCH_MAX = 250;

/** Splices of a text, and the resulting text. */
export type EditPlan = { splices: readonly Splice[]; text: string };

/** Steps that diffs have left. Texts that change together share them. */
export class DiffBudget {
  lines: number;
  words: number;

  constructor(factor = 1) {
    this.lines = this.words = factor * STEPS_MAX;
  }
}

export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

export function textTooLong(): Fault {
  return new Fault("payload_too_large", `The text of a document may have at most ${TEXT_MAX_BYTES} bytes`);
}

/** The text after splices, which are ordered from its end to its start. */
export function applySplices(text: string, splices: readonly Splice[]): string {
  const pieces: string[] = [];
  let end = text.length;
  for (const { at, remove, insert } of splices) {
    pieces.push(text.slice(at + remove, end), insert);
    end = at;
  }
  return text.slice(0, end) + pieces.reverse().join("");
}

/** Plans edits; throws `edit_not_matched` or `edit_ambiguous` with the index of the edit, and bounds the growth of the text. */
export function* planEdits(before: string, edits: readonly Edit[]): Steps<EditPlan> {
  const splices: Splice[] = [];
  let text = before;
  for (const [index, edit] of edits.entries()) {
    const added = planEdit(text, edit, index);
    if (splices.length + added.length > PLACES_MAX) {
      throw new Fault("limit_reached", `Edits may change at most ${PLACES_MAX} places in total`);
    }
    const length = added.reduce((sum, { remove, insert }) => sum + insert.length - remove, text.length);
    if (length > TEXT_MAX_BYTES) throw textTooLong();
    text = applySplices(text, added);
    splices.push(...added);
    yield;
  }
  return { splices, text };
}

function planEdit(text: string, edit: Edit, index: number): Splice[] {
  if (edit.op === "append") return [{ at: text.length, remove: 0, insert: edit.text }];
  if (edit.op === "prepend") return [{ at: 0, remove: 0, insert: edit.text }];
  if (edit.op !== "replace" && edit.op !== "insert_after") {
    throw invalidField(`/edits/${index}/op`, "blocks can be edited in rich documents only");
  }
  const { find, occurrence } = edit;
  const matches = findOccurrences(text, find, occurrence);
  const fault = (code: "edit_not_matched" | "edit_ambiguous", detail: string): Fault =>
    Fault.forField(`/edits/${index}/find`, code, detail, code);
  if (matches.length === 0) throw fault("edit_not_matched", "the document has no such text");
  if (occurrence === "only" && indexOf(text, find, (matches[0] ?? 0) + 1) >= 0) {
    throw fault(
      "edit_ambiguous",
      "the text occurs more than once in the document; quote more of it, or set occurrence",
    );
  }
  // From the end, so that earlier offsets stay valid.
  return matches.reverse().flatMap((at) =>
    edit.op === "replace"
      ? minimalSplice(at, find, edit.with) ?? []
      : { at: at + find.length, remove: 0, insert: edit.text }
  );
}

/** Where a text occurs; for an occurrence that is not `all`, only the first place. */
export function findOccurrences(text: string, find: string, occurrence: "only" | "first" | "all"): number[] {
  const matches: number[] = [];
  for (let at = indexOf(text, find, 0); at >= 0; at = indexOf(text, find, at + find.length)) {
    matches.push(at);
    if (occurrence !== "all" || matches.length > PLACES_MAX) break;
  }
  return matches;
}

/** The index of `pattern` in `text` from `start` on, or -1, in linear time for all inputs. */
export function indexOf(text: string, pattern: string, start: number): number {
  if (pattern.length <= NATIVE_SEARCH_MAX) return text.indexOf(pattern, start);
  // Knuth-Morris-Pratt; the length of the longest border of each prefix.
  const borders = new Int32Array(pattern.length);
  let matched = 0;
  for (let at = 1; at < pattern.length; at++) {
    while (matched > 0 && pattern.charCodeAt(at) !== pattern.charCodeAt(matched)) matched = borders[matched - 1] ?? 0;
    if (pattern.charCodeAt(at) === pattern.charCodeAt(matched)) matched++;
    borders[at] = matched;
  }
  matched = 0;
  for (let at = start; at < text.length; at++) {
    while (matched > 0 && text.charCodeAt(at) !== pattern.charCodeAt(matched)) matched = borders[matched - 1] ?? 0;
    if (text.charCodeAt(at) === pattern.charCodeAt(matched)) matched++;
    if (matched === pattern.length) return at - matched + 1;
  }
  return -1;
}

/** The range of an anchor; throws `anchor_not_found` if it is missing or ambiguous. */
export function requireAnchor(text: string, { text: quote, prefix = "", suffix = "" }: Anchor): Splice {
  const whole = prefix + quote + suffix;
  const at = indexOf(text, whole, 0);
  const next = at < 0 ? -1 : indexOf(text, whole, at + 1);
  if (at < 0 || next >= 0) {
    const detail = at < 0
      ? "the document has no such text"
      : "the text occurs more than once in the document; give a prefix or suffix";
    throw Fault.forField("/anchor", "anchor_not_found", detail, "anchor_not_found");
  }
  return { at: at + prefix.length, remove: quote.length, insert: "" };
}

/**
 * Splices from `before` to `after` that do not touch common text, ordered from the end to the start. Compares lines, and the
 * words of changed lines, because a paragraph of Markdown is one line.
 */
export function diffText(before: string, after: string, budget: DiffBudget = new DiffBudget()): Splice[] {
  if (before === after) return [];
  const splices: Splice[] = [];
  let at = 0;
  const lines = diffRuns(linesOf(before), linesOf(after), Math.min(budget.lines, STEPS_MAX));
  budget.lines -= lines.steps;
  for (const run of lines.runs) {
    let runs: readonly DiffRun[] = [run];
    if (run.removed.length <= WORD_DIFF_MAX && run.inserted.length <= WORD_DIFF_MAX) {
      const words = diffRuns(wordsOf(run.removed), wordsOf(run.inserted), Math.min(budget.words, STEPS_MAX));
      budget.words -= words.steps;
      runs = wordRuns(run, words.runs);
    }
    for (const { removed, inserted, unchanged } of runs) {
      const splice = minimalSplice(at, removed, inserted);
      if (splice !== undefined) splices.push(splice);
      at += removed.length + unchanged.length;
    }
  }
  return splices.reverse();
}

type DiffRun = { removed: string; inserted: string; unchanged: string };

/** Replaces a run of changed lines by its changed words, unless few words are unchanged. */
function wordRuns(run: DiffRun, words: readonly DiffRun[]): readonly DiffRun[] {
  const unchanged = words.reduce((sum, word) => sum + word.unchanged.length, 0);
  if (unchanged * 2 < Math.max(run.removed.length, run.inserted.length)) return [run];
  return [...words, { removed: "", inserted: "", unchanged: run.unchanged }];
}

/** Runs of changed pieces, each with the unchanged ones after it, and an upper bound of the steps. */
function diffRuns(a: string[], b: string[], stepsMax: number): { runs: DiffRun[]; steps: number } {
  const pieces = a.length + b.length;
  const maxEditLength = Math.floor(Math.min(stepsMax / pieces, Math.sqrt(stepsMax / STEPS_PER_EDIT)));
  // In the worst case, each edit visits all pieces and all earlier edits.
  const stepsOf = (edits: number): number => edits * Math.max(pieces, edits * STEPS_PER_EDIT);
  const changes = diffArrays(a, b, { maxEditLength });
  if (changes === undefined) {
    return { runs: [{ removed: a.join(""), inserted: b.join(""), unchanged: "" }], steps: stepsOf(maxEditLength) };
  }
  const runs: DiffRun[] = [];
  let run: DiffRun = { removed: "", inserted: "", unchanged: "" };
  let edits = 0;
  for (const { value, added, removed, count } of changes) {
    const text = value.join("");
    if (added || removed) edits += count;
    if (added) run.inserted += text;
    else if (removed) run.removed += text;
    else {
      runs.push({ ...run, unchanged: text });
      run = { removed: "", inserted: "", unchanged: "" };
    }
  }
  return { runs: [...runs, run], steps: stepsOf(edits) };
}

/** Replaces `removed` at `at` except for its common prefix and suffix, without splitting surrogate pairs. */
function minimalSplice(at: number, removed: string, inserted: string): Splice | undefined {
  if (removed === inserted) return undefined;
  const most = Math.min(removed.length, inserted.length);
  let head = 0;
  while (head < most && removed[head] === inserted[head]) head++;
  if (head > 0 && isHigh(removed, head - 1)) head--;
  let tail = 0;
  while (tail < most - head && removed.at(-1 - tail) === inserted.at(-1 - tail)) tail++;
  if (tail > 0 && isLow(removed, removed.length - tail)) tail--;
  return { at: at + head, remove: removed.length - head - tail, insert: inserted.slice(head, inserted.length - tail) };
}

function linesOf(text: string): string[] {
  return text.match(/[^\n]+\n?|\n/g) ?? [];
}

/** Words and punctuation, each with the whitespace after it. */
function wordsOf(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+\s*|[^\p{L}\p{N}_]\s*/gu) ?? [];
}

function isHigh(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800;
}

function isLow(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00;
}
