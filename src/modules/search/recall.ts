// Search by a text that was not written as a query, such as a message: for recall, and for the context of an agent.
import { type Actor, hasScope } from "@/core/actor.ts";
import { isFault } from "@/core/fault.ts";
import { type Searchable, type SearchFields, sourceAt } from "@/core/searchable.ts";
import { truncateText } from "@/core/text/text.ts";
import { type SearchRequest, type SearchResult, TERMS_MAX } from "./schema.ts";
import type { SearchService } from "./service.ts";
import { STOP_WORDS } from "./stop_words.ts";

/** Only so much of a text is read. */
const TEXT_MAX = 4000;
const WORDS_MAX = 24;
const QUERY_MAX = 400;
/** Characters of an excerpt, and how many of them come before the first match. */
const EXCERPT_MAX = 600;
const EXCERPT_BEFORE = 150;
const WORD = /[\p{L}\p{N}\p{M}]+/gu;

type RecallRequest = {
  text: string;
  /** Kinds of resources; those that the actor's token may not read are ignored. */
  kinds: readonly string[];
  roomIds?: readonly string[] | undefined;
  limit: number;
  /** Resources as they are at this time; default now. */
  at?: string | undefined;
};
/** A resource that was found, with the part of its text that matches best. */
export type RecallHit = { kind: string; id: string; score: number; item: unknown; excerpt: string };
type RecallResponse = { hits: RecallHit[]; isDegraded: boolean };

/** Finds what the actor may find now. Throws nothing where the search fails: its response is degraded. */
export type Recall = (actor: Actor, request: RecallRequest) => Promise<RecallResponse>;

export function createRecall(search: SearchService, sources: readonly Searchable[]): Recall {
  return async (actor, { text, kinds, roomIds, limit, at }) => {
    const query = queryOf(text);
    const readable = sources.filter(({ kind, scope }) => kinds.includes(kind) && hasScope(actor, scope))
      .map((source) => sourceAt(source, at));
    if (query === "" || readable.length === 0 || roomIds?.length === 0) return { hits: [], isDegraded: false };
    const request: SearchRequest = {
      query,
      filters: { types: readable.map(({ kind }) => kind), ...roomIds === undefined ? {} : { roomIds: [...roomIds] } },
      mode: "auto",
      sort: "relevance",
      include: [],
      context: 0,
      limit,
      at,
    };
    try {
      const { items, degraded } = await search.search(actor, request);
      return { hits: await hitsOf(actor, readable, items), isDegraded: degraded };
    } catch (thrown) {
      // It took too long. What is assembled without it is of use, too.
      if (isFault(thrown, "unavailable")) return { hits: [], isDegraded: true };
      throw thrown;
    }
  };
}

async function hitsOf(
  actor: Actor,
  sources: readonly Searchable[],
  results: readonly SearchResult[],
): Promise<RecallHit[]> {
  const idOf = (result: SearchResult): string => (result[result.kind] as { id: string }).id; // items have ids
  const fields = new Map<string, SearchFields>();
  for (const source of sources) {
    const ids = results.filter(({ kind }) => kind === source.kind).map(idOf);
    if (ids.length === 0) continue;
    for (const [id, resource] of await source.load(actor, ids)) fields.set(`${source.kind} ${id}`, resource.fields);
  }
  return results.flatMap((result) => {
    const own = fields.get(`${result.kind} ${idOf(result)}`);
    if (own === undefined) return [];
    const { kind, score } = result;
    return [{ kind, score, id: idOf(result), item: result[kind], excerpt: excerptOf(own, result.highlights) }];
  });
}

/** The fields as one text; of a long one the part around its first match. */
function excerptOf(fields: SearchFields, highlights: SearchResult["highlights"]): string {
  const parts = Object.entries(fields).filter(([, text]) => text !== "").map(([field, text]) => {
    if (text.length <= EXCERPT_MAX) return text;
    const match = highlights.find((highlight) => highlight.field === field)?.ranges[0]?.[0] ?? 0;
    const start = Math.max(0, match - EXCERPT_BEFORE);
    const part = truncateText(text.slice(start).replace(/^[\udc00-\udfff]/, ""), EXCERPT_MAX);
    return `${start > 0 ? "…" : ""}${part}${start + EXCERPT_MAX < text.length ? "…" : ""}`;
  });
  return parts.join("\n");
}

/** The words of a text as a query, without its syntax: of many, the longest, which are the rarest. */
function queryOf(text: string): string {
  const words = new Map(
    [...truncateText(text, TEXT_MAX).matchAll(WORD)].map(([word], at) => [word.toLowerCase(), { word, at }]),
  );
  const all = [...words.values()].filter(({ word }) => word.length <= 60);
  const named = all.filter(({ word }) => !STOP_WORDS.has(word.toLowerCase()));
  const chosen = (named.length > 0 ? named : all)
    .sort((a, b) => b.word.length - a.word.length || a.at - b.at).slice(0, Math.min(WORDS_MAX, TERMS_MAX))
    .sort((a, b) => a.at - b.at);
  let query = "";
  for (const { word } of chosen) if (query.length + word.length < QUERY_MAX) query += `${query && " "}${word}`;
  return query;
}
