// Bytes written per day and principal, summed over all nodes.
import type { Kysely } from "kysely";
import { queryInChunks } from "@/core/page.ts";
import type { AddWrittenBytes } from "@/core/limit/write_budget.ts";
import { compareText } from "@/core/text/text.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import type { CoreTables } from "./core_tables.ts";

const ROWS = 200;

type Tables = CoreTables & { principal: { tenant_id: string; id: string } };

/** Adds to the sums of a day; all nodes lock rows in the same order. Who was erased meanwhile is counted no more. */
export function createAddWrittenBytes(store: Pick<Store<CoreTables>, "write">): AddWrittenBytes {
  return async (written) => {
    const rows = written.map(({ tenantId, ownerId, day, bytes }) => ({
      tenant_id: tenantId,
      owner_id: ownerId,
      day,
      bytes: Math.round(bytes),
    })).sort((a, b) => compareText(a.tenant_id, b.tenant_id) || compareText(a.owner_id, b.owner_id));
    const sums = await queryInChunks(rows, (some) =>
      store.write(async ({ db }) => {
        const present = await findPresent(db, some);
        if (present.length === 0) return [];
        return await db.insertInto("written").values(present)
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

/** Rows of tenants, and of principals that are there. */
async function findPresent<Row extends { tenant_id: string; owner_id: string }>(
  db: AnyDatabase,
  rows: readonly Row[],
): Promise<Row[]> {
  const people = await (db as unknown as Kysely<Tables>).selectFrom("principal").select(["tenant_id", "id"])
    .where("tenant_id", "in", [...new Set(rows.map((row) => row.tenant_id))])
    .where("id", "in", rows.map((row) => row.owner_id)).execute();
  const known = new Set(people.map(({ tenant_id, id }) => `${tenant_id}/${id}`));
  return rows.filter(({ tenant_id, owner_id }) => owner_id === "" || known.has(`${tenant_id}/${owner_id}`));
}

/** Deletes the days before this one. */
export async function deleteWrittenBytes(store: Pick<Store<CoreTables>, "write">, before: string): Promise<void> {
  await store.write(({ db }) => db.deleteFrom("written").where("day", "<", before).execute());
}
