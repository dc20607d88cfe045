// Bytes written per day and principal, summed over all nodes.
import { queryInChunks } from "@/core/page.ts";
import type { WrittenBytes, WrittenBytesSums } from "@/core/limit/write_budget.ts";
import type { Module } from "@/core/module.ts";
import { compareText } from "@/core/text/text.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import type { CoreTables } from "./core_tables.ts";

const ROWS = 200;

export class WrittenBytesStore implements WrittenBytesSums {
  readonly #store: Pick<Store<CoreTables>, "db" | "write">;
  readonly #modules: readonly Pick<Module, "findPrincipals">[];

  constructor(store: Pick<Store<CoreTables>, "db" | "write">, modules: readonly Pick<Module, "findPrincipals">[]) {
    this.#store = store;
    this.#modules = modules;
  }

  /**
   * Adds to the sums of a day; all nodes lock rows in the same order. Who was erased before the flush is named in no row, and so
   * counts for the tenant only.
   */
  async add(written: readonly WrittenBytes[]): Promise<WrittenBytes[]> {
    const sorted = written.toSorted((a, b) => compareText(a.tenantId, b.tenantId) || compareText(a.ownerId, b.ownerId));
    const sums = await queryInChunks(sorted, (some) =>
      this.#store.write(async ({ db }) => {
        const rows = (await withoutErased(db, some, this.#modules)).map(({ tenantId, ownerId, day, bytes }) => ({
          tenant_id: tenantId,
          owner_id: ownerId,
          day,
          bytes: Math.round(bytes),
        }));
        if (rows.length === 0) return [];
        return await db.insertInto("written").values(rows)
          .onConflict((conflict) =>
            conflict.columns(["day", "tenant_id", "owner_id"]).doUpdateSet((row) => ({
              bytes: row("written.bytes", "+", row.ref("excluded.bytes")),
            }))
          ).returningAll().execute();
      }), ROWS);
    return sums.map(writtenBytes);
  }

  async read(tenantId: string, ownerId: string, day: string): Promise<WrittenBytes[]> {
    const sums = await this.#store.db.selectFrom("written").selectAll()
      .where("day", "=", day).where("tenant_id", "=", tenantId).where("owner_id", "in", [ownerId, ""]).execute();
    return sums.map(writtenBytes);
  }

  /** Deletes the days before this one. */
  async purge(before: string): Promise<void> {
    await this.#store.write(({ db }) => db.deleteFrom("written").where("day", "<", before).execute());
  }
}

async function withoutErased(
  db: AnyDatabase,
  written: readonly WrittenBytes[],
  modules: readonly Pick<Module, "findPrincipals">[],
): Promise<readonly WrittenBytes[]> {
  const owners = written.filter(({ ownerId }) => ownerId !== "").map(({ tenantId, ownerId: id }) => ({ tenantId, id }));
  const find = modules.find(({ findPrincipals }) => findPrincipals !== undefined)?.findPrincipals;
  if (find === undefined || owners.length === 0) return written;
  const found = await find(db, owners);
  const keys = new Set(found.map(({ tenantId, id }) => `${tenantId}/${id}`));
  return written.filter(({ tenantId, ownerId }) => ownerId === "" || keys.has(`${tenantId}/${ownerId}`));
}

function writtenBytes({ tenant_id, owner_id, day, bytes }: CoreTables["written"]): WrittenBytes {
  return { tenantId: tenant_id, ownerId: owner_id, day, bytes: Number(bytes) };
}
