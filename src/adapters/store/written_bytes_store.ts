// Bytes written per day and principal, summed over all nodes.
import { queryInChunks } from "@/core/page.ts";
import type { AddWrittenBytes } from "@/core/limit/write_budget.ts";
import { compareText } from "@/core/text/text.ts";
import type { Store } from "@/ports/store.ts";
import type { CoreTables } from "./core_tables.ts";

const ROWS = 200;

/** Adds to the sums of a day; all nodes lock rows in the same order. */
export function createAddWrittenBytes(store: Pick<Store<CoreTables>, "write">): AddWrittenBytes {
  return async (written) => {
    const rows = written.map(({ tenantId, ownerId, day, bytes }) => ({
      tenant_id: tenantId,
      owner_id: ownerId,
      day,
      bytes: Math.round(bytes),
    })).sort((a, b) => compareText(a.tenant_id, b.tenant_id) || compareText(a.owner_id, b.owner_id));
    const sums = await queryInChunks(rows, (some) =>
      store.write(({ db }) =>
        db.insertInto("written").values(some)
          .onConflict((conflict) =>
            conflict.columns(["day", "tenant_id", "owner_id"]).doUpdateSet((row) => ({
              bytes: row("written.bytes", "+", row.ref("excluded.bytes")),
            }))
          ).returning(["tenant_id", "owner_id", "day", "bytes"]).execute()
      ), ROWS);
    return sums.map(({ tenant_id, owner_id, day, bytes }) => ({
      tenantId: tenant_id,
      ownerId: owner_id,
      day,
      bytes: Number(bytes),
    }));
  };
}

/** Deletes the days before this one. */
export async function deleteWrittenBytes(store: Pick<Store<CoreTables>, "write">, before: string): Promise<void> {
  await store.write(({ db }) => db.deleteFrom("written").where("day", "<", before).execute());
}
