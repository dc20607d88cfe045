// Facts as searchables: active ones, found by those that may read their scope and one of their sources.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import type { RowSelection } from "@/core/page.ts";
import { EVERYONE, type LoadedResource, type Searchable, type SearchEntry } from "@/core/searchable.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import type { MemoryAccess } from "./access.ts";
import { isValidAt, presentMemory, type ReadableFact } from "./presenter.ts";
import { Memory } from "./schema.ts";
import { type Fact, MemoryStore, type MemoryTables } from "./store.ts";

export const SEARCH_KIND = "memory";

type Deps = { store: Store<MemoryTables>; clock: Clock; identity: IdentityService; access: MemoryAccess };

export class MemorySearchable implements Searchable {
  readonly kind = SEARCH_KIND;
  readonly scope = "memory.read";
  readonly item = Memory;
  readonly isTenantWide = true;
  readonly #deps: Deps;
  readonly #at: string | undefined;

  /** Facts that are true at the time; default now. */
  constructor(deps: Deps, at?: string) {
    this.#deps = deps;
    this.#at = at;
  }

  at(time: string): MemorySearchable {
    return new MemorySearchable(this.#deps, time);
  }

  async load(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, LoadedResource>> {
    const readable = await this.#readable(actor, ids);
    return new Map(readable.map((fact) => [
      fact.row.id,
      { fields: { text: fact.row.text ?? "" }, item: presentMemory(fact) },
    ]));
  }

  async filterVisible(actor: Actor, ids: readonly string[]): Promise<ReadonlySet<string>> {
    return new Set((await this.#readable(actor, ids)).map(({ row }) => row.id));
  }

  async #readable(actor: Actor, ids: readonly string[]): Promise<ReadableFact[]> {
    const { store, clock, access } = this.#deps;
    const now = iso(clock.now());
    const facts = await new MemoryStore(store.db).findMany(actor.tenantId, ids);
    return await access.filterReadable(actor, facts.filter((fact) => isValidAt(fact, this.#at ?? now, now)));
  }

  async entries(
    tenantId: string,
    which: RowSelection,
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<readonly SearchEntry[]> {
    const facts = await new MemoryStore(db).findActive(tenantId, which);
    return await searchEntriesOf(this.#deps.identity, tenantId, facts, db);
  }
}

/** Entries of facts of a tenant. Agents' facts are found by their owners, and by people whom they are about. */
export async function searchEntriesOf(
  identity: IdentityService,
  tenantId: string,
  facts: readonly Fact[],
  db: AnyDatabase,
): Promise<SearchEntry[]> {
  const agentIds = facts.flatMap(({ row }) => row.scope_type === "agent" ? [row.scope_id] : []);
  const agents = await identity.findEnabled(tenantId, [...new Set(agentIds)], db);
  return facts.map(({ row, subjectIds }): SearchEntry => {
    const { scope_type: type, scope_id: id } = row;
    const ownerId = type === "agent" ? agents.get(id)?.owner_id ?? [] : [];
    return {
      tenantId,
      kind: SEARCH_KIND,
      id: row.id,
      roomId: type === "room" ? id : null,
      principalId: type === "principal" || type === "agent" ? id : null,
      readerIds: type === "tenant" ? [EVERYONE, ...subjectIds] : type === "agent" ? [ownerId, subjectIds].flat() : [],
      authorId: row.created_by,
      seq: type === "room" ? row.position : null,
      at: row.created_at,
      version: row.version,
      texts: [row.text ?? ""],
    };
  });
}
