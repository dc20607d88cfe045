// SQL of the spaces of a tenant.
import { type Kysely, sql } from "kysely";
import { type Param, prepared } from "@/ports/sql/prepared.ts";

/** building: not complete yet; active: searched; retired: to be deleted. At most one of each of the first two. */
type SpaceState = "building" | "active" | "retired";

export type SpaceRow = {
  tenant_id: string;
  id: string;
  model: string;
  engine: string;
  /** Known with the first vector. */
  dimensions: number | null;
  state: SpaceState;
  kind: string | null;
  after_id: string | null;
  missing: number;
  failures: number;
  paused_code: string | null;
  paused_until: string | null;
  created_at: string;
  activated_at: string | null;
};

export type SpaceTables = { vector_space: SpaceRow };
type Db = Kysely<SpaceTables>;

const all = prepared((db: Db, value: Param<{ tenantId: string }>) =>
  db.selectFrom("vector_space").selectAll().where("tenant_id", "=", value("tenantId"))
);

export class SpaceStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  all(tenantId: string): Promise<SpaceRow[]> {
    return all.all(this.#db, { tenantId });
  }

  /** The one that is searched, and the one that is to replace it. */
  async current(tenantId: string): Promise<{ active: SpaceRow | undefined; building: SpaceRow | undefined }> {
    const spaces = await this.all(tenantId);
    const inState = (wanted: SpaceState) => spaces.find(({ state }) => state === wanted);
    return { active: inState("active"), building: inState("building") };
  }

  find(tenantId: string, id: string): Promise<SpaceRow | undefined> {
    return this.#db.selectFrom("vector_space").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  async add(row: SpaceRow): Promise<void> {
    await this.#db.insertInto("vector_space").values(row).execute();
  }

  /** Resolves to whether it was in this state. */
  async setState(tenantId: string, id: string, from: SpaceState, to: SpaceState, now: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("vector_space")
      .set(to === "active" ? { state: to, activated_at: now } : { state: to })
      .where("tenant_id", "=", tenantId).where("id", "=", id).where("state", "=", from).executeTakeFirst();
    return numUpdatedRows > 0;
  }

  /** Sets the dimensions once; resolves to those that it has. */
  async setDimensions(tenantId: string, id: string, dimensions: number): Promise<number | null> {
    await this.#db.updateTable("vector_space").set({ dimensions }).where("tenant_id", "=", tenantId)
      .where("id", "=", id).where("dimensions", "is", null).execute();
    return (await this.find(tenantId, id))?.dimensions ?? null;
  }

  async update(
    tenantId: string,
    id: string,
    set: Partial<Pick<SpaceRow, "kind" | "after_id" | "missing" | "failures" | "paused_code" | "paused_until">>,
  ): Promise<void> {
    await this.#db.updateTable("vector_space").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  async remove(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("vector_space").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async tenants(): Promise<string[]> {
    const rows = await this.#db.selectFrom("vector_space").select("tenant_id").distinct().execute();
    return rows.map((row) => row.tenant_id);
  }

  /** Counts for metrics, of all tenants: vectors that are stored, and resources that wait for theirs. */
  async totals(): Promise<{ vectors: number; pending: number }> {
    const { rows: [row] } = await sql<{ vectors: number | null; pending: number }>`select
      (select sum(rows) from vector_scope) as vectors,
      (select count(*) from vector_space as space join vector_item as item on item.tenant_id = space.tenant_id
        and item.space = space.id and item.state = 'pending') as pending`.execute(this.#db);
    return { vectors: Number(row?.vectors ?? 0), pending: Number(row?.pending ?? 0) };
  }
}
