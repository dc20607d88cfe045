// Candidates for a question in plain words: each word is looked up by itself, and rare words count more than frequent ones.
import { createYielder } from "@/core/caller.ts";
import type { AnyWordMatcher, Term } from "./any_word_matcher.ts";
import type { CandidateLoader } from "./candidate_loader.ts";
import type { Tokens } from "./index_store.ts";
import type { Candidate, CandidateSearch, SearchStore } from "./store.ts";
import { hashGrams } from "./tokenize.ts";

/** Words that are looked up; of more, the longest. */
const LOOKUPS_MAX = 16;
/** The newest candidates of a word. */
const LIST_MAX = 500;
/** No further word is looked up after this time. */
const LOOKUP_MS = 1000;
/** A word counts as if the documents with any of the words were this many times as many. */
const CORPUS_FACTOR = 2;
const CORPUS_MIN = 100;

type Lookup = CandidateSearch & {
  store: SearchStore;
  matcher: AnyWordMatcher;
  /** What every candidate has: room, properties, quoted words. */
  tokens: Tokens;
  loader: CandidateLoader;
  assertInTime: () => void;
};

/**
 * At most `limit` candidates, those with the rarest words first, and sets the weights of the matcher. Counts only what the viewer
 * may read. `isComplete` is false if time ended the lookups.
 */
export async function findByAnyWord(
  lookup: Lookup,
  limit: number,
): Promise<{ candidates: Candidate[]; isComplete: boolean }> {
  const { store, viewer, matcher, tokens, loader, assertInTime } = lookup;
  const startedAt = performance.now();
  let isComplete = true;
  const found = new Map<string, { candidate: Candidate; terms: Set<Term>; weight: number }>();
  const yieldIfDue = createYielder();
  const lookUp = async (...terms: readonly Term[]): Promise<number | undefined> => {
    await yieldIfDue();
    assertInTime();
    isComplete &&= performance.now() - startedAt <= LOOKUP_MS;
    if (!isComplete) return undefined;
    const own = hashGrams(viewer.tenantId, terms.flatMap(({ grams }) => grams));
    const all = { ...tokens, all: [...own, ...tokens.all] };
    const newest = await store.candidates(lookup, all, undefined, LIST_MAX);
    isComplete &&= newest.isComplete;
    const candidates = await loader.filterVisible(newest.candidates);
    for (const candidate of candidates) {
      const key = `${candidate.kind} ${candidate.id}`;
      const known = found.get(key)?.terms ?? [];
      found.set(key, { candidate, terms: new Set([...known, ...terms]), weight: 0 });
    }
    return candidates.length;
  };
  const counts = new Map<Term, number | undefined>();
  for (const term of lookedUpTerms(matcher)) counts.set(term, await lookUp(term));
  // The newest documents with a frequent word are a poor choice; those with two of them are a better one.
  const frequent = matcher.terms.filter((term) => counts.get(term) === LIST_MAX);
  if (frequent.length > 2) await lookUp(...frequent);
  for (const [at, term] of frequent.entries()) {
    const next = frequent[at + 1];
    if (next !== undefined) await lookUp(term, next);
  }

  const documents = Math.max(CORPUS_MIN, found.size * CORPUS_FACTOR);
  const weightOf = (count = documents / 2) => Math.log(1 + (documents - count + 0.5) / (count + 0.5));
  const weights = new Map(matcher.terms.map((term) => [term, weightOf(counts.get(term))]));
  matcher.setWeights([...weights.values()]);
  for (const entry of found.values()) for (const term of entry.terms) entry.weight += weights.get(term) ?? 0;
  const ranked = [...found.values()].sort((a, b) => b.weight - a.weight || b.candidate.n - a.candidate.n);
  return { candidates: ranked.slice(0, limit).map(({ candidate }) => candidate), isComplete };
}

/** Stop words only if there is nothing else. */
function lookedUpTerms({ terms }: AnyWordMatcher): Term[] {
  const named = terms.filter(({ isStopWord }) => !isStopWord);
  return (named.length > 0 ? named : terms).toSorted((a, b) => b.grams.length - a.grams.length).slice(0, LOOKUPS_MAX);
}
