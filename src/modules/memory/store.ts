// SQL of facts, their sources, subjects and versions.
import { type Kysely, type SelectQueryBuilder, sql, type SqlBool } from "kysely";
import { collectInSlices } from "@/core/caller.ts";
import { queryInChunks, type RowSelection } from "@/core/page.ts";
import { compareText } from "@/core/text/text.ts";
import { isInVisibleRoom, type Reader, type RoomTables } from "@/modules/room/mod.ts";
import type { MessageTables } from "@/modules/message/mod.ts";
import {
  containsText,
  equalsUnindexed,
  inJsonList,
  lastIdOfSlice,
  orderedAfter,
  selectRows,
} from "@/ports/sql/filters.ts";
import { dialectOf, type Param, prepared } from "@/ports/sql/prepared.ts";
import type { Memory, ScopeType } from "./schema.ts";

export type MemoryRow = {
  tenant_id: string;
  id: string;
  scope_type: ScopeType;
  scope_id: string;
  kind: Memory["kind"];
  /** Null once forgotten. */
  text: string | null;
  /** Equal for texts that differ in spelling only; null once forgotten. */
  text_key: string | null;
  confidence: number;
  valid_from: string | null;
  valid_to: string | null;
  expires_at: string | null;
  pinned: number;
  status: Memory["status"];
  /** Position of a room's fact: readers from whom it is hidden do not see the fact. */
  position: number;
  supersedes: string | null;
  superseded_by: string | null;
  version: number;
  created_by: string;
  /** The principal that it is counted for: of an agent's fact the owner. */
  owner_id: string;
  created_at: string;
  updated_at: string;
};

export type SourceRow = { tenant_id: string; memory_id: string; message_id: string; room_id: string; seq: number };
type SubjectRow = { tenant_id: string; principal_id: string; memory_id: string };
export type VersionRow = {
  tenant_id: string;
  memory_id: string;
  version: number;
  text: string;
  status: Memory["status"];
  changed_by: string;
  at: string;
};

export type MemoryTables = RoomTables & Pick<MessageTables, "message"> & {
  memory: MemoryRow;
  memory_source: SourceRow;
  memory_subject: SubjectRow;
  memory_version: VersionRow;
};

export type Fact = { row: MemoryRow; sources: readonly SourceRow[]; subjectIds: readonly string[] };

/** A fact by its expiry. */
export type ExpiredFact = { tenant_id: string; id: string; expires_at: string };
export type MemoryScope = { type: ScopeType; id: string };

type FactFilter = {
  /** Facts of these scopes. */
  scopes?: readonly MemoryScope[] | undefined;
  scopeType?: ScopeType | undefined;
  status?: readonly MemoryRow["status"][] | undefined;
  kind?: readonly MemoryRow["kind"][] | undefined;
  subjectId?: string | undefined;
  pinned?: boolean | undefined;
  q?: string | undefined;
  /** Without those that have expired by then. */
  now: string;
};

/** The reader of a list that is not limited to a scope: the list is a superset of what it may read. */
type FactReader = { reader: Reader; agentIds: readonly string[] };

type Db = Kysely<MemoryTables>;

const sourcedBy = prepared((db: Db, value: Param<{ tenantId: string; ids: string }>, dialect) =>
  db.selectFrom("memory_source").select(["memory_id", "message_id"]).where("tenant_id", "=", value("tenantId"))
    .where(inJsonList(dialect, "message_id", value("ids"))).orderBy("memory_id")
);
const messagesById = prepared((db: Db, value: Param<{ tenantId: string; ids: string }>, dialect) =>
  db.selectFrom("message").select(["id as message_id", "room_id", "seq"]).where("tenant_id", "=", value("tenantId"))
    .where("deleted_at", "is", null).where(inJsonList(dialect, "id", value("ids")))
);

export class MemoryStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  async find(tenantId: string, id: string): Promise<Fact | undefined> {
    return (await this.findMany(tenantId, [id]))[0];
  }

  async findMany(tenantId: string, ids: readonly string[]): Promise<Fact[]> {
    const rows = await queryInChunks([...new Set(ids)], (some) => selectRows(this.#facts(), tenantId, { ids: some }));
    return rows.map(factOf);
  }

  /** Facts that search finds. */
  async findActive(tenantId: string, which: RowSelection): Promise<Fact[]> {
    return (await selectRows(this.#facts().where("status", "=", "active"), tenantId, which)).map(factOf);
  }

  /**
   * Facts with their sources and subjects, of one statement: one that is erased meanwhile would otherwise be taken for one that
   * has no sources, which more people may read.
   */
  #facts() {
    return this.#db.selectFrom("memory").selectAll().select(partsOf(this.#db));
  }

  /** The same of a page, sorted by id. SQLite would look up the parts of all rows that it sorts, not only of the page. */
  async #readPage(page: SelectQueryBuilder<MemoryTables, "memory", MemoryRow>, order: "asc" | "desc"): Promise<Fact[]> {
    const rows = await this.#db.selectFrom(page.as("memory")).selectAll().select(partsOf(this.#db)).orderBy("id", order)
      .execute();
    return rows.map(factOf);
  }

  /** Facts of a tenant that have not expired, without conditions that are absent. */
  #listed(
    tenantId: string,
    { status, kind, now }: Pick<FactFilter, "status" | "kind" | "now">,
  ): SelectQueryBuilder<MemoryTables, "memory", MemoryRow> {
    let query = this.#db.selectFrom("memory").selectAll().where("tenant_id", "=", tenantId)
      .where(({ eb, or }) => or([eb("expires_at", "is", null), eb("expires_at", ">", now)]));
    if (status !== undefined && status.length > 0) query = query.where("status", "in", status);
    if (kind !== undefined && kind.length > 0) query = query.where("kind", "in", kind);
    return query;
  }

  /** Facts before `before`, the newest first. */
  async list(
    tenantId: string,
    filter: FactFilter,
    reader: FactReader | undefined,
    before: string | undefined,
    limit: number,
  ): Promise<Fact[]> {
    const { scopes, scopeType, subjectId, pinned, q } = filter;
    let query = this.#listed(tenantId, filter);
    if (scopes !== undefined) {
      query = query.where(({ or, and }) => or(scopes.map(({ type, id }) => and({ scope_type: type, scope_id: id }))));
    }
    if (reader !== undefined) {
      const own = [reader.reader.principalId, ...reader.agentIds];
      query = query.where(({ eb, or, and }) =>
        or([
          and([
            eb("scope_type", "=", "room"),
            isInVisibleRoom(this.#db as unknown as Kysely<RoomTables>, tenantId, "memory.scope_id", reader.reader),
          ]),
          and([eb("scope_type", "in", ["principal", "agent"]), eb("scope_id", "in", own)]),
          // Without an index: else SQLite reads the facts of each kind of scope by its own, and sorts all of them.
          equalsUnindexed("scope_type", "tenant"),
          // What an agent knows about a person.
          and([eb("scope_type", "=", "agent"), isAbout(tenantId, reader.reader.principalId)]),
        ])
      );
    }
    if (scopeType !== undefined) query = query.where("scope_type", "=", scopeType);
    if (pinned !== undefined) query = query.where("pinned", "=", pinned ? 1 : 0);
    if (q !== undefined) query = query.where(containsText("text", q));
    if (subjectId !== undefined) query = query.where(isAbout(tenantId, subjectId));
    const page = (until: string | undefined, since: string | undefined, rows: number) =>
      this.#readPage(
        query.$if(until !== undefined, (part) => part.where("id", "<", until ?? ""))
          .$if(since !== undefined, (part) => part.where("id", ">=", since ?? "")).orderBy("id", "desc").limit(rows),
        "desc",
      );
    if (scopes !== undefined && q === undefined) return await page(before, undefined, limit);
    // All facts of the tenant or of its scopes may be read for few.
    return await collectInSlices(before, limit, async (until, left) => {
      const next = await lastIdOfSlice(this.#db, "memory", tenantId, until, "desc");
      return { rows: await page(until, next, left), next };
    });
  }

  /** Facts about a principal, and those of its own scope. */
  async listAbout(
    tenantId: string,
    principalId: string,
    filter: FactFilter,
    before: string | undefined,
    limit: number,
  ): Promise<Fact[]> {
    let query = this.#listed(tenantId, filter).where(({ eb, or, and }) =>
      or([and([eb("scope_type", "=", "principal"), eb("scope_id", "=", principalId)]), isAbout(tenantId, principalId)])
    );
    if (before !== undefined) query = query.where("id", "<", before);
    return await this.#readPage(query.orderBy("id", "desc").limit(limit), "desc");
  }

  /** Active facts and proposals of a scope with the same text. */
  async findByText(tenantId: string, { type, id }: MemoryScope, textKey: string): Promise<Fact[]> {
    const rows = await this.#facts().where("tenant_id", "=", tenantId)
      .where("scope_type", "=", type).where("scope_id", "=", id).where("text_key", "=", textKey)
      .where("status", "in", ["active", "proposed"]).orderBy("status").orderBy("id").limit(50).execute();
    return rows.map(factOf);
  }

  /** Whether a scope has `max` facts that are not forgotten. */
  async hasInScope(tenantId: string, { type, id }: MemoryScope, max: number): Promise<boolean> {
    const found = await this.#db.selectFrom("memory").select("id").where("tenant_id", "=", tenantId)
      .where("scope_type", "=", type).where("scope_id", "=", id)
      .where("status", "in", ["proposed", "active", "superseded"]).limit(1).offset(max - 1).execute();
    return found.length > 0;
  }

  /** Whether `max` facts are counted for a principal, tombstones included, which are deleted after a while. */
  async hasOfOwner(tenantId: string, ownerId: string, max: number): Promise<boolean> {
    const found = await this.#db.selectFrom("memory").select("id").where("tenant_id", "=", tenantId)
      .where("owner_id", "=", ownerId).limit(1).offset(max - 1).execute();
    return found.length > 0;
  }

  async countBySource(tenantId: string, messageIds: readonly string[]): Promise<Map<string, number>> {
    const rows = await sourcedBy.all(this.#db, { tenantId, ids: JSON.stringify(messageIds) });
    return new Map([...Map.groupBy(rows, (row) => row.message_id)].map(([id, group]) => [id, group.length]));
  }

  async add({ row, sources, subjectIds }: Fact): Promise<void> {
    await this.#db.insertInto("memory").values(row).execute();
    if (sources.length > 0) await this.#db.insertInto("memory_source").values([...sources]).execute();
    await this.#addSubjects(row, subjectIds);
  }

  async update({ row, subjectIds }: Fact): Promise<void> {
    const { tenant_id: tenantId, id, ...set } = row;
    await this.#db.updateTable("memory").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
    await this.#db.deleteFrom("memory_subject").where("tenant_id", "=", tenantId).where("memory_id", "=", id).execute();
    await this.#addSubjects(row, subjectIds);
  }

  async #addSubjects({ tenant_id, id }: MemoryRow, subjectIds: readonly string[]): Promise<void> {
    if (subjectIds.length === 0) return;
    const rows = subjectIds.map((principal_id) => ({ tenant_id, principal_id, memory_id: id }));
    await this.#db.insertInto("memory_subject").values(rows).execute();
  }

  async addVersion(row: VersionRow, keep: number): Promise<void> {
    await this.#db.insertInto("memory_version").values(row).execute();
    await this.#db.deleteFrom("memory_version").where("tenant_id", "=", row.tenant_id)
      .where("memory_id", "=", row.memory_id).where("version", "<=", row.version - keep).execute();
  }

  /** Versions before `before`, the newest first. */
  versions(tenantId: string, id: string, before: number | undefined, limit: number): Promise<VersionRow[]> {
    let query = this.#db.selectFrom("memory_version").selectAll().where("tenant_id", "=", tenantId)
      .where("memory_id", "=", id);
    if (before !== undefined) query = query.where("version", "<", before);
    return query.orderBy("version", "desc").limit(limit).execute();
  }

  /** Deletes what belongs to facts, and with `withRows` the facts themselves. */
  async erase(tenantId: string, ids: readonly string[], { withRows = false } = {}): Promise<void> {
    if (ids.length === 0) return;
    for (const table of ["memory_source", "memory_subject", "memory_version"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("memory_id", "in", ids).execute();
    }
    if (!withRows) return;
    await this.#db.deleteFrom("memory").where("tenant_id", "=", tenantId).where("id", "in", ids).execute();
  }

  async removeSources(tenantId: string, id: string, messageIds: readonly string[]): Promise<void> {
    await this.#db.deleteFrom("memory_source").where("tenant_id", "=", tenantId).where("memory_id", "=", id)
      .where("message_id", "in", messageIds).execute();
  }

  /** Ids of facts with one of these messages as a source. */
  async idsBySource(tenantId: string, messageIds: readonly string[]): Promise<string[]> {
    const rows = await sourcedBy.all(this.#db, { tenantId, ids: JSON.stringify(messageIds) });
    return [...new Set(rows.map(({ memory_id }) => memory_id))];
  }

  /** Ids of facts with a source in a room, after `after`. */
  async idsBySourceRoom(tenantId: string, roomId: string, after: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("memory_source").select("memory_id").distinct()
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("memory_id", ">", after)
      .orderBy("memory_id").limit(limit).execute();
    return rows.map(({ memory_id }) => memory_id);
  }

  /** Ids of facts of a scope after `after`, forgotten ones included. */
  async idsOfScope(tenantId: string, { type, id }: MemoryScope, after: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("memory").select("id").where("tenant_id", "=", tenantId)
      .where("scope_type", "=", type).where("scope_id", "=", id).where("id", ">", after).orderBy("id").limit(limit)
      .execute();
    return rows.map((row) => row.id);
  }

  /** Facts in archives, by id: without erased ones, and without those whose sources were all deleted. */
  async exported(
    tenantId: string,
    { type, id }: { type: ScopeType; id: string | undefined },
    after: string,
    now: string,
    limit: number,
  ): Promise<Fact[]> {
    let query = this.#listed(tenantId, { status: ["active", "superseded", "proposed"], now })
      .where("scope_type", "=", type).where("id", ">", after)
      .where(sql<SqlBool>`(not exists (select 1 from memory_source as s where s.tenant_id = memory.tenant_id
          and s.memory_id = memory.id)
        or exists (select 1 from memory_source as s
          join message as m on m.tenant_id = s.tenant_id and m.id = s.message_id
          where s.tenant_id = memory.tenant_id and s.memory_id = memory.id and m.deleted_at is null))`);
    if (id !== undefined) query = query.where("scope_id", "=", id);
    return await this.#readPage(query.orderBy("id").limit(limit), "asc");
  }

  /** Of these messages, those that exist and are not deleted, as sources. */
  async sourceMessages(
    tenantId: string,
    ids: readonly string[],
  ): Promise<Map<string, Pick<SourceRow, "message_id" | "room_id" | "seq">>> {
    const rows = await messagesById.all(this.#db, { tenantId, ids: JSON.stringify(ids) });
    return new Map(rows.map((row) => [row.message_id, { ...row, seq: Number(row.seq) }]));
  }

  /** Facts of all tenants that have expired, after one of them. */
  async expired(now: string, after: ExpiredFact | undefined, limit: number): Promise<ExpiredFact[]> {
    const facts = this.#db.selectFrom("memory").select(["tenant_id", "id", "expires_at"]).where("expires_at", "<=", now)
      .where("status", "<>", sql.lit("forgotten"));
    return await orderedAfter(facts, ["expires_at", "id"], after && [after.expires_at, after.id])
      .$narrowType<ExpiredFact>().limit(limit).execute();
  }

  /** Deletes tombstones of all tenants that are older than `before`. */
  async removeTombstones(before: string): Promise<void> {
    await this.#db.deleteFrom("memory").where("status", "=", sql.lit("forgotten")).where("updated_at", "<", before)
      .execute();
  }
}

/** Columns for the sources and subjects of a `memory`. */
function partsOf(db: Db) {
  const isSqlite = dialectOf(db) === "sqlite";
  const [group, array] = isSqlite ? ["json_group_array", "json_array"] : ["json_agg", "json_build_array"];
  const [asGroup, asArray] = [sql.raw(group), sql.raw(array)];
  return [
    sql<string | null>`(select cast(${asGroup}(${asArray}(s.message_id, s.room_id, s.seq)) as text)
      from memory_source as s where s.tenant_id = memory.tenant_id and s.memory_id = memory.id)`.as("source_list"),
    sql<string | null>`(select cast(${asGroup}(s.principal_id) as text)
      from memory_subject as s where s.tenant_id = memory.tenant_id and s.memory_id = memory.id)`.as("subject_list"),
  ] as const;
}

type ListedFact = MemoryRow & { source_list: string | null; subject_list: string | null };

function factOf({ source_list, subject_list, ...row }: ListedFact): Fact {
  const sources: [string, string, number][] = JSON.parse(source_list ?? "[]");
  const subjectIds: string[] = JSON.parse(subject_list ?? "[]");
  return {
    row,
    sources: sources.map(([message_id, room_id, seq]) => ({
      tenant_id: row.tenant_id,
      memory_id: row.id,
      message_id,
      room_id,
      seq,
    })).sort((a, b) => a.seq - b.seq || compareText(a.message_id, b.message_id)),
    subjectIds: subjectIds.sort(),
  };
}

function isAbout(tenantId: string, principalId: string) {
  return sql<SqlBool>`memory.id in (select s.memory_id from memory_subject as s
    where s.tenant_id = ${tenantId} and s.principal_id = ${principalId})`;
}
