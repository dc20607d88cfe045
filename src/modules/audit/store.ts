// SQL of the audit log.
import type { Kysely } from "kysely";

export type AuditRow = {
  tenant_id: string;
  /** In the order of time. */
  id: string;
  at: string;
  actor_id: string;
  /** Of an agent. */
  owner_id: string | null;
  token_id: string | null;
  operation: string;
  via: string;
  request_id: string | null;
  resource_id: string | null;
  changes_json: string;
};
export type AuditTables = { audit_entry: AuditRow };
export type AuditFilter = {
  actorId?: string | undefined;
  /** Its name, or the noun of its name. */
  operation?: string | undefined;
  resourceId?: string | undefined;
  /** ISO, inclusive. */
  from?: string | undefined;
  /** ISO, exclusive. */
  to?: string | undefined;
};

export class AuditStore {
  readonly #db: Kysely<AuditTables>;

  constructor(db: Kysely<AuditTables>) {
    this.#db = db;
  }

  async add(row: AuditRow): Promise<void> {
    await this.#db.insertInto("audit_entry").values(row).execute();
  }

  /** The newest first, before this id. */
  list(tenantId: string, filter: AuditFilter, before: string | undefined, limit: number): Promise<AuditRow[]> {
    const { actorId, operation, resourceId, from, to } = filter;
    let query = this.#db.selectFrom("audit_entry").selectAll().where("tenant_id", "=", tenantId);
    if (before !== undefined) query = query.where("id", "<", before);
    if (actorId !== undefined) query = query.where("actor_id", "=", actorId);
    if (operation !== undefined) {
      const prefix = `${operation}.`;
      query = query.where(({ eb, or, fn, val }) =>
        or([
          eb("operation", "=", operation),
          eb(fn<string>("substr", ["operation", val(1), val(prefix.length)]), "=", prefix),
        ])
      );
    }
    if (resourceId !== undefined) query = query.where("resource_id", "=", resourceId);
    if (from !== undefined) query = query.where("at", ">=", from);
    if (to !== undefined) query = query.where("at", "<", to);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  /** Deletes what is older, of all tenants, at most `limit`; returns how many. */
  async removeBefore(at: string, limit: number): Promise<number> {
    const old = this.#db.selectFrom("audit_entry").select("id").where("at", "<", at).limit(limit);
    const rows = await this.#db.deleteFrom("audit_entry").where("id", "in", old).returning("id").execute();
    return rows.length;
  }
}
