// Searching: find candidates within what the caller may read now, let their live text decide, rank, cut to a page.
import { type Actor, hasScope } from "@/core/actor.ts";
import { type Clock, inTime, iso, turns } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { CursorKey, Cursors } from "@/core/page.ts";
import type { Store } from "@/ports/store.ts";
import { hashGrams, markGram, roomGram } from "./gram.ts";
import type { SearchTables, Tokens } from "./index/store.ts";
import type { SearchIndexer } from "./indexer.ts";
import { Matcher } from "./matcher.ts";
import {
  EXCLUDING_WINDOWS,
  type Question,
  type SearchAnswer,
  type SearchQuery,
  type SearchResult,
  type SearchStatus,
  TERMS_MAX,
  WINDOW,
} from "./schema.ts";
import { SearchScope } from "./scope.ts";
import type { Found, Searchable } from "./searchable.ts";
import { type Candidate, type CandidateFilter, SearchStore } from "./store.ts";

const TIMEOUT_MS = 2000;
/** How long a search may spend on indexing what was sent just before. */
const CATCH_UP_MS = 800;
/** More events than this are not indexed in that time: the answer then comes at once and says that it may lack some. */
const CATCH_UP_EVENTS = 20_000;
const LAGGING_MAX = 500;
/** Up to this many rooms are worth naming to the index; beyond, rights alone decide. */
const NAMED_ROOMS_MAX = 50;
/** Rows read at once. They are let go of again: many may answer, and each may be a megabyte long. */
const LOAD_MAX = 100;

type Hit = Candidate & { score: number };
/** A question on its way to its answer: who asks, what the index is asked, whose text decides, and where a page goes on. */
type Asking = {
  actor: Actor;
  scope: SearchScope;
  filter: CandidateFilter;
  matcher: Matcher;
  after: CursorKey | undefined;
  /** Throws once it has taken too long. */
  checkTime: () => void;
};
type Deps = {
  store: Store<SearchTables>;
  clock: Clock;
  cursors: Cursors;
  indexer: SearchIndexer;
  sources: readonly Searchable[];
};

export class SearchService {
  readonly #deps: Deps;
  readonly #sources: ReadonlyMap<string, Searchable>;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#sources = new Map(deps.sources.map((source) => [source.kind, source]));
  }

  /** Answers a question as `GET` asks it. */
  simple(
    context: Context,
    { q, roomId, senderId, excludeSenderId, threadId, type, ...rest }: SearchQuery,
  ): Promise<SearchAnswer> {
    const { has, mentions, pinned, from, to, types, ...asked } = rest;
    return this.search(context, {
      ...asked,
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

  /** Answers a question, asked in the input's `field`; throws `unavailable` when that takes longer than two seconds. */
  async search({ actor }: Context, question: Question, field = "query"): Promise<SearchAnswer> {
    const answer = await inTime(this.#search(actor, question, field), TIMEOUT_MS);
    if (answer === undefined) throw tooLate();
    return answer;
  }

  /** How far the index of a tenant is. */
  async status({ tenantId }: Actor): Promise<Omit<SearchStatus, "enabled" | "modes">> {
    const search = this.#store;
    const { rooms, oldest } = await search.lag(tenantId);
    return {
      types: [...this.#sources.keys()],
      documents: await search.documents(tenantId),
      pendingRooms: rooms,
      lagMs: oldest === null ? 0 : Math.max(1, this.#deps.clock.now() - Date.parse(oldest)),
      lastError: this.#deps.indexer.lastError,
    };
  }

  get #store(): SearchStore {
    return new SearchStore(this.#deps.store.db, this.#deps.store.dialect);
  }

  async #search(actor: Actor, question: Question, field: string): Promise<SearchAnswer> {
    const startedAt = performance.now();
    for (const { kind, scope } of this.#deps.sources) {
      if (!question.filters.types.includes(kind) || hasScope(actor, scope)) continue;
      throw new Fault("scope_missing", `To find a ${kind} the token lacks the scope ${scope}`);
    }
    const checkTime = (): void => {
      if (performance.now() - startedAt > TIMEOUT_MS) throw tooLate();
    };
    const matcher = new Matcher(question.query);
    checkWords(matcher, field);
    const { limit, cursor, ...asked } = question;
    const { cursors } = this.#deps;
    const bind = ["search", actor.tenantId, actor.principalId, asked];
    const after = cursors.open(cursor, bind);
    const scope = SearchScope.of(actor);
    const filter = filterOf(question, actor);

    // What was acknowledged before this question is found by it: the rooms it reaches are indexed to their end first.
    const lagging = await this.#store.lagging(scope, filter.roomIds, LAGGING_MAX);
    const behind = lagging.reduce((sum, room) => sum + room.behind, 0);
    const isLate = (): boolean => performance.now() - startedAt > CATCH_UP_MS;
    const isCaughtUp = behind <= CATCH_UP_EVENTS && await this.#deps.indexer.catchUp(lagging, isLate);
    const tokens = matcher.terms === 0 ? undefined : await this.#tokens(scope, matcher, question);
    const asking = { actor, scope, filter, matcher, after, checkTime };
    const { hits, total } = tokens === undefined
      ? { hits: [], total: 0 }
      : question.sort === "recent"
      ? await this.#recent(asking, tokens, limit + 1)
      : await this.#relevant(asking, tokens);

    const key = (hit: Hit) => question.sort === "recent" ? [hit.n, hit.id] : [hit.score, hit.n, hit.id];
    const page = cursors.page(hits.slice(0, limit + 1), limit, bind, key, (hit) => hit);
    const items = await this.#results(asking, question.context, page.items);
    return {
      items,
      nextCursor: page.nextCursor,
      hasMore: page.hasMore,
      totalEstimate: Math.max(total, items.length),
      mode: "keyword",
      degraded: question.mode !== "keyword" || !isCaughtUp || lagging.length === LAGGING_MAX,
      tookMs: Math.round(performance.now() - startedAt),
    };
  }

  /** The hits as they are shown, each with as many messages `around` it. */
  async #results(
    { actor, scope, matcher, checkTime }: Asking,
    around: number,
    hits: readonly Hit[],
  ): Promise<SearchResult[]> {
    const found = await this.#load(actor, hits);
    // Rights once more, now that the rows have been read: they may have gone meanwhile.
    const rooms = await this.#store.visible(scope, [...new Set(hits.flatMap((hit) => hit.room_id ?? []))]);
    const items: SearchResult[] = [];
    const rest = turns();
    for (const hit of hits) {
      if (await rest()) checkTime();
      const shown = found(hit);
      if (shown === undefined || hit.room_id !== null && !rooms.has(hit.room_id)) continue;
      const hiddenUpTo = rooms.get(hit.room_id ?? "") ?? 0;
      const source = around === 0 ? undefined : this.#sources.get(hit.kind);
      const context = await source?.around?.(actor, shown.item, around, hiddenUpTo);
      items.push({
        kind: hit.kind,
        score: hit.score,
        highlights: matcher.highlights(shown.fields),
        ...(context === undefined ? {} : { context }),
        [hit.kind]: shown.item,
      });
    }
    return items;
  }

  async #tokens(scope: SearchScope, matcher: Matcher, { filters }: Question): Promise<Tokens> {
    const rooms = filters.roomIds ?? await this.#store.visibleIds(scope, NAMED_ROOMS_MAX + 1);
    const isNamed = filters.roomIds !== undefined || rooms.length <= NAMED_ROOMS_MAX;
    return {
      all: hashGrams(scope.tenantId, [...matcher.grams, ...(filters.has ?? []).filter(isIndexed).map(markGram)]),
      any: isNamed ? hashGrams(scope.tenantId, rooms.map(roomGram)) : [],
    };
  }

  /** Newest first, in steps until `wanted` are found. */
  async #recent(asking: Asking, tokens: Tokens, wanted: number): Promise<{ hits: Hit[]; total: number }> {
    const { scope, filter, after, checkTime } = asking;
    const hits: Hit[] = [];
    const step = Math.max(wanted, 50);
    let from = after === undefined ? undefined : { n: Number(after[0]), id: String(after[1]) };
    let isMore = true;
    while (isMore && hits.length < wanted) {
      checkTime();
      const candidates = await this.#store.candidates(scope, tokens, filter, from, step);
      hits.push(...await this.#match(asking, candidates));
      from = candidates.at(-1);
      isMore = candidates.length === step;
    }
    const isAll = after === undefined && !isMore;
    return { hits, total: isAll ? hits.length : await this.#store.count(scope, tokens, filter, WINDOW) };
  }

  /** The best of the newest `WINDOW` candidates; of more, where many of them are left out by what must not be found. */
  async #relevant(asking: Asking, tokens: Tokens): Promise<{ hits: Hit[]; total: number }> {
    const { scope, filter, matcher, after } = asking;
    const hits: Hit[] = [];
    let from: Candidate | undefined;
    let isMore = true;
    for (let left = matcher.excludes ? EXCLUDING_WINDOWS : 1; isMore && left > 0 && hits.length < WINDOW; left--) {
      const candidates = await this.#store.candidates(scope, tokens, filter, from, WINDOW);
      hits.push(...await this.#match(asking, candidates));
      from = candidates.at(-1);
      isMore = candidates.length === WINDOW;
    }
    hits.sort(byRelevance);
    const total = isMore && !matcher.excludes ? WINDOW : Math.min(hits.length, WINDOW);
    if (after === undefined) return { hits, total };
    const last = { score: Number(after[0]), n: Number(after[1]), id: String(after[2]) };
    return { hits: hits.filter((hit) => byRelevance(last, hit) < 0), total };
  }

  /** Those candidates whose live text answers the question. */
  async #match({ actor, matcher, checkTime }: Asking, candidates: readonly Candidate[]): Promise<Hit[]> {
    const hits: Hit[] = [];
    const rest = turns();
    for (let at = 0; at < candidates.length; at += LOAD_MAX) {
      const slice = candidates.slice(at, at + LOAD_MAX);
      const found = await this.#load(actor, slice);
      for (const candidate of slice) {
        const fields = found(candidate)?.fields;
        const score = fields === undefined ? undefined : matcher.score(fields);
        if (score !== undefined) hits.push({ ...candidate, score });
        if (await rest()) checkTime();
      }
    }
    return hits;
  }

  /** Reads rows as they are now; what is gone, or not for this actor, is found no more. */
  async #load(
    actor: Actor,
    candidates: readonly Candidate[],
  ): Promise<(candidate: Candidate) => Found | undefined> {
    const loaded = new Map<string, ReadonlyMap<string, Found>>();
    for (const [kind, group] of Map.groupBy(candidates, (candidate) => candidate.kind)) {
      const ids = group.map((candidate) => candidate.id);
      loaded.set(kind, await this.#sources.get(kind)?.load(actor, ids) ?? new Map());
    }
    return ({ kind, id }) => loaded.get(kind)?.get(id);
  }
}

type Ranked = Pick<Hit, "score" | "n" | "id">;

function byRelevance(a: Ranked, b: Ranked): number {
  return b.score - a.score || b.n - a.n || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

function filterOf({ filters }: Question, actor: Actor): CandidateFilter {
  const { types, has, from, to, senderIds, excludeSenderIds, mentions, ...rest } = filters;
  const named = (refs: readonly string[] | undefined) => refs?.map((ref) => ref === "me" ? actor.principalId : ref);
  return {
    ...rest,
    kinds: types,
    isReacted: has?.includes("reaction"),
    senderIds: named(senderIds),
    excludeSenderIds: named(excludeSenderIds),
    mentions: named(mentions),
    from: from === undefined ? undefined : iso(Date.parse(from)),
    // A day named as the end is searched to its end.
    to: to === undefined ? undefined : to.includes("T") ? iso(Date.parse(to)) : `${to}T23:59:59.999Z`,
  };
}

/** Reactions come and go, so they are looked up; what a text has is indexed with it. */
function isIndexed(mark: string): boolean {
  return mark !== "reaction";
}

/** Throws unless there is something to look for, and not too much of it. */
function checkWords(matcher: Matcher, field: string): void {
  if (matcher.terms > TERMS_MAX) {
    throw new Fault("validation_failed", `/${field}: at most ${TERMS_MAX} words, this has ${matcher.terms}`, {
      errors: [{ pointer: `/${field}`, code: "too_many_terms", detail: `At most ${TERMS_MAX} words` }],
    });
  }
  if (matcher.onlyExcludes) {
    const detail = "It only says what must not be found, so nothing is asked for";
    throw Fault.at(`/${field}`, "only_exclusions", detail);
  }
}

function tooLate(): Fault {
  return new Fault("unavailable", `The search took longer than ${TIMEOUT_MS} ms; narrow it or try again`, {
    retryAfterMs: 1000,
  });
}
