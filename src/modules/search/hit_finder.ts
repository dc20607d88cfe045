// Finds the hits of one search: by words, by similarity or both, and in their order.
import type { CursorKey } from "@/core/page.ts";
import { compareText } from "@/core/text/text.ts";
import type { VectorSearchResult } from "@/modules/vector/mod.ts";
import type { AnyWordMatcher } from "./any_word_matcher.ts";
import { findByAnyWord } from "./any_word_search.ts";
import type { CandidateLoader, Hit } from "./candidate_loader.ts";
import type { Tokens } from "./index_store.ts";
import { Matcher } from "./matcher.ts";
import { findNear, fuseRankings } from "./near_search.ts";
import { EXCLUDING_ROUNDS_MAX, RANKED_MAX, type SearchRequest } from "./schema.ts";
import type { Candidate, CandidateSearch, SearchStore } from "./store.ts";

/** Results of any words with less than this share of the best score are noise. */
const RELEVANT_SHARE = 0.25;

/** What one search looks for, as whom, and where its page begins. */
export type Search = CandidateSearch & {
  keywords: Matcher;
  /** Selects texts, by the keywords or by any words of the query. */
  matcher: Matcher | AnyWordMatcher;
  loader: CandidateLoader;
  after: CursorKey | undefined;
  /** Throws after the timeout. */
  assertInTime: () => void;
};

/** Tokens that every candidate has: of words, rooms and properties; `flags` are those of properties alone. */
type SearchTokens = Tokens & { flags: readonly number[] };

/** `isComplete` is false if time ended the search. */
export type Found = { hits: Hit[]; total: number; isComplete?: boolean };

export class HitFinder {
  readonly #search: Search;
  readonly #store: SearchStore;
  readonly #tokens: SearchTokens;

  constructor(search: Search, store: SearchStore, tokens: SearchTokens) {
    this.#search = search;
    this.#store = store;
    this.#tokens = tokens;
  }

  /** The hits of a page and more; `findSimilar` is there if the search uses vectors. */
  find(
    request: Pick<SearchRequest, "mode" | "sort" | "limit">,
    findSimilar: VectorSearchResult["find"],
  ): Promise<Found> {
    if (findSimilar !== undefined) return this.#near(request, findSimilar);
    return request.sort === "recent" ? this.#recent(request.limit + 1) : this.#relevant();
  }

  /** The newest hits, read in steps until there are `wanted`. */
  async #recent(wanted: number): Promise<Found> {
    const { filter, matcher, loader, after, assertInTime } = this.#search;
    const hits: Hit[] = [];
    const step = Math.max(wanted, 50);
    let from = after === undefined ? undefined : { n: Number(after[0]), id: String(after[1]) };
    let [isMore, isComplete] = [true, true];
    while (isMore && hits.length < wanted) {
      assertInTime();
      const found = await this.#store.candidates(this.#search, this.#tokens, from, step);
      const { candidates } = found;
      hits.push(...await loader.match(await loader.filterVisible(candidates), (fields) => matcher.score(fields)));
      from = candidates.at(-1);
      isComplete = found.isComplete;
      isMore = isComplete && loader.isComplete && candidates.length === step;
    }
    // How many were read for these depends on hidden ones.
    if (loader.hides(filter.kinds)) return { hits, total: Math.min(hits.length, wanted), isComplete };
    if (after === undefined && !isMore) return { hits, total: hits.length, isComplete };
    const { candidates: first } = await this.#store.candidates(this.#search, this.#tokens, undefined, RANKED_MAX);
    return { hits, total: Math.max(hits.length, first.length), isComplete };
  }

  /** Candidates by relevance, after those of earlier pages. */
  async #relevant(): Promise<Found> {
    const found = await this.#withWords();
    return { ...found, hits: hitsAfter(found.hits, this.#search.after) };
  }

  /** What is similar, alone or combined with what has the words. */
  async #near(
    { mode, sort }: Pick<SearchRequest, "mode" | "sort">,
    findSimilar: NonNullable<VectorSearchResult["find"]>,
  ): Promise<Found> {
    const { after } = this.#search;
    const near = await findNear({ ...this.#search, store: this.#store, flags: this.#tokens.flags, find: findSimilar });
    const words = mode === "semantic" ? undefined : await this.#withWords();
    const hits = words === undefined ? near : fuseRankings(words.hits, near);
    const found = { ...words, total: hits.length };
    if (sort === "relevance") return { ...found, hits: hitsAfter(hits.sort(byRelevance), after) };
    const last = after === undefined ? undefined : { score: 0, n: Number(after[0]), id: String(after[1]) };
    const rest = last === undefined ? hits : hits.filter((hit) => byTime(last, hit) < 0);
    return { ...found, hits: rest.sort(byTime) };
  }

  /** What has the words, by relevance. */
  async #withWords(): Promise<Found> {
    const { matcher } = this.#search;
    const found = matcher instanceof Matcher ? await this.#withAllWords(matcher) : await this.#withAnyWord(matcher);
    found.hits.sort(byRelevance);
    return found;
  }

  /** Ranks the newest `RANKED_MAX` candidates, more if the query has exclusions. */
  async #withAllWords(matcher: Matcher): Promise<Found> {
    const { filter, loader } = this.#search;
    const hits: Hit[] = [];
    let from: Candidate | undefined;
    let [isMore, isComplete] = [true, true];
    for (
      let left = matcher.hasExclusions ? EXCLUDING_ROUNDS_MAX : 1;
      isMore && left > 0 && hits.length < RANKED_MAX;
      left--
    ) {
      const found = await this.#store.candidates(this.#search, this.#tokens, from, RANKED_MAX);
      const { candidates } = found;
      hits.push(...await loader.match(await loader.filterVisible(candidates), (fields) => matcher.score(fields)));
      from = candidates.at(-1);
      isComplete = found.isComplete;
      isMore = isComplete && loader.isComplete && candidates.length === RANKED_MAX;
    }
    const isMany = isMore && !matcher.hasExclusions && !loader.hides(filter.kinds);
    return { hits, total: isMany ? RANKED_MAX : Math.min(hits.length, RANKED_MAX), isComplete };
  }

  async #withAnyWord(matcher: AnyWordMatcher): Promise<Found> {
    const lookup = { ...this.#search, matcher, store: this.#store, tokens: this.#tokens };
    const { candidates, isComplete } = await findByAnyWord(lookup, RANKED_MAX);
    const hits = await this.#search.loader.match(candidates, (fields) => matcher.score(fields));
    const best = Math.max(0, ...hits.map(({ score }) => score));
    const relevant = hits.filter(({ score }) => score >= best * RELEVANT_SHARE);
    return { hits: relevant, total: relevant.length, isComplete };
  }
}

type Ranked = Pick<Hit, "score" | "n" | "id">;

/** Best first, then newest. */
function byRelevance(a: Ranked, b: Ranked): number {
  return b.score - a.score || b.n - a.n || compareText(b.id, a.id);
}

/** Newest first. */
function byTime(a: Ranked, b: Ranked): number {
  return b.n - a.n || compareText(b.id, a.id);
}

/** Those after the last one of the page before. */
function hitsAfter(hits: Hit[], after: CursorKey | undefined): Hit[] {
  if (after === undefined) return hits;
  const last = { score: Number(after[0]), n: Number(after[1]), id: String(after[2]) };
  // Scores change a little with the documents, so the last result is found by its id.
  const at = hits.findIndex(({ n, id }) => n === last.n && id === last.id);
  return at < 0 ? hits.filter((hit) => byRelevance(last, hit) < 0) : hits.slice(at + 1);
}
