// A question, understood once: which texts answer it, how well, and where. The same for every engine.
import { fold, type Folded, foldText, unfold } from "./fold.ts";
import { EMOJI, neededGrams, runsOf, SIGN, WORD } from "./gram.ts";

/** Searched texts of one thing, by field. */
export type Fields = Readonly<Record<string, string>>;

/** Where a field matched: ranges `[start, end)` in UTF-16 code units of the field's text. */
export type Highlight = { field: string; ranges: [number, number][] };

const GRAMS_MAX = 64;
const RANGES_MAX = 64;
const TITLE_WEIGHT = 2;
/** A piece of a question: quoted or plain, with a hyphen right before it where it must not be found. */
const PIECE = /(?:(?<!\S)(-))?["“”„]([^"“”„]*)["“”„]?|(?:(?<!\S)(-)(?!-))?([^\s"“”„]+)/gu;
const BETWEEN = String.raw`[^\p{L}\p{N}\p{M}]`;
const BETWEEN_MAX = 16;
/** Two letters make a flag, so a flag begins after whole flags only: as many as there are, not all that a text can hold. */
const FLAG_START = String.raw`(?<=(?<!\p{RI})(?:\p{RI}{2}){0,300})`;
const IS_WORD = new RegExp(`^${WORD}$`, "v");
const IS_ALL_WORD = new RegExp(`^${WORD}+$`, "v");
const IS_EMOJI = new RegExp(`^${EMOJI}`, "v");
const IS_FLAG = /^\p{RI}/v;
const STARTS_SIGN = new RegExp(`^${SIGN}`, "v");
const ENDS_SIGN = new RegExp(`${SIGN}$`, "v");

type Phrase = { runs: readonly string[]; pattern: RegExp };

export class Matcher {
  readonly #phrases: readonly Phrase[];
  readonly #excluded: readonly Phrase[];
  /** How many words the question has, those that must not be found among them. */
  readonly terms: number;
  /** Tokens that every answer has. */
  readonly grams: readonly string[];

  /**
   * All words of `query` must be found, in any order: one of three letters or more anywhere in a word, one of two at the
   * start of a word, one letter alone, an emoji anywhere. What stands in quotes, or is joined by punctuation or emoji, must
   * be found in that order. With a hyphen before it, the same must not be found.
   */
  constructor(query: string) {
    const pieces = [...foldText(query).matchAll(PIECE)].map(([, notQuoted, quoted, notPlain, plain]) => ({
      isExcluded: (notQuoted ?? notPlain) !== undefined,
      runs: runsOf(quoted ?? plain ?? ""),
    }));
    const phrases = (isExcluded: boolean) => phrasesOf(pieces.filter((piece) => piece.isExcluded === isExcluded));
    this.#phrases = phrases(false);
    this.#excluded = phrases(true);
    this.terms = pieces.reduce((sum, { runs }) => sum + runs.length, 0);
    const grams = [...new Set(this.#phrases.flatMap(({ runs }) => runs.flatMap(neededGrams)))];
    // Some of very many narrow well enough; the text decides anyway.
    const step = Math.max(1, grams.length / GRAMS_MAX);
    this.grams = Array.from(
      { length: Math.min(grams.length, GRAMS_MAX) },
      (_, at) => grams[Math.floor(at * step)] ?? "",
    );
  }

  /** Whether there is something that must not be found. */
  get excludes(): boolean {
    return this.#excluded.length > 0;
  }

  /** Whether the question only says what must not be found, and so asks for nothing. */
  get onlyExcludes(): boolean {
    return this.excludes && this.#phrases.length === 0;
  }

  /** How well the fields answer, above 0; `undefined` when they do not. */
  score(fields: Fields): number | undefined {
    const texts = Object.entries(fields).map(([field, text]) => ({ field, text: foldText(text) }));
    if (texts.some(({ text }) => this.#excluded.some(({ pattern }) => text.search(pattern) >= 0))) return undefined;
    let sum = 0;
    for (const { pattern } of this.#phrases) {
      let best = 0;
      for (const { field, text } of texts) {
        best = Math.max(best, weigh(text, pattern) * (field === "title" ? TITLE_WEIGHT : 1));
      }
      if (best === 0) return undefined;
      sum += best;
    }
    const length = texts.reduce((total, { text }) => total + text.length, 0);
    const score = sum / Math.max(1, this.#phrases.length) / (1 + 0.1 * Math.log2(1 + length / 100));
    return Math.max(0.0001, Math.round(score * 10_000) / 10_000);
  }

  /** Where the fields answer. */
  highlights(fields: Fields): Highlight[] {
    return Object.entries(fields).flatMap(([field, text]) => {
      const folded = fold(text);
      const ranges = merged(this.#phrases.flatMap(({ pattern }) => rangesOf(folded, pattern)));
      return ranges.length === 0 ? [] : [{ field, ranges }];
    });
  }
}

/** What pieces ask for, each once. */
function phrasesOf(pieces: readonly { runs: readonly string[] }[]): Phrase[] {
  const distinct = new Map(pieces.filter(({ runs }) => runs.length > 0).map(({ runs }) => [runs.join(" "), runs]));
  return [...distinct.values()].map((runs) => ({ runs, pattern: patternOf(runs) }));
}

function patternOf(runs: readonly string[]): RegExp {
  const [first = "", last = ""] = [runs[0], runs.at(-1)];
  const left = first.length < 3 && IS_ALL_WORD.test(first) ? `(?<!${WORD})` : "";
  const right = last.length === 1 && IS_ALL_WORD.test(last) ? `(?!${WORD})` : "";
  // Runs are letters, digits and emoji only, so nothing in them needs escaping.
  const middle = runs.map((run, at) => {
    const before = runs[at - 1];
    const piece = IS_FLAG.test(run) ? `${FLAG_START}${run}` : run;
    if (before === undefined) return piece;
    // Emoji may stand between, too. It ends before the first of those asked for: were there several ways to read a text, all of
    // them would be tried, and with each emoji in the question they grow seventeenfold.
    if (IS_EMOJI.test(run)) return `(?:(?!${piece})${BETWEEN}){0,${BETWEEN_MAX}}${piece}`;
    return `${BETWEEN}{${IS_EMOJI.test(before) ? 0 : 1},${BETWEEN_MAX}}${piece}`;
  });
  return new RegExp(`${left}${middle.join("")}${right}`, "gv");
}

/** A whole word counts more than its beginning, that more than its middle; more often counts a little more. */
function weigh(text: string, pattern: RegExp): number {
  let best = 0;
  let count = 0;
  for (const { 0: found, index } of text.matchAll(pattern)) {
    const isStart = !IS_WORD.test(text.slice(index - 1, index)) || STARTS_SIGN.test(found);
    const isEnd = !IS_WORD.test(text.slice(index + found.length, index + found.length + 1)) ||
      ENDS_SIGN.test(found);
    best = Math.max(best, isStart ? isEnd ? 1 : 0.8 : 0.5);
    if (++count === 16) break;
  }
  return best * (1 + 0.1 * Math.log2(Math.max(1, count)));
}

function rangesOf(folded: Folded, pattern: RegExp): [number, number][] {
  const ranges: [number, number][] = [];
  for (const { 0: found, index } of folded.text.matchAll(pattern)) {
    ranges.push(unfold(folded, index, index + found.length));
    if (ranges.length === RANGES_MAX) break;
  }
  return ranges;
}

/** Sorted, and those that touch made one. */
function merged(ranges: readonly [number, number][]): [number, number][] {
  const out: [number, number][] = [];
  for (const [start, end] of ranges.toSorted((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = out.at(-1);
    if (last !== undefined && start <= last[1]) last[1] = Math.max(last[1], end);
    else out.push([start, end]);
  }
  return out.slice(0, RANGES_MAX);
}
