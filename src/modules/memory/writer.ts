// Writes facts: row, version, event and search entry commit together.
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventActor, type EventDraft, principalStream, roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { FACTS_PER_OWNER_MAX, FACTS_PER_SCOPE_MAX, VERSIONS_MAX } from "./schema.ts";
import { SEARCH_KIND, searchEntriesOf } from "./searchable.ts";
import { type Fact, type MemoryRow, MemoryStore, type MemoryTables } from "./store.ts";

type Tx = Transaction<MemoryTables>;
type EventName = "created" | "updated" | "superseded" | "forgotten";
/** What is left of a fact that was erased. */
const FORGOTTEN = {
  text: null,
  text_key: null,
  confidence: 0,
  valid_from: null,
  valid_to: null,
  expires_at: null,
  pinned: 0,
  status: "forgotten",
} as const satisfies Partial<MemoryRow>;

type Deps = {
  store: Store<MemoryTables>;
  clock: Clock;
  identity: IdentityService;
  /** Absent if search is off. */
  index: Pick<SearchIndex, "put" | "remove"> | undefined;
};

export class MemoryWriter {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Adds a fact, whose `position` is that of its event where it has no source. The scope is locked. */
  async add(tx: Tx, actor: EventActor, fact: Fact): Promise<Fact> {
    const { tenant_id: tenantId, scope_type: type, scope_id: id, owner_id: ownerId } = fact.row;
    const memories = new MemoryStore(tx.db);
    if (await memories.hasInScope(tenantId, { type, id }, FACTS_PER_SCOPE_MAX)) {
      throw new Fault("limit_reached", `A scope has at most ${FACTS_PER_SCOPE_MAX} facts; forget some first`);
    }
    if (await memories.hasOfOwner(tenantId, ownerId, FACTS_PER_OWNER_MAX)) {
      throw new Fault("limit_reached", `A principal creates at most ${FACTS_PER_OWNER_MAX} facts; forget some first`);
    }
    return await this.#insert(tx, actor, fact);
  }

  async #insert(tx: Tx, actor: EventActor | undefined, fact: Fact): Promise<Fact> {
    const memories = new MemoryStore(tx.db);
    const [event] = await this.#emit(tx, actor, fact, "created");
    const row = fact.sources.length > 0 ? fact.row : { ...fact.row, position: event?.seq ?? 0 };
    const added = { ...fact, row };
    await memories.add(added);
    await this.#recordVersion(memories, actor ?? { principalId: row.created_by }, row);
    await this.#index(tx, added);
    return added;
  }

  /** Adds a fact of an archive; the import has checked rights and limits. */
  async addImported(tx: Tx, fact: Fact): Promise<Fact> {
    return await this.#insert(tx, undefined, fact);
  }

  /** Writes the next version of a fact; `more` is what its event has besides. */
  async save(
    tx: Tx,
    actor: EventActor,
    fact: Fact,
    name: "updated" | "superseded",
    more: Record<string, unknown> = {},
  ): Promise<Fact> {
    const changed = this.#next(fact);
    const memories = new MemoryStore(tx.db);
    await memories.update(changed);
    await this.#recordVersion(memories, actor, changed.row);
    await this.#emit(tx, actor, changed, name, more);
    await this.#index(tx, changed);
    return changed;
  }

  /** Writes a fact that lost some of its sources. */
  async saveSources(tx: Tx, fact: Fact): Promise<void> {
    const changed = this.#next(fact);
    await new MemoryStore(tx.db).update(changed);
    await this.#emit(tx, undefined, changed, "updated");
    await this.#index(tx, changed);
  }

  /** Erases a fact: its text, sources, subjects and versions. Its id remains for a while. */
  async erase(tx: Tx, actor: EventActor | undefined, { row }: Fact): Promise<void> {
    const memories = new MemoryStore(tx.db);
    const fact = this.#next({ row: { ...row, ...FORGOTTEN }, sources: [], subjectIds: [] });
    await memories.erase(row.tenant_id, [row.id]);
    await memories.update(fact);
    await this.#emit(tx, actor, fact, "forgotten");
    await this.#deps.index?.remove(row.tenant_id, SEARCH_KIND, [row.id]);
  }

  #next({ row, ...rest }: Fact): Fact {
    return { ...rest, row: { ...row, version: row.version + 1, updated_at: iso(this.#deps.clock.now()) } };
  }

  async #recordVersion(
    memories: MemoryStore,
    { principalId }: Pick<EventActor, "principalId">,
    row: MemoryRow,
  ): Promise<void> {
    await memories.addVersion({
      tenant_id: row.tenant_id,
      memory_id: row.id,
      version: row.version,
      text: row.text ?? "",
      status: row.status,
      changed_by: principalId,
      at: row.updated_at,
    }, VERSIONS_MAX);
  }

  async #emit(
    tx: Tx,
    actor: EventActor | undefined,
    { row, sources }: Fact,
    name: EventName,
    more: Record<string, unknown> = {},
  ) {
    const { scope_type: type, scope_id: id } = row;
    const isPositioned = type === "room" && (row.position > 0 || sources.length > 0);
    const draft: Omit<EventDraft, "stream"> = {
      tenantId: row.tenant_id,
      type: `memory.${name}`,
      actor,
      data: { memoryId: row.id, scope: { type, id }, status: row.status, version: row.version, ...more },
      ...isPositioned ? { effect: { kind: "concerns", seq: row.position } } : {},
    };
    return await tx.emit(...(await this.#streamsOf(tx, row)).map((stream) => ({ ...draft, stream })));
  }

  /** Where the events of a fact appear: of an agent's also for its owner, of the tenant's for who created it. */
  async #streamsOf(
    { db }: Tx,
    { tenant_id, scope_type: type, scope_id: id, created_by }: MemoryRow,
  ): Promise<string[]> {
    if (type === "room") return [roomStream(id)];
    if (type === "tenant") return [principalStream(created_by)];
    const agent = type === "agent" ? (await this.#deps.identity.findEnabled(tenant_id, [id], db)).get(id) : undefined;
    return [principalStream(id), ...agent?.owner_id ? [principalStream(agent.owner_id)] : []];
  }

  async #index({ db }: Tx, fact: Fact): Promise<void> {
    const { index, identity } = this.#deps;
    const { tenant_id: tenantId, id, status } = fact.row;
    if (status !== "active") return await index?.remove(tenantId, SEARCH_KIND, [id]);
    await index?.put(...await searchEntriesOf(identity, tenantId, [fact], db));
  }
}
