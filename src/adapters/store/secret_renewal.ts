// After a rotation of the gateway's secret: what modules store encrypted is encrypted again, so that the earlier one may be dropped.
import { sql, type SqlBool } from "kysely";
import type { EncryptedColumn } from "@/core/crypto.ts";
import { logOf } from "@/core/log.ts";
import { type Clock, HOUR_MS } from "@/core/time/clock.ts";
import type { AnyStore } from "../open.ts";

const ROWS = 200;

const log = logOf("store");

/** A task for maintenance. Nodes without the current secret, which may serve until the last one has restarted, have an hour to stop. */
export function createSecretRenewal(
  store: AnyStore,
  clock: Clock,
  columns: readonly EncryptedColumn[],
): () => Promise<void> {
  const startedAt = clock.now();
  return async () => {
    if (clock.now() - startedAt < HOUR_MS) return;
    let renewed = 0;
    for (const column of columns) renewed += await renewColumn(store, column);
    if (renewed > 0) log.info("secrets were encrypted with the current secret", { renewed });
  };
}

/** Resolves to how many were renewed. */
async function renewColumn(store: AnyStore, { table, column, encryptor, contextOf }: EncryptedColumn): Promise<number> {
  let renewed = 0;
  for (let last = { tenant_id: "", id: "" };;) {
    const rows = await store.db.selectFrom(table).select(["tenant_id", "id", column]).where(column, "is not", null)
      .where(sql<SqlBool>`(tenant_id, id) > (${last.tenant_id}, ${last.id})`)
      .orderBy("tenant_id").orderBy("id").limit(ROWS).execute();
    const changes = rows.flatMap((row) => {
      const text = encryptor.renew(row[column], contextOf({ tenant_id: row.tenant_id, id: row.id }));
      return text === undefined ? [] : [{ row, text }];
    });
    if (changes.length > 0) {
      await store.write(async (tx) => {
        for (const { row, text } of changes) {
          // Not where it was replaced meanwhile.
          await tx.db.updateTable(table).set({ [column]: text }).where("tenant_id", "=", row.tenant_id)
            .where("id", "=", row.id).where(column, "=", row[column]).execute();
        }
      });
    }
    renewed += changes.length;
    const end = rows.at(-1);
    if (end === undefined || rows.length < ROWS) return renewed;
    last = { tenant_id: end.tenant_id, id: end.id };
  }
}
