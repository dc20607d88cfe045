// SQL of the audit log.
import { type Kysely, sql } from "kysely";
import { type Param, prepared } from "@/ports/sql/prepared.ts";

export type AuditRow = {
  tenant_id: string;
  /** In the order of time. */
  id: string;
  at: string;
  actor_id: string;
  /** The owner of an agent that acted. */
  owner_id: string | null;
  token_id: string | null;
  operation: string;
  via: string;
  request_id: string | null;
  resource_id: string | null;
  changes_json: string;
  ip: string | null;
  user_agent: string | null;
  /** Position in the chain of the tenant, without gaps. */
  seq: number;
  /** Signs the entry and the hash before it; empty in entries from before the chain. */
  hash: string;
  /** Null once who did it was erased. */
  who_salt: string | null;
  who_digest: string;
  /** The same for what it was done to. */
  what_salt: string | null;
  what_digest: string;
};
/** The last entry that was deleted from the old end of a chain. */
export type CutRow = { tenant_id: string; seq: number; hash: string; signature: string };
export type AuditTables = { audit_entry: AuditRow; audit_cut: CutRow };
type HeadRow = { tenant_id: string; seq: number; hash: string; at: string | null };
type AuditFilter = {
  actorId?: string | undefined;
  operations?: readonly string[] | undefined;
  resourceId?: string | undefined;
  /** ISO, inclusive. */
  from?: string | undefined;
  /** ISO, exclusive. */
  to?: string | undefined;
};

/** Tenants that have entries, and null, by one look at the index for each: there are far more entries than tenants. */
const TENANTS = sql`with recursive tenants(id) as (
  select min(tenant_id) from audit_entry
  union all select (select min(tenant_id) from audit_entry where tenant_id > tenants.id) from tenants where id is not null
)`;

const newest = prepared((db: Kysely<AuditTables>, value: Param<{ tenantId: string }>) =>
  db.selectFrom("audit_entry").select(["seq", "hash"]).where("tenant_id", "=", value("tenantId"))
    .orderBy("seq", "desc").limit(sql.lit(1))
);

export class AuditStore {
  readonly #db: Kysely<AuditTables>;

  constructor(db: Kysely<AuditTables>) {
    this.#db = db;
  }

  /** The newest first, of those before an id, and not before another one. */
  list(
    tenantId: string,
    filter: AuditFilter,
    { before, since }: { before?: string | undefined; since?: string | undefined },
    limit: number,
  ): Promise<AuditRow[]> {
    const { actorId, operations, resourceId, from, to } = filter;
    if (operations?.length === 0) return Promise.resolve([]);
    let query = this.#db.selectFrom("audit_entry").selectAll().where("tenant_id", "=", tenantId);
    if (before !== undefined) query = query.where("id", "<", before);
    if (since !== undefined) query = query.where("id", ">=", since);
    if (actorId !== undefined) query = query.where("actor_id", "=", actorId);
    if (operations !== undefined) query = query.where("operation", "in", operations);
    if (resourceId !== undefined) query = query.where("resource_id", "=", resourceId);
    if (from !== undefined) query = query.where("at", ">=", from);
    if (to !== undefined) query = query.where("at", "<", to);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  /** Operations with entries that have this name, or this noun in their name. Each that has any costs one look at the index. */
  async operations(tenantId: string, name: string): Promise<string[]> {
    const prefix = `${name}.`;
    const { rows } = await sql<{ name: string }>`with recursive operations(name) as (
      select min(operation) from audit_entry where tenant_id = ${tenantId}
      union all select (select min(operation) from audit_entry where tenant_id = ${tenantId} and operation > name)
        from operations where name is not null
    ) select name from operations where name = ${name} or substr(name, 1, ${sql.lit(prefix.length)}) = ${prefix}`
      .execute(this.#db);
    return rows.map((row) => row.name);
  }

  /** In the order of the chain. */
  after(tenantId: string, seq: number, limit: number): Promise<AuditRow[]> {
    return this.#db.selectFrom("audit_entry").selectAll().where("tenant_id", "=", tenantId).where("seq", ">", seq)
      .orderBy("seq").limit(limit).execute();
  }

  /** The end of a chain: its newest entry, or what was cut off last; `undefined` if it was never begun. */
  async head(tenantId: string): Promise<Pick<AuditRow, "seq" | "hash"> | undefined> {
    return await newest.first(this.#db, { tenantId }) ?? await this.cut(tenantId);
  }

  cut(tenantId: string): Promise<CutRow | undefined> {
    return this.#db.selectFrom("audit_cut").selectAll().where("tenant_id", "=", tenantId).executeTakeFirst();
  }

  async moveCut({ tenant_id, ...cut }: CutRow): Promise<void> {
    await this.#db.insertInto("audit_cut").values({ tenant_id, ...cut })
      .onConflict((conflict) => conflict.column("tenant_id").doUpdateSet(cut)).execute();
  }

  async removeUpTo(tenantId: string, seq: number): Promise<void> {
    await this.#db.deleteFrom("audit_entry").where("tenant_id", "=", tenantId).where("seq", "<=", seq).execute();
  }

  /** When the oldest entry of each tenant was written. */
  async oldestOfTenants(): Promise<{ id: string; at: string }[]> {
    const { rows } = await sql<{ id: string; at: string }>`${TENANTS} select id,
      (select at from audit_entry where tenant_id = tenants.id order by seq limit 1) as at from tenants
      where id is not null`.execute(this.#db);
    return rows;
  }

  /** The newest entry of each tenant that has one from `at` on. */
  async headsSince(at: string): Promise<HeadRow[]> {
    const { rows } = await sql<HeadRow>`${TENANTS} select tenant_id, seq, hash, at from tenants
      join audit_entry on tenant_id = tenants.id and seq = (select max(seq) from audit_entry where tenant_id = tenants.id)
      where at >= ${at}`.execute(this.#db);
    return rows;
  }

  /** How many entries there ever were, of all tenants. */
  async count(): Promise<number> {
    const { rows: [row] } = await sql<{ count: number }>`${TENANTS} select sum(seq) as count from (
      select tenant_id, max(seq) as seq from (
        select tenant_id, seq from audit_cut
        union all select id, (select max(seq) from audit_entry where tenant_id = tenants.id) from tenants where id is not null
      ) as ends group by tenant_id
    ) as heads`.execute(this.#db);
    return Number(row?.count ?? 0);
  }
}
