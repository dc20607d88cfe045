// Edits of plain text: from what was asked to splices, without knowing where the text lives.
import { Fault } from "@/core/fault.ts";
import { type Anchor, type Edit, PLACES_MAX, TEXT_MAX_BYTES } from "./schema.ts";

/** Put `insert` in the place of the `remove` UTF-16 units at `at`. */
export type Splice = { at: number; remove: number; insert: string };

/** Lines compared with lines at most, and words with words; beyond that the changed middle is replaced as a whole. */
const COMPARISONS_MAX = 1_000_000;
/** Runs of lines up to this long are compared word by word. */
const WORDS_OF_MAX = 20_000;
/** Texts up to this long are found in linear time by the engine's own search; longer ones it may compare over and over. */
const NATIVE_SEARCH_MAX = 250;

/** What to do with a text, and what comes of it. */
export type Change = { splices: readonly Splice[]; text: string };

export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

export function tooLong(): Fault {
  return new Fault("payload_too_large", `The text of a document has at most ${TEXT_MAX_BYTES} bytes`);
}

/** The text after splices that go from its end to its start. */
export function spliced(text: string, splices: readonly Splice[]): string {
  const pieces: string[] = [];
  let end = text.length;
  for (const { at, remove, insert } of splices) {
    pieces.push(text.slice(at + remove, end), insert);
    end = at;
  }
  return text.slice(0, end) + pieces.reverse().join("");
}

/** What edits do; throws `edit_not_matched` or `edit_ambiguous`, naming the edit, and refuses what would grow too far. */
export function changeOf(before: string, edits: readonly Edit[]): Change {
  const splices: Splice[] = [];
  let text = before;
  for (const [index, edit] of edits.entries()) {
    const added = splicesOfEdit(text, edit, index);
    if (splices.length + added.length > PLACES_MAX) {
      throw new Fault("limit_reached", `Edits change at most ${PLACES_MAX} places together`);
    }
    const length = added.reduce((sum, { remove, insert }) => sum + insert.length - remove, text.length);
    if (length > TEXT_MAX_BYTES) throw tooLong();
    text = spliced(text, added);
    splices.push(...added);
  }
  return { splices, text };
}

function splicesOfEdit(text: string, edit: Edit, index: number): Splice[] {
  if (edit.op === "append") return [{ at: text.length, remove: 0, insert: edit.text }];
  if (edit.op === "prepend") return [{ at: 0, remove: 0, insert: edit.text }];
  const { find, occurrence } = edit;
  const places = placesOf(text, find, occurrence);
  const fault = (code: "edit_not_matched" | "edit_ambiguous", detail: string): Fault =>
    Fault.at(`/edits/${index}/find`, code, detail, code);
  if (places.length === 0) throw fault("edit_not_matched", "The text is not in the document");
  if (occurrence === "only" && indexOf(text, find, (places[0] ?? 0) + 1) >= 0) {
    throw fault("edit_ambiguous", "The text is in the document more than once; give more of it, or say which");
  }
  // From the end, so that places found before stay right.
  return places.reverse().flatMap((at) =>
    edit.op === "replace" ? trimmed(at, find, edit.with) ?? [] : { at: at + find.length, remove: 0, insert: edit.text }
  );
}

function placesOf(text: string, find: string, occurrence: "only" | "first" | "all"): number[] {
  const places: number[] = [];
  for (let at = indexOf(text, find, 0); at >= 0; at = indexOf(text, find, at + find.length)) {
    places.push(at);
    if (occurrence !== "all" || places.length > PLACES_MAX) break;
  }
  return places;
}

/** Where `part` is in `text` from `start` on, or -1; whatever they hold, in time that only grows with their lengths. */
function indexOf(text: string, part: string, start: number): number {
  if (part.length <= NATIVE_SEARCH_MAX) return text.indexOf(part, start);
  // Knuth, Morris and Pratt: how much of what matched so far is again a beginning of the part.
  const again = new Int32Array(part.length);
  let matched = 0;
  for (let at = 1; at < part.length; at++) {
    while (matched > 0 && part.charCodeAt(at) !== part.charCodeAt(matched)) matched = again[matched - 1] ?? 0;
    if (part.charCodeAt(at) === part.charCodeAt(matched)) matched++;
    again[at] = matched;
  }
  matched = 0;
  for (let at = start; at < text.length; at++) {
    while (matched > 0 && text.charCodeAt(at) !== part.charCodeAt(matched)) matched = again[matched - 1] ?? 0;
    if (text.charCodeAt(at) === part.charCodeAt(matched)) matched++;
    if (matched === part.length) return at - matched + 1;
  }
  return -1;
}

/** Where an anchor is; throws `anchor_not_found`, also when it could be in several places. */
export function findAnchor(text: string, { text: quote, prefix = "", suffix = "" }: Anchor): Splice {
  const whole = prefix + quote + suffix;
  const at = indexOf(text, whole, 0);
  const again = at < 0 ? -1 : indexOf(text, whole, at + 1);
  if (at < 0 || again >= 0) {
    const detail = at < 0
      ? "The text is not in the document"
      : "The text is in the document more than once; give a prefix or a suffix";
    throw Fault.at("/anchor", "anchor_not_found", detail, "anchor_not_found");
  }
  return { at: at + prefix.length, remove: quote.length, insert: "" };
}

/**
 * Splices that turn `before` into `after` and leave alone what is in both, from the end to the start: whole lines, and in
 * changed ones the words, as a paragraph of Markdown is one line.
 */
export function difference(before: string, after: string): Splice[] {
  if (before === after) return [];
  const splices: Splice[] = [];
  let at = 0;
  let comparisons = COMPARISONS_MAX;
  for (const run of runsOf(linesOf(before), linesOf(after), COMPARISONS_MAX)) {
    let runs: readonly Run[] = [run];
    if (comparisons > 0 && run.removed.length <= WORDS_OF_MAX && run.inserted.length <= WORDS_OF_MAX) {
      const [removed, inserted] = [wordsOf(run.removed), wordsOf(run.inserted)];
      runs = wordRuns(run, runsOf(removed, inserted, comparisons));
      comparisons -= removed.length * inserted.length;
    }
    for (const { removed, inserted, kept } of runs) {
      const splice = trimmed(at, removed, inserted);
      if (splice !== undefined) splices.push(splice);
      at += removed.length + kept.length;
    }
  }
  return splices.reverse();
}

type Run = { removed: string; inserted: string; kept: string };

/** The words that change in a run of lines, with the unchanged lines after it; the run where few words would be left of it. */
function wordRuns(run: Run, words: readonly Run[]): readonly Run[] {
  const kept = words.reduce((sum, word) => sum + word.kept.length, 0);
  if (kept * 2 < Math.max(run.removed.length, run.inserted.length)) return [run];
  return [...words, { removed: "", inserted: "", kept: run.kept }];
}

/** Runs of changed pieces, each with the unchanged ones after it; the first may have changed nothing. */
function runsOf(a: readonly string[], b: readonly string[], comparisonsMax: number): Run[] {
  const head = commonLength(a, b, Math.min(a.length, b.length), (list, at) => list[at]);
  const tail = commonLength(a, b, Math.min(a.length, b.length) - head, (list, at) => list[list.length - 1 - at]);
  const runs = changedRuns(a.slice(head, a.length - tail), b.slice(head, b.length - tail), comparisonsMax);
  const last = { removed: "", inserted: "", kept: a.slice(a.length - tail).join("") };
  return [{ removed: "", inserted: "", kept: a.slice(0, head).join("") }, ...runs, last];
}

/** The same by the longest common subsequence, where that is affordable. */
function changedRuns(a: readonly string[], b: readonly string[], comparisonsMax: number): Run[] {
  if (a.length * b.length > comparisonsMax) return [{ removed: a.join(""), inserted: b.join(""), kept: "" }];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  const length = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j] ? length(i + 1, j + 1) + 1 : Math.max(length(i + 1, j), length(i, j + 1));
    }
  }
  const runs: Run[] = [];
  let run: Run = { removed: "", inserted: "", kept: "" };
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      run.kept += a[i++];
      j++;
      continue;
    }
    if (run.kept !== "") {
      runs.push(run);
      run = { removed: "", inserted: "", kept: "" };
    }
    if (j >= b.length || (i < a.length && length(i + 1, j) >= length(i, j + 1))) run.removed += a[i++];
    else run.inserted += b[j++];
  }
  runs.push(run);
  return runs;
}

/** Replaces `removed` at `at` without touching what both sides begin and end with; never half a character. */
function trimmed(at: number, removed: string, inserted: string): Splice | undefined {
  if (removed === inserted) return undefined;
  const most = Math.min(removed.length, inserted.length);
  let head = 0;
  while (head < most && removed[head] === inserted[head]) head++;
  if (head > 0 && isHigh(removed, head - 1)) head--;
  let tail = 0;
  while (tail < most - head && removed.at(-1 - tail) === inserted.at(-1 - tail)) tail++;
  if (tail > 0 && isLow(removed, removed.length - tail)) tail--;
  return {
    at: at + head,
    remove: removed.length - head - tail,
    insert: inserted.slice(head, inserted.length - tail),
  };
}

function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Words and signs, each with the space after it. */
function wordsOf(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+\s*|[^\p{L}\p{N}_]\s*/gu) ?? [];
}

function commonLength(
  a: readonly string[],
  b: readonly string[],
  max: number,
  pick: (list: readonly string[], at: number) => string | undefined,
): number {
  let count = 0;
  while (count < max && pick(a, count) === pick(b, count)) count++;
  return count;
}

function isHigh(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800;
}

function isLow(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00;
}
