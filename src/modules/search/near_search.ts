// Candidates that are similar in meaning, and how they are combined with those that have the words.
import type { VectorSearchResult } from "@/modules/vector/mod.ts";
import type { CandidateLoader, Hit } from "./candidate_loader.ts";
import type { Matcher } from "./matcher.ts";
import type { SearchViewer } from "./search_viewer.ts";
import type { CandidateFilter, SearchStore } from "./store.ts";

/** Similar resources that are ranked; more are asked for when filters leave few of them. */
const WANTED = [200, 1000] as const;
const ENOUGH = 50;
/** Rooms that are searched. */
const ROOMS_MAX = 10_000;
/** The constant of reciprocal rank fusion: how little the first ranks differ. */
const RANK_OFFSET = 60;
const SCORE_DIGITS = 1e6;

type Lookup = {
  store: SearchStore;
  viewer: SearchViewer;
  filter: CandidateFilter;
  /** Flags of properties that are indexed with the text. */
  flags: readonly number[];
  loader: CandidateLoader;
  /** Its exclusions hold for similar texts, too. */
  keywords: Matcher;
  find: NonNullable<VectorSearchResult["find"]>;
};

/**
 * Resources by similarity. Only rooms that the viewer can see are searched; what is found there is then checked like any candidate,
 * since a part of a room's history may be hidden, and other conditions apply.
 */
export async function findNear({ store, viewer, filter, flags, loader, keywords, find }: Lookup): Promise<Hit[]> {
  const roomIds = filter.roomIds === undefined
    ? await store.visibleIds(viewer, ROOMS_MAX)
    : [...(await store.visible(viewer, filter.roomIds)).keys()];
  let hits: Hit[] = [];
  for (const limit of WANTED) {
    const near = await find({ roomIds, kinds: filter.kinds, limit });
    const scores = new Map(near.map(({ kind, id, score }) => [`${kind} ${id}`, score]));
    const candidates = await store.readable(viewer, flags, filter, near.map(({ id }) => id));
    const known = candidates.filter(({ kind, id }) => scores.has(`${kind} ${id}`));
    hits = await loader.match(
      known,
      function* (fields, { kind, id }) {
        return (yield* keywords.excludes(fields)) ? undefined : scores.get(`${kind} ${id}`);
      },
    );
    if (hits.length >= ENOUGH || near.length < limit) break;
  }
  return hits.map((hit) => ({ ...hit, score: rounded(hit.score) })).sort((a, b) => b.score - a.score);
}

/** Two rankings as one: what is high in either is high, and what is in both is higher. */
export function fuseRankings(...rankings: readonly (readonly Hit[])[]): Hit[] {
  const fused = new Map<string, Hit>();
  for (const ranking of rankings) {
    for (const [rank, hit] of ranking.entries()) {
      const key = `${hit.kind} ${hit.id}`;
      const score = (fused.get(key)?.score ?? 0) + 1 / (RANK_OFFSET + rank + 1);
      fused.set(key, { ...hit, score });
    }
  }
  return [...fused.values()].map((hit) => ({ ...hit, score: rounded(hit.score) }));
}

function rounded(score: number): number {
  return Math.round(score * SCORE_DIGITS) / SCORE_DIGITS;
}
