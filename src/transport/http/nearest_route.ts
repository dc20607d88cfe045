// Suggests existing paths similar to an unknown one, with their methods.
import type { Rate } from "@/core/operation.ts";
import { editDistance } from "@/core/input/suggestion.ts";
import { TokenBucket } from "@/core/limit/token_bucket.ts";

/** For all callers: suggestions help developers of clients, but cost up to 10 ms, also for a stranger that invents paths. */
const RATE: Rate = { perSecond: 5, burst: 50 };
/** Longer paths get no suggestions. */
const SEGMENTS_MAX = 10;
const PATH_MAX = 200;
const SHOWN_MAX = 3;
/** Cost of inserting or removing a segment; a different segment costs 1. */
const SHIFT = 0.4;
/** Cost of matching a parameter; an equal literal costs less. */
const PARAMETER = 0.3;
/** Largest cost relative to the longer path, and largest difference to the best suggestion. */
const COST_MAX_SHARE = 0.45;
const COST_MAX_DIFFERENCE = 0.25;
/** Below this cost, segments are similar. */
const SEGMENT_COST_MAX = 0.5;

type Route = { method: string; path: string };

/** Builds the function that finds the routes nearest to a path; its cost is linear in the number of routes. */
export function createNearestRoutes(routes: readonly Route[]): (path: string) => string[] {
  const candidates = [...Map.groupBy(routes, ({ path }) => path)].map(([path, group]) => ({
    segments: segmentsOf(path),
    shown: `${group.map(({ method }) => method).toSorted().join(", ")} ${path}`,
  })).filter(({ segments }) => segments.length > 0);
  const bucket = new TokenBucket(RATE, performance.now());
  return function nearestRoutes(path) {
    // Empty ones, too: each may be a parameter that was left out.
    const requested = path.slice(1, PATH_MAX).split("/");
    if (path.length > PATH_MAX || requested.length > SEGMENTS_MAX || !bucket.consume(performance.now())) return [];
    // All paths share few literals, so each is compared with each segment once.
    const costs = requested.map(() => new Map<string, number>());
    const costOf = (at: number, literal: string): number => {
      const cached = costs[at]?.get(literal);
      if (cached !== undefined) return cached;
      const cost = literal.startsWith(":") ? PARAMETER : segmentCost(requested[at] ?? "", literal);
      costs[at]?.set(literal, cost);
      return cost;
    };
    const isSimilar = (literal: string): boolean =>
      !literal.startsWith(":") && requested.some((_, at) => costOf(at, literal) < SEGMENT_COST_MAX);
    // Parameters match anything, so a similar path needs at least one similar literal.
    const near = candidates.filter(({ segments }) => segments.some(isSimilar)).map(({ segments, shown }) => ({
      shown,
      cost: pathCost(requested.length, segments, costOf),
      segments,
    }))
      .filter(({ cost, segments }) => cost <= COST_MAX_SHARE * Math.max(requested.length, segments.length))
      .toSorted((a, b) => a.cost - b.cost);
    const best = near[0]?.cost ?? 0;
    return near.filter(({ cost }) => cost <= best + COST_MAX_DIFFERENCE).slice(0, SHOWN_MAX).map(({ shown }) => shown);
  };
}

/** The edit distance of two paths, by segments. */
function pathCost(
  length: number,
  segments: readonly string[],
  costOf: (at: number, literal: string) => number,
): number {
  let row = Array.from({ length: segments.length + 1 }, (_, at) => at * SHIFT);
  for (let at = 0; at < length; at++) {
    const next = [(at + 1) * SHIFT];
    for (const [to, literal] of segments.entries()) {
      const same = (row[to] ?? 0) + costOf(at, literal);
      next.push(Math.min(same, (row[to + 1] ?? 0) + SHIFT, (next[to] ?? 0) + SHIFT));
    }
    row = next;
  }
  return row[segments.length] ?? Infinity;
}

/** 0 for the same word, 1 for a different one. */
function segmentCost(requested: string, literal: string): number {
  const [one, other] = [requested.toLowerCase(), literal.toLowerCase()];
  if (one === other) return requested === literal ? 0 : 0.05;
  // A plural, or a prefix.
  if (one.length > 2 && (other.startsWith(one) || one.startsWith(other))) return 0.2;
  const share = editDistance(one, other) / Math.max(one.length, other.length);
  return share > 0.5 ? 1 : share;
}

function segmentsOf(path: string): string[] {
  return path.split("/").filter((segment) => segment !== "");
}
