// SQL of the resources that have vectors in a space, or wait for them.
import { inChunks } from "@/core/page.ts";
import type { Kysely } from "kysely";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import { inJsonList } from "@/ports/sql/filters.ts";
import type { Dialect } from "@/ports/store.ts";
import type { VectorRef } from "@/ports/vectors.ts";

type ItemRow = {
  tenant_id: string;
  space: string;
  kind: string;
  id: string;
  /** Hash of its texts and its scopes. */
  hash: string;
  /** failed: the model refuses its text. */
  state: "pending" | "stored" | "failed";
  revision: number;
  /** Not to be embedded before. */
  due_at: string;
};

export type ItemTables = { vector_item: ItemRow };
/** A resource that this process embeds, at the revision it had. */
export type Claim = VectorRef & { revision: number };
export type ItemCounts = Record<ItemRow["state"], number>;

type Db = Kysely<ItemTables>;
type InSpace = { tenantId: string; space: string };

const CLEAR_ROWS = 1000;
/** Rows of one statement. */
const PUT_ROWS = 100;

const hashes = prepared((db: Db, value: Param<InSpace & { kind: string; ids: string }>, dialect) =>
  db.selectFrom("vector_item").select(["id", "hash"]).where("tenant_id", "=", value("tenantId"))
    .where("space", "=", value("space")).where("kind", "=", value("kind"))
    .where(inJsonList(dialect, "id", value("ids")))
);
const remove = prepared((db: Db, value: Param<{ tenantId: string; kind: string; ids: string }>, dialect) =>
  db.deleteFrom("vector_item").where("tenant_id", "=", value("tenantId")).where("kind", "=", value("kind"))
    .where(inJsonList(dialect, "id", value("ids"))).returning(["space", "id"])
);
const finish = prepared((
  db: Db,
  value: Param<InSpace & { kind: string; id: string; revision: number; state: ItemRow["state"]; hash: string }>,
) =>
  db.updateTable("vector_item").set({ state: value("state"), hash: value("hash") })
    .where("tenant_id", "=", value("tenantId")).where("space", "=", value("space")).where("kind", "=", value("kind"))
    .where("id", "=", value("id")).where("revision", "=", value("revision")).where("state", "=", "pending")
);

export class ItemStore {
  readonly #db: Db;
  readonly #dialect: Dialect;

  constructor(db: Db, dialect: Dialect) {
    this.#db = db;
    this.#dialect = dialect;
  }

  /** The hashes of resources by their ids. */
  async hashes(tenantId: string, space: string, kind: string, ids: readonly string[]): Promise<Map<string, string>> {
    const rows = await hashes.all(this.#db, { tenantId, space, kind, ids: JSON.stringify(ids) });
    return new Map(rows.map(({ id, hash }) => [id, hash]));
  }

  /** These resources wait for their vectors; all are distinct. */
  async put(rows: readonly Omit<ItemRow, "state" | "revision">[]): Promise<void> {
    for (const some of inChunks(rows, PUT_ROWS)) {
      const values = some.map((row) => ({ ...row, state: "pending" as const, revision: 1 }));
      await this.#db.insertInto("vector_item").values(values).onConflict((conflict) =>
        conflict.columns(["tenant_id", "space", "id", "kind"]).doUpdateSet((eb) => ({
          hash: eb.ref("excluded.hash"),
          due_at: eb.ref("excluded.due_at"),
          state: eb.ref("excluded.state"),
          revision: eb("vector_item.revision", "+", 1),
        }))
      ).execute();
    }
  }

  /** Removes resources from all spaces; resolves to where they were. */
  remove(tenantId: string, kind: string, ids: readonly string[]): Promise<Pick<ItemRow, "space" | "id">[]> {
    return remove.all(this.#db, { tenantId, kind, ids: JSON.stringify(ids) });
  }

  /** Claims resources that are due: until then, no other process does. */
  async claim(
    { tenantId, space }: InSpace,
    { now, until, limit }: { now: string; until: string; limit: number },
  ): Promise<Claim[]> {
    const waiting = await this.#db.selectFrom("vector_item").select(["kind", "id", "revision"])
      .where("tenant_id", "=", tenantId).where("space", "=", space).where("state", "=", "pending")
      .where("due_at", "<=", now).orderBy("due_at").orderBy("id").limit(limit)
      .$if(this.#dialect === "postgres", (query) => query.forUpdate().skipLocked()).execute();
    await this.postpone({ tenantId, space }, waiting, until);
    return waiting;
  }

  /** Ends a claim; false if the resource has changed, was removed or embedded by another meanwhile. The row is locked until the commit. */
  async finish(
    inSpace: InSpace,
    { kind, id, revision }: Claim,
    state: "stored" | "failed",
    hash: string,
  ): Promise<boolean> {
    return await finish.run(this.#db, { ...inSpace, kind, id, revision, state, hash }) > 0;
  }

  /** Removes a resource that no longer exists, if it has not changed since. */
  async drop({ tenantId, space }: InSpace, { kind, id, revision }: Claim): Promise<void> {
    await this.#db.deleteFrom("vector_item").where("tenant_id", "=", tenantId).where("space", "=", space)
      .where("kind", "=", kind).where("id", "=", id).where("revision", "=", revision).execute();
  }

  async counts({ tenantId, space }: InSpace): Promise<ItemCounts> {
    const rows = await this.#db.selectFrom("vector_item").select(({ fn }) => ["state", fn.countAll<number>().as("n")])
      .where("tenant_id", "=", tenantId).where("space", "=", space).groupBy("state").execute();
    const counts: ItemCounts = { pending: 0, stored: 0, failed: 0 };
    for (const { state, n } of rows) counts[state] = Number(n);
    return counts;
  }

  /** When the next resource is due; `undefined` if none waits. */
  async nextDue({ tenantId, space }: InSpace): Promise<string | undefined> {
    const row = await this.#db.selectFrom("vector_item").select("due_at").where("tenant_id", "=", tenantId)
      .where("space", "=", space).where("state", "=", "pending").orderBy("due_at").limit(1).executeTakeFirst();
    return row?.due_at;
  }

  /** Removes some resources of a space; resolves to whether there may be more. */
  async clear({ tenantId, space }: InSpace): Promise<boolean> {
    const rows = await this.#db.selectFrom("vector_item").select("id").where("tenant_id", "=", tenantId)
      .where("space", "=", space).limit(CLEAR_ROWS).execute();
    await this.#db.deleteFrom("vector_item").where("tenant_id", "=", tenantId).where("space", "=", space)
      .where(inJsonList(this.#dialect, "id", JSON.stringify(rows.map(({ id }) => id)))).execute();
    return rows.length === CLEAR_ROWS;
  }

  /** Makes due what waits until after `latest`. */
  async bringForward({ tenantId, space }: InSpace, { now, latest }: { now: string; latest: string }): Promise<void> {
    await this.#db.updateTable("vector_item").set({ due_at: now }).where("tenant_id", "=", tenantId)
      .where("space", "=", space).where("state", "=", "pending").where("due_at", ">", latest).execute();
  }

  /** Sets when resources are due that wait. */
  async postpone({ tenantId, space }: InSpace, refs: readonly VectorRef[], until: string): Promise<void> {
    for (const [kind, group] of Map.groupBy(refs, (ref) => ref.kind)) {
      await this.#db.updateTable("vector_item").set({ due_at: until }).where("tenant_id", "=", tenantId)
        .where("space", "=", space).where("kind", "=", kind).where("state", "=", "pending")
        .where(inJsonList(this.#dialect, "id", JSON.stringify(group.map(({ id }) => id)))).execute();
    }
  }
}
