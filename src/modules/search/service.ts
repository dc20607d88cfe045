// Search: finds candidates that the caller may read, matches their current text, ranks them and returns a page.
import { type Actor, hasScope } from "@/core/actor.ts";
import { type Clock, withTimeout } from "@/core/time/clock.ts";
import { createYielder, nextSlice, runInSlices, type Steps } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import type { Cursors } from "@/core/page.ts";
import { type Searchable, sourceAt } from "@/core/searchable.ts";
import { resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { RoomPeople } from "@/modules/room/mod.ts";
import type { VectorSearch, VectorSearchResult } from "@/modules/vector/mod.ts";
import type { Store } from "@/ports/store.ts";
import { AnyWordMatcher } from "./any_word_matcher.ts";
import { CandidateLoader, type Hit } from "./candidate_loader.ts";
import { type Found, HitFinder, type Search } from "./hit_finder.ts";
import type { SearchTables } from "./index_store.ts";
import type { SearchIndexer } from "./indexer.ts";
import { type Highlight, Matcher } from "./matcher.ts";
import { IndexProgressStore } from "./progress_store.ts";
import {
  type SearchQuery,
  type SearchRequest,
  type SearchResponse,
  type SearchResult,
  type SearchStatus,
  TERMS_MAX,
} from "./schema.ts";
import { LONG_TEXT_JOB } from "./search_index.ts";
import { SearchViewer } from "./search_viewer.ts";
import { type CandidateFilter, SearchStore } from "./store.ts";
import { flagGram, hashGrams, roomGram } from "./tokenize.ts";

const TIMEOUT_MS = 2000;
/** The index is asked for no longer than this: what was found until then is to be loaded and ranked. */
const INDEX_MS = 1500;
/** What matches until then is ranked: the rest of the time is to present it. */
const MATCH_MS = 1750;
/** Maximum time that a search spends on indexing recent messages. */
const CATCH_UP_MS = 800;
/** More events than this cannot be indexed in that time; the response is then `degraded` without an attempt. */
const CATCH_UP_EVENTS = 20_000;
const LAGGING_MAX = 500;
/** Up to this many rooms, their tokens narrow the search; beyond, only the permission check does. */
const NAMED_ROOMS_MAX = 50;

type Deps = {
  store: Store<SearchTables>;
  clock: Clock;
  cursors: Cursors;
  indexer: SearchIndexer;
  sources: readonly Searchable[];
  vectors: Pick<VectorSearch, "open" | "isAvailable">;
  people: Pick<RoomPeople, "sendersOf">;
};

export class SearchService {
  readonly #deps: Deps;
  readonly #sources: ReadonlyMap<string, Searchable>;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#sources = new Map(deps.sources.map((source) => [source.kind, source]));
  }

  /** Searches with the parameters of `GET`. */
  searchByQuery(
    actor: Actor,
    { q, roomId, senderId, excludeSenderId, threadId, type, ...rest }: SearchQuery,
  ): Promise<SearchResponse> {
    const { has, mentions, pinned, from, to, types, ...options } = rest;
    return this.search(actor, {
      ...options,
      query: q,
      filters: {
        roomIds: roomId,
        senderIds: senderId,
        excludeSenderIds: excludeSenderId,
        threadIds: threadId,
        messageTypes: type,
        has,
        mentions,
        pinned,
        from,
        to,
        types,
      },
    }, "q");
  }

  /** Searches; `field` is the input field of the query, for faults. Throws `unavailable` after `TIMEOUT_MS`. */
  async search(actor: Actor, request: SearchRequest, field = "query"): Promise<SearchResponse> {
    const response = await withTimeout(this.#search(actor, request, field), TIMEOUT_MS);
    if (response === undefined) throw searchTimeout();
    return response;
  }

  /** The state of a tenant's index. */
  async status({ tenantId }: Actor): Promise<Omit<SearchStatus, "enabled" | "modes"> & { hasModel: boolean }> {
    const progress = this.#progress;
    const { rooms, oldest } = await progress.lag(tenantId, this.#deps.indexer.eventPrefix);
    return {
      types: [...this.#sources.keys()],
      documents: await progress.documents(tenantId),
      pendingRoomCount: rooms,
      lagMs: oldest === null ? 0 : Math.max(1, this.#deps.clock.now() - Date.parse(oldest)),
      lastError: this.#deps.indexer.lastError,
      hasModel: await this.#deps.vectors.isAvailable(tenantId),
    };
  }

  get #store(): SearchStore {
    return new SearchStore(this.#deps.store.db, this.#deps.store.dialect);
  }

  get #progress(): IndexProgressStore {
    return new IndexProgressStore(this.#deps.store.db, this.#deps.store.dialect);
  }

  async #search(actor: Actor, request: SearchRequest, field: string): Promise<SearchResponse> {
    const startedAt = performance.now();
    for (const { kind, scope } of this.#deps.sources) {
      if (!request.filters.types.includes(kind) || hasScope(actor, scope)) continue;
      throw new Fault("scope_missing", `Searching ${kind} requires the scope ${scope}`);
    }
    const assertInTime = (): void => {
      if (performance.now() - startedAt > TIMEOUT_MS) throw searchTimeout();
    };
    const pause = async (): Promise<void> => {
      await nextSlice();
      assertInTime();
    };
    const keywords = new Matcher(request.query);
    assertTerms(keywords, field);
    const isPlain = request.mode !== "keyword" && request.sort === "relevance";
    const matcher = isPlain ? AnyWordMatcher.of(request.query) ?? keywords : keywords;
    const vectors = usesVectors(request, keywords) ? this.#deps.vectors.open(actor, request.query) : undefined;
    // Awaited below, unless something else fails before.
    vectors?.catch(() => {});
    const { limit, cursor, include, ...conditions } = request;
    const { cursors } = this.#deps;
    const bind = ["search", actor.tenantId, actor.principalId, conditions];
    const after = cursors.decode(cursor, bind);
    const viewer = SearchViewer.of(actor);
    const filter = this.#filterOf(request, actor);

    const isCaughtUp = await this.#catchUp(viewer, filter, () => performance.now() - startedAt > CATCH_UP_MS);
    const { find, reason } = await vectors ?? {};
    const isLate = (): boolean => performance.now() - startedAt > MATCH_MS;
    const loader = new CandidateLoader(actor, this.#sourcesAt(request.at), { pause, isLate });
    const leftMs = (): number => startedAt + INDEX_MS - performance.now();
    const search = { viewer, filter, keywords, matcher, loader, after, assertInTime, leftMs, pause };
    const { hits, total, isComplete = true }: Found = keywords.termCount === 0
      ? { hits: [], total: 0 }
      : await (await this.#finder(search, request)).find(request, find);
    // This one first, since the caller can do something about it: search again.
    const isWhole = isCaughtUp && isComplete && loader.isComplete;
    const degradedReason = isWhole ? reasonFor(request.mode, reason) : "index_incomplete";

    const key = (hit: Hit) => request.sort === "recent" ? [hit.n, hit.id] : [hit.score, hit.n, hit.id];
    const page = cursors.page(hits, limit, bind, key, (hit) => hit);
    const items = await this.#results(actor, search, request.context, page.items);
    return {
      items,
      nextCursor: page.nextCursor,
      hasMore: page.hasMore,
      totalEstimate: Math.max(total, items.length),
      mode: find === undefined ? "keyword" : request.mode === "semantic" ? "semantic" : "hybrid",
      degraded: degradedReason !== undefined,
      ...degradedReason === undefined ? {} : { degradedReason },
      ...include.includes("senders")
        ? { senders: await this.#deps.people.sendersOf(actor, this.#authorsOf(items)) }
        : {},
      tookMs: Math.round(performance.now() - startedAt),
    };
  }

  /**
   * Indexes the rooms of the viewer to their end, since acknowledged messages must be found. Returns whether everything that the
   * search may find is indexed.
   */
  async #catchUp(viewer: SearchViewer, filter: CandidateFilter, isLate: () => boolean): Promise<boolean> {
    const lagging = await this.#store.lagging(viewer, filter.roomIds, LAGGING_MAX);
    const behind = lagging.reduce((sum, room) => sum + room.behind, 0);
    const isCaughtUp = behind <= CATCH_UP_EVENTS && await this.#deps.indexer.catchUp(lagging, isLate);
    const isComplete = filter.isOnlyStreamed || !await this.#progress.hasPendingJob(viewer.tenantId, LONG_TEXT_JOB);
    return isCaughtUp && isComplete && lagging.length < LAGGING_MAX;
  }

  /** The results of hits, each with `around` messages before and after it. */
  async #results(
    actor: Actor,
    { viewer, matcher, loader, pause }: Search & { pause: () => Promise<void> },
    around: number,
    hits: readonly Hit[],
  ): Promise<SearchResult[]> {
    const resourceOf = await loader.load(hits);
    // Permissions are checked again after loading, because they may have ended in between.
    const rooms = await this.#store.visible(viewer, [...new Set(hits.flatMap((hit) => hit.room_id ?? []))]);
    const shown = hits.flatMap((hit) => {
      const resource = resourceOf(hit);
      return resource === undefined || hit.room_id !== null && !rooms.has(hit.room_id) ? [] : [{ hit, resource }];
    });
    const highlighting = function* (): Steps<Highlight[][]> {
      const all: Highlight[][] = [];
      for (const { resource } of shown) {
        all.push(yield* matcher.highlights(resource.fields));
        yield;
      }
      return all;
    };
    const highlights = await runInSlices(highlighting(), pause);
    const items: SearchResult[] = [];
    const yieldIfDue = createYielder(pause);
    for (const [at, { hit, resource }] of shown.entries()) {
      await yieldIfDue();
      const hiddenUpTo = rooms.get(hit.room_id ?? "") ?? 0;
      const source = around === 0 ? undefined : this.#sources.get(hit.kind);
      const context = await source?.context?.(actor, resource.item, around, hiddenUpTo);
      items.push({
        kind: hit.kind,
        score: hit.score,
        highlights: highlights[at] ?? [],
        ...(context === undefined ? {} : { context }),
        [hit.kind]: resource.item,
      });
    }
    return items;
  }

  #sourcesAt(time: string | undefined): ReadonlyMap<string, Searchable> {
    return new Map([...this.#sources].map(([kind, source]) => [kind, sourceAt(source, time)]));
  }

  #filterOf({ filters }: SearchRequest, actor: Actor): CandidateFilter {
    const { types, has, from, to, roomIds, senderIds, excludeSenderIds, mentions, ...rest } = filters;
    const resolve = (refs: readonly string[] | undefined) => refs?.map((ref) => resolvePrincipalId(actor, ref));
    const properties = { ...rest, mentions: resolve(mentions), isReacted: has?.includes("reaction") || undefined };
    const isAsked = Object.values(properties).some((value) => value !== undefined);
    const sources = types.flatMap((kind) => this.#sources.get(kind) ?? []);
    return {
      kinds: types,
      hasFew: filters.pinned === true || filters.threadIds !== undefined,
      isOnlyStreamed: sources.every(({ stream }) => stream !== undefined),
      streamedKind: sources.length > 1 ? sources.find(({ stream }) => stream !== undefined)?.kind : undefined,
      isTenantWide: sources.some(({ isTenantWide }) => isTenantWide === true),
      roomIds,
      senderIds: resolve(senderIds),
      excludeSenderIds: resolve(excludeSenderIds),
      propertyConditions: !isAsked ? undefined : new Map(sources.flatMap((source) => {
        const conditions = source.propertyConditions?.(actor.tenantId, properties);
        return conditions === undefined ? [] : [[source.kind, conditions]];
      })),
      from,
      to,
    };
  }

  /** The authors of the items of a response and of their contexts. */
  #authorsOf(results: readonly SearchResult[]): { senderId: string; roomId: string }[] {
    return results.flatMap((result) => {
      const source = this.#sources.get(result.kind);
      const items = [result[result.kind], ...result.context?.before ?? [], ...result.context?.after ?? []];
      return items.flatMap((item) => source?.authorOf?.(item) ?? []);
    });
  }

  async #finder(search: Search, { filters }: SearchRequest): Promise<HitFinder> {
    const { viewer, matcher } = search;
    const rooms = filters.roomIds ?? await this.#store.visibleIds(viewer, NAMED_ROOMS_MAX + 1);
    const isNamed = filters.roomIds !== undefined || rooms.length <= NAMED_ROOMS_MAX;
    const grams = matcher instanceof Matcher ? matcher.requiredGrams : [];
    const flags = (filters.has ?? []).filter(isIndexed).map(flagGram);
    return new HitFinder(search, this.#store, {
      all: hashGrams(viewer.tenantId, [...grams, ...flags]),
      any: isNamed ? hashGrams(viewer.tenantId, rooms.map(roomGram)) : [],
      flags: hashGrams(viewer.tenantId, flags),
    });
  }
}

/** Modes that need an embedding model. */
function isSemantic(mode: SearchRequest["mode"]): boolean {
  return mode === "semantic" || mode === "hybrid";
}

/** Without a mode that asks for it, a query with quotes or exclusions asks for exact words, and the newest results for no ranking. */
function usesVectors({ mode, sort }: SearchRequest, keywords: Matcher): boolean {
  return isSemantic(mode) || mode === "auto" && sort === "relevance" && !keywords.isExact;
}

/** What the caller should know: a tenant without vectors has asked for none with `auto`. */
function reasonFor(mode: SearchRequest["mode"], reason: VectorSearchResult["reason"]): VectorSearchResult["reason"] {
  return isSemantic(mode) || reason === "model_unavailable" || reason === "budget_exceeded" ? reason : undefined;
}

/** Reactions change without the message, so they are queried; other properties are indexed with the text. */
function isIndexed(mark: string): boolean {
  return mark !== "reaction";
}

/** Throws if the query has too many terms, or only exclusions. */
function assertTerms(matcher: Matcher, field: string): void {
  if (matcher.termCount > TERMS_MAX) {
    const detail = `at most ${TERMS_MAX} words, received ${matcher.termCount}`;
    throw Fault.forField(`/${field}`, "too_many_terms", detail);
  }
  if (matcher.hasOnlyExclusions) {
    const detail = "The query has only excluded words; add at least one to search for";
    throw Fault.forField(`/${field}`, "only_exclusions", detail);
  }
}

function searchTimeout(): Fault {
  return new Fault("unavailable", `The search took longer than ${TIMEOUT_MS} ms; narrow it or try again`, {
    retryAfterMs: 1000,
  });
}
