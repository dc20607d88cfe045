// A question in plain words: texts match with any of its words, and the rarer the words that a text has, the better.
import type { Steps } from "@/core/caller.ts";
import { normalizeText } from "@/core/text/normalize.ts";
import type { SearchFields } from "@/core/searchable.ts";
import {
  bestScore,
  findHighlights,
  type Highlight,
  lengthFactor,
  parseQuery,
  patternOf,
  type QueryPiece,
  roundScore,
} from "./matcher.ts";
import { TERMS_MAX } from "./schema.ts";
import { STOP_WORDS } from "./stop_words.ts";
import { requiredGrams, WORD } from "./tokenize.ts";

/** Endings of English words, longer ones first; what remains is the start of other forms of the word. */
const ENDING = /(?:ations?|ingly|edly|ments?|ings?|ies|ied|ers?|es|ed|ly|[sey])$/;
const STEM_MIN = 3;
const INFLECTED = /^[a-z]{5,}$/;
/** Shorter words match at the start of a word only, since many words contain them. */
const INNER_MIN = 5;
const STEM_SCORE = 0.8;
const STOP_WORD_WEIGHT = 0.2;
const CJK_RUN = /^[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}]{3,}$/u;

export type Term = {
  patterns: readonly { pattern: RegExp; factor: number }[];
  /** Grams that every text with the term has. */
  grams: readonly string[];
  isStopWord: boolean;
};

export class AnyWordMatcher {
  /** Without duplicates, in the order of the query. */
  readonly terms: readonly Term[];
  #weights: readonly number[];

  constructor(pieces: readonly QueryPiece[]) {
    const distinct = new Map(pieces.flatMap(splitRuns).map((runs) => [runs.join(" "), runs]));
    this.terms = [...distinct.values()].slice(0, TERMS_MAX).map(termOf);
    this.#weights = this.terms.map(() => 1);
  }

  /** The matcher of a query of at least two words, without quotes and exclusions: those ask for all words. */
  static of(query: string): AnyWordMatcher | undefined {
    const pieces = parseQuery(query);
    if (pieces.some(({ isExcluded, isQuoted }) => isExcluded || isQuoted)) return undefined;
    const matcher = new AnyWordMatcher(pieces);
    return matcher.terms.length < 2 ? undefined : matcher;
  }

  /** `weights[i]` is how rare the term `i` is. */
  setWeights(weights: readonly number[]): void {
    this.#weights = weights.map((weight, at) => this.terms[at]?.isStopWord ? weight * STOP_WORD_WEIGHT : weight);
  }

  /** The relevance of the fields, above 0; `undefined` if they do not match. */
  *score(fields: SearchFields): Steps<number | undefined> {
    const texts = Object.entries(fields).map(([field, text]) => ({ field, text: normalizeText(text) }));
    let sum = 0;
    for (const [at, { patterns }] of this.terms.entries()) {
      let best = 0;
      for (const { pattern, factor } of patterns) best = Math.max(best, (yield* bestScore(texts, pattern)) * factor);
      sum += best * (this.#weights[at] ?? 0);
    }
    const all = this.#weights.reduce((total, weight) => total + weight, 0);
    return sum === 0 ? undefined : roundScore(sum / all / lengthFactor(texts));
  }

  highlights(fields: SearchFields): Steps<Highlight[]> {
    const named = this.terms.some(({ isStopWord }) => !isStopWord);
    const terms = this.terms.filter(({ isStopWord }) => !(named && isStopWord));
    return findHighlights(fields, terms.flatMap(({ patterns }) => patterns.map(({ pattern }) => pattern)));
  }
}

/** Languages without spaces have no words to split at, so pairs of their characters are terms. */
function splitRuns({ runs }: QueryPiece): (readonly string[])[] {
  const [run = ""] = runs;
  if (runs.length > 1 || !CJK_RUN.test(run)) return [runs];
  const characters = [...run];
  return characters.slice(1).map((next, at) => [`${characters[at]}${next}`]);
}

function termOf(runs: readonly string[]): Term {
  const [run = ""] = runs;
  const isStopWord = runs.every((one) => STOP_WORDS.has(one));
  const isShortWord = runs.length === 1 && run.length < INNER_MIN && new RegExp(`^${WORD}+$`, "v").test(run);
  const exact = isShortWord
    ? new RegExp(`(?<!${WORD})${run}${isStopWord ? `(?!${WORD})` : ""}`, "gv")
    : patternOf(runs);
  const stem = runs.length === 1 && !isStopWord && INFLECTED.test(run) ? stemOf(run) : run;
  if (stem === run) {
    return { patterns: [{ pattern: exact, factor: 1 }], grams: runs.flatMap(requiredGrams), isStopWord };
  }
  return {
    patterns: [
      { pattern: exact, factor: 1 },
      { pattern: new RegExp(`(?<!${WORD})${stem}${WORD}*`, "gv"), factor: STEM_SCORE },
    ],
    grams: requiredGrams(stem),
    isStopWord,
  };
}

function stemOf(word: string): string {
  const stem = word.replace(ENDING, "");
  return stem.length < STEM_MIN ? word : stem;
}
