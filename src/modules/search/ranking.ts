// The order of results, and where a page begins.
import type { CursorKey } from "@/core/page.ts";
import type { Hit } from "./candidate_loader.ts";

type Ranked = Pick<Hit, "score" | "n" | "id">;

/** Best first, then newest. */
export function byRelevance(a: Ranked, b: Ranked): number {
  return b.score - a.score || b.n - a.n || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

/** Newest first. */
export function byTime(a: Ranked, b: Ranked): number {
  return b.n - a.n || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

/** Those after the last one of the page before. */
export function hitsAfter(hits: Hit[], after: CursorKey | undefined): Hit[] {
  if (after === undefined) return hits;
  const last = { score: Number(after[0]), n: Number(after[1]), id: String(after[2]) };
  // Scores change a little with the documents, so the last result is found by its id.
  const at = hits.findIndex(({ n, id }) => n === last.n && id === last.id);
  return at < 0 ? hits.filter((hit) => byRelevance(last, hit) < 0) : hits.slice(at + 1);
}
