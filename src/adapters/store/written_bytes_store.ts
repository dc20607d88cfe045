// Bytes written per day and principal, summed over all nodes.
import { queryInChunks } from "@/core/page.ts";
import type { AddWrittenBytes, WrittenBytes } from "@/core/limit/write_budget.ts";
import type { Module } from "@/core/module.ts";
import { compareText } from "@/core/text/text.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import type { CoreTables } from "./core_tables.ts";

const ROWS = 200;

/**
 * Adds to the sums of a day; all nodes lock rows in the same order. Who was erased before the flush is named in no row, and so
 * counts for the tenant only.
 */
export function createAddWrittenBytes(
  store: Pick<Store<CoreTables>, "write">,
  modules: readonly Pick<Module, "findPrincipals">[],
): AddWrittenBytes {
  return async (written) => {
    const sorted = written.toSorted((a, b) => compareText(a.tenantId, b.tenantId) || compareText(a.ownerId, b.ownerId));
    const sums = await queryInChunks(sorted, (some) =>
      store.write(async ({ db }) => {
        const rows = (await withoutErased(db, some, modules)).map(({ tenantId, ownerId, day, bytes }) => ({
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
          ).returning(["tenant_id", "owner_id", "day", "bytes"]).execute();
      }), ROWS);
    return sums.map(({ tenant_id, owner_id, day, bytes }) => ({
      tenantId: tenant_id,
      ownerId: owner_id,
      day,
      bytes: Number(bytes),
    }));
  };
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

/** Deletes the days before this one. */
export async function deleteWrittenBytes(store: Pick<Store<CoreTables>, "write">, before: string): Promise<void> {
  await store.write(({ db }) => db.deleteFrom("written").where("day", "<", before).execute());
}
