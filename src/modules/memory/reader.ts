// Lists, reads and recalls facts, each as the caller may read it now.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import { readerOf } from "@/modules/room/mod.ts";
import type { Recall } from "@/modules/search/mod.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import type { MemoryAccess } from "./access.ts";
import type { ReaderAudience } from "./context/audience.ts";
import { isExpired, isValidAt, presentMemory, presentVersion, type ReadableFact, textKeyOf } from "./presenter.ts";
import type {
  Memory,
  MemoryHistory,
  MemoryList,
  MemoryMatches,
  MemoryMine,
  MemorySearch,
  MemoryVersion,
} from "./schema.ts";
import { SEARCH_KIND } from "./searchable.ts";
import { type Fact, type MemoryScope, MemoryStore, type MemoryTables } from "./store.ts";

/** Facts read at once; those that the caller may not read are left out of them. */
const STEP = 200;
/** Facts that a search ranks. */
const CANDIDATES_MAX = 100;

type Deps = {
  store: Store<MemoryTables>;
  clock: Clock;
  cursors: Cursors;
  identity: IdentityService;
  access: MemoryAccess;
  /** Absent where search is disabled. */
  recall: () => Recall | undefined;
};

type RecalledFact = { fact: ReadableFact; score: number };

export class MemoryReader {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list({ actor }: Context, { limit, cursor, scopeId, ...input }: MemoryList): Promise<Page<Memory>> {
    const { scopeType, subjectId: ref, ...rest } = input;
    const { cursors, identity } = this.#deps;
    const bind = ["memory.list", actor.tenantId, actor.principalId, scopeId ?? null, input];
    const before = cursors.decodeId(cursor, bind);
    const id = scopeId && resolvePrincipalId(actor, scopeId);
    const filter = {
      ...rest,
      scopeType,
      scopes: scopeType !== undefined && id !== undefined ? [{ type: scopeType, id }] : undefined,
      subjectId: ref && resolvePrincipalId(actor, ref),
      now: this.#now(),
    };
    const agentIds = actor.kind === "agent" ? [] : await identity.agentsOf(actor.tenantId, actor.principalId);
    const reader = filter.scopes === undefined ? { reader: readerOf(actor), agentIds } : undefined;
    const facts = await this.#readable(
      actor,
      (last) => new MemoryStore(this.#deps.store.db).list(actor.tenantId, filter, reader, last, STEP),
      before,
      limit + 1,
    );
    return cursors.page(facts, limit, bind, ({ row }) => [row.id], presentMemory);
  }

  /** What is known about the caller, as far as the caller may read it, and the caller's own facts. */
  async mine({ actor }: Context, { limit, cursor, ...input }: MemoryMine): Promise<Page<Memory>> {
    const { cursors, store } = this.#deps;
    const bind = ["memory.mine", actor.tenantId, actor.principalId, input];
    const before = cursors.decodeId(cursor, bind);
    const filter = { ...input, now: this.#now() };
    const facts = await this.#readable(
      actor,
      (last) => new MemoryStore(store.db).listAbout(actor.tenantId, actor.principalId, filter, last, STEP),
      before,
      limit + 1,
    );
    return cursors.page(facts, limit, bind, ({ row }) => [row.id], presentMemory);
  }

  async read({ actor }: Context, id: string): Promise<Memory> {
    return presentMemory(await this.#require(actor, id));
  }

  /** The versions of a fact, the newest first. */
  async history({ actor }: Context, { id, limit, cursor }: MemoryHistory): Promise<Page<MemoryVersion>> {
    const { cursors, store } = this.#deps;
    await this.#require(actor, id);
    const bind = ["memory.history", actor.tenantId, actor.principalId, id];
    const before = cursors.decode(cursor, bind)?.[0];
    const rows = await new MemoryStore(store.db).versions(
      actor.tenantId,
      id,
      before === undefined ? undefined : Number(before),
      limit + 1,
    );
    return cursors.page(rows, limit, bind, ({ version }) => [version], presentVersion);
  }

  /** Those of the facts that exist and that the actor may read. */
  async filterReadable(
    actor: Actor,
    ids: readonly string[],
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<ReadonlySet<string>> {
    const facts = await new MemoryStore(db).findMany(actor.tenantId, ids);
    const live = facts.filter(({ row }) => row.status !== "forgotten" && !isExpired(row, this.#now()));
    return new Set((await this.#deps.access.filterReadable(actor, live, { db })).map(({ row }) => row.id));
  }

  async search({ actor }: Context, { query, scopeTypes, kinds, at, limit }: MemorySearch): Promise<MemoryMatches> {
    const { facts, isDegraded } = await this.recall(actor, query, {
      limit,
      at,
      matches: ({ row }) =>
        (scopeTypes === undefined || scopeTypes.includes(row.scope_type)) &&
        (kinds === undefined || kinds.includes(row.kind)),
    });
    return {
      items: facts.map(({ fact, score }) => ({
        memory: presentMemory(fact),
        score,
        reason: fact.subjectIds.includes(actor.principalId)
          ? "matches the query, about the caller"
          : "matches the query",
      })),
      degraded: isDegraded,
    };
  }

  /** Active facts that answer a text best, those that say the same only once. */
  async recall(
    actor: Actor,
    text: string,
    { limit, at, audience, matches = () => true }: {
      limit: number;
      at?: string | undefined;
      audience?: ReaderAudience | undefined;
      matches?: (fact: Fact) => boolean;
    },
  ): Promise<{ facts: RecalledFact[]; isDegraded: boolean }> {
    const { recall, store } = this.#deps;
    const request = { text, kinds: [SEARCH_KIND], limit: CANDIDATES_MAX, at };
    const { hits, isDegraded } = await recall()?.(actor, request) ?? { hits: [], isDegraded: true };
    const now = this.#now();
    const found = await new MemoryStore(store.db).findMany(actor.tenantId, hits.map(({ id }) => id));
    const valid = found.filter((fact) => isValidAt(fact, at ?? now, now) && matches(fact));
    const readable = await this.#deps.access.filterReadable(actor, valid, { audience });
    const byId = new Map(readable.map((fact) => [fact.row.id, fact]));
    const facts = new Map<string, RecalledFact>();
    for (const { id, score } of hits) {
      const fact = byId.get(id);
      const key = textKeyOf(fact?.row.text ?? "");
      if (fact !== undefined && !facts.has(key)) facts.set(key, { fact, score });
    }
    return { facts: [...facts.values()].slice(0, limit), isDegraded };
  }

  /** Valid facts of scopes, the newest first. */
  async listValid(
    actor: Actor,
    scopes: readonly MemoryScope[],
    { pinned, limit, audience }: { pinned?: boolean; limit: number; audience?: ReaderAudience | undefined },
  ): Promise<ReadableFact[]> {
    if (scopes.length === 0) return [];
    const now = this.#now();
    const filter = { scopes, status: ["active"], pinned, now } as const;
    return await this.#readable(
      actor,
      (last) => new MemoryStore(this.#deps.store.db).list(actor.tenantId, filter, undefined, last, STEP),
      undefined,
      limit,
      { audience, matches: (fact) => isValidAt(fact, now, now) },
    );
  }

  async #require(actor: Actor, id: string): Promise<ReadableFact> {
    const fact = await new MemoryStore(this.#deps.store.db).find(actor.tenantId, id);
    const isLive = fact !== undefined && !isExpired(fact.row, this.#now());
    const [readable] = isLive ? await this.#deps.access.filterReadable(actor, [fact]) : [];
    if (readable === undefined) throw notVisible("fact");
    return readable;
  }

  /** The first `wanted` facts of a list that the actor may read. */
  async #readable(
    actor: Actor,
    read: (before: string | undefined) => Promise<Fact[]>,
    before: string | undefined,
    wanted: number,
    { audience, matches = () => true }: { audience?: ReaderAudience | undefined; matches?: (fact: Fact) => boolean } =
      {},
  ): Promise<ReadableFact[]> {
    const found: ReadableFact[] = [];
    for (let last = before;;) {
      const facts = await read(last);
      found.push(...await this.#deps.access.filterReadable(actor, facts.filter(matches), { audience }));
      last = facts.at(-1)?.row.id;
      if (facts.length < STEP || found.length >= wanted) return found.slice(0, wanted);
    }
  }

  #now(): string {
    return iso(this.#deps.clock.now());
  }
}
