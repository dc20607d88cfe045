// A parsed query: decides which texts match, with which score and highlights, independent of the database engine.
import type { Steps } from "@/core/caller.ts";
import { type NormalizedText, normalizeText, normalizeWithOffsets, originalRange } from "@/core/text/normalize.ts";
import type { SearchFields } from "@/core/searchable.ts";
import { EMOJI, requiredGrams, runsOf, SYMBOL, WORD } from "./tokenize.ts";

/** Where a field matched: ranges `[start, end)` in UTF-16 code units of the field's text. */
export type Highlight = { field: string; ranges: [number, number][] };

const GRAMS_MAX = 64;
const RANGES_MAX = 64;
const TITLE_WEIGHT = 2;
/** A long text is matched in windows of so many units: a pattern of many words may try each of them at each unit. */
const WINDOW = 8 * 1024;
/** A match is shorter, and looks back less far. */
const MARGIN = 2048;
/** A part of a query: quoted or plain, with a hyphen directly before it if it is excluded. */
const PIECE = /(?:(?<!\S)(-))?["“”„]([^"“”„]*)["“”„]?|(?:(?<!\S)(-)(?!-))?([^\s"“”„]+)/gu;
const BETWEEN = String.raw`[^\p{L}\p{N}\p{M}]`;
const BETWEEN_MAX = 16;
/** A flag is a pair of letters, so it starts only after whole flags; the bound limits the lookbehind. */
const FLAG_START = String.raw`(?<=(?<!\p{RI})(?:\p{RI}{2}){0,300})`;
const IS_WORD = new RegExp(`^${WORD}$`, "v");
const IS_ALL_WORD = new RegExp(`^${WORD}+$`, "v");
const IS_EMOJI = new RegExp(`^${EMOJI}`, "v");
const IS_FLAG = /^\p{RI}/v;
const STARTS_SIGN = new RegExp(`^${SYMBOL}`, "v");
const ENDS_SIGN = new RegExp(`${SYMBOL}$`, "v");

/** A part of a query: its runs of letters or emoji, in order. */
export type QueryPiece = { runs: readonly string[]; isExcluded: boolean; isQuoted: boolean };

type Field = { field: string; text: string };
type Phrase = { runs: readonly string[]; pattern: RegExp };

export class Matcher {
  readonly #phrases: readonly Phrase[];
  readonly #excluded: readonly Phrase[];
  /** Whether the query has quotes or exclusions. */
  readonly isExact: boolean;
  /** Number of words of the query, including excluded ones. */
  readonly termCount: number;
  /** Grams that every matching text has. */
  readonly requiredGrams: readonly string[];

  /**
   * All words of `query` must match, in any order: words of three or more letters anywhere in a word, of two letters at the
   * start of a word, single letters as a whole word, emoji anywhere. Words in quotes, or joined by punctuation or emoji, must
   * match in this order. A hyphen before them excludes their matches.
   */
  constructor(query: string) {
    const pieces = parseQuery(query);
    const phrases = (isExcluded: boolean) => phrasesOf(pieces.filter((piece) => piece.isExcluded === isExcluded));
    this.isExact = pieces.some(({ isExcluded, isQuoted }) => isExcluded || isQuoted);
    this.#phrases = phrases(false);
    this.#excluded = phrases(true);
    this.termCount = pieces.reduce((sum, { runs }) => sum + runs.length, 0);
    const grams = [...new Set(this.#phrases.flatMap(({ runs }) => runs.flatMap(requiredGrams)))];
    // A sample of many grams narrows enough; the text decides.
    const step = Math.max(1, grams.length / GRAMS_MAX);
    this.requiredGrams = Array.from(
      { length: Math.min(grams.length, GRAMS_MAX) },
      (_, at) => grams[Math.floor(at * step)] ?? "",
    );
  }

  get hasExclusions(): boolean {
    return this.#excluded.length > 0;
  }

  /** Whether the query has nothing but exclusions. */
  get hasOnlyExclusions(): boolean {
    return this.hasExclusions && this.#phrases.length === 0;
  }

  /** Whether the fields have something that the query excludes. */
  *excludes(fields: SearchFields): Steps<boolean> {
    if (!this.hasExclusions) return false;
    for (const text of Object.values(fields)) if (yield* this.#isExcluded(normalizeText(text))) return true;
    return false;
  }

  /** The relevance of the fields, above 0; `undefined` if they do not match. */
  *score(fields: SearchFields): Steps<number | undefined> {
    const texts = Object.entries(fields).map(([field, text]) => ({ field, text: normalizeText(text) }));
    for (const { text } of texts) if (yield* this.#isExcluded(text)) return undefined;
    let sum = 0;
    for (const { pattern } of this.#phrases) {
      const best = yield* bestScore(texts, pattern);
      if (best === 0) return undefined;
      sum += best;
    }
    return roundScore(sum / Math.max(1, this.#phrases.length) / lengthFactor(texts));
  }

  highlights(fields: SearchFields): Steps<Highlight[]> {
    return findHighlights(fields, this.#phrases.map(({ pattern }) => pattern));
  }

  *#isExcluded(text: string): Steps<boolean> {
    let isFound = false;
    for (const { pattern } of this.#excluded) {
      yield* eachMatch(text, pattern, () => {
        isFound = true;
        return false;
      });
      if (isFound) return true;
    }
    return false;
  }
}

/** The parts of a query, those without letters and emoji left out. */
export function parseQuery(query: string): QueryPiece[] {
  return [...normalizeText(query).matchAll(PIECE)].map(([, notQuoted, quoted, notPlain, plain]) => ({
    isExcluded: (notQuoted ?? notPlain) !== undefined,
    isQuoted: quoted !== undefined,
    runs: runsOf(quoted ?? plain ?? ""),
  })).filter(({ runs }) => runs.length > 0);
}

/** The score of a pattern in normalized texts; 0 without a match. */
export function* bestScore(texts: readonly Field[], pattern: RegExp): Steps<number> {
  let best = 0;
  for (const { field, text } of texts) {
    best = Math.max(best, (yield* scoreMatches(text, pattern)) * (field === "title" ? TITLE_WEIGHT : 1));
  }
  return best;
}

/** What scores are divided by: a match says less about a long text. */
export function lengthFactor(texts: readonly Field[]): number {
  const length = texts.reduce((total, { text }) => total + text.length, 0);
  return 1 + 0.1 * Math.log2(1 + length / 100);
}

export function roundScore(score: number): number {
  return Math.max(0.0001, Math.round(score * 10_000) / 10_000);
}

export function* findHighlights(fields: SearchFields, patterns: readonly RegExp[]): Steps<Highlight[]> {
  const highlights: Highlight[] = [];
  for (const [field, text] of Object.entries(fields)) {
    const normalized = normalizeWithOffsets(text);
    const found: [number, number][] = [];
    for (const pattern of patterns) found.push(...yield* findRanges(normalized, pattern));
    const ranges = mergeRanges(found);
    if (ranges.length > 0) highlights.push({ field, ranges });
  }
  return highlights;
}

/** The distinct phrases of the parts. */
function phrasesOf(pieces: readonly QueryPiece[]): Phrase[] {
  const distinct = new Map(pieces.map(({ runs }) => [runs.join(" "), runs]));
  return [...distinct.values()].map((runs) => ({ runs, pattern: patternOf(runs) }));
}

/** Matches the runs one after the other. */
export function patternOf(runs: readonly string[]): RegExp {
  const [first = "", last = ""] = [runs[0], runs.at(-1)];
  const left = first.length < 3 && IS_ALL_WORD.test(first) ? `(?<!${WORD})` : "";
  const right = last.length === 1 && IS_ALL_WORD.test(last) ? `(?!${WORD})` : "";
  // Runs contain letters, digits and emoji only, so they need no escaping.
  const middle = runs.map((run, at) => {
    const before = runs[at - 1];
    const piece = IS_FLAG.test(run) ? `${FLAG_START}${run}` : run;
    if (before === undefined) return piece;
    // Other emoji may be in between. The lookahead ends the gap at the first match of the piece: without it, backtracking would
    // try seventeen times as many ways for each emoji in the query.
    if (IS_EMOJI.test(run)) return `(?:(?!${piece})${BETWEEN}){0,${BETWEEN_MAX}}${piece}`;
    return `${BETWEEN}{${IS_EMOJI.test(before) ? 0 : 1},${BETWEEN_MAX}}${piece}`;
  });
  return new RegExp(`${left}${middle.join("")}${right}`, "gv");
}

/** A whole word scores more than its start, and that more than its middle; repetitions add a little. */
function* scoreMatches(text: string, pattern: RegExp): Steps<number> {
  let best = 0;
  let count = 0;
  yield* eachMatch(text, pattern, (found, index) => {
    const isStart = !IS_WORD.test(text.slice(index - 1, index)) || STARTS_SIGN.test(found);
    const isEnd = !IS_WORD.test(text.slice(index + found.length, index + found.length + 1)) || ENDS_SIGN.test(found);
    best = Math.max(best, isStart ? isEnd ? 1 : 0.8 : 0.5);
    return ++count < 16;
  });
  return best * (1 + 0.1 * Math.log2(Math.max(1, count)));
}

function* findRanges(normalized: NormalizedText, pattern: RegExp): Steps<[number, number][]> {
  const ranges: [number, number][] = [];
  yield* eachMatch(normalized.text, pattern, (found, index) => {
    ranges.push(originalRange(normalized, index, index + found.length));
    return ranges.length < RANGES_MAX;
  });
  return ranges;
}

/** Visits the matches in their order, until `visit` returns false. */
function* eachMatch(text: string, pattern: RegExp, visit: (found: string, index: number) => boolean): Steps {
  for (let from = 0; from < text.length; from += WINDOW) {
    if (from > 0) yield;
    const start = Math.max(0, from - MARGIN);
    const part = text.slice(start, from + WINDOW + MARGIN);
    pattern.lastIndex = from - start;
    for (const { 0: found, index } of part.matchAll(pattern)) {
      // The next window finds it again.
      if (start + index >= from + WINDOW) break;
      if (!visit(found, start + index)) return;
    }
  }
}

/** Sorts ranges and merges those that overlap or touch. */
function mergeRanges(ranges: readonly [number, number][]): [number, number][] {
  const out: [number, number][] = [];
  for (const [start, end] of ranges.toSorted((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = out.at(-1);
    if (last !== undefined && start <= last[1]) last[1] = Math.max(last[1], end);
    else out.push([start, end]);
  }
  return out.slice(0, RANGES_MAX);
}
