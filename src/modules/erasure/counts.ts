// What an erasure has done, by table.
import type { ErasedPerson } from "@/core/erasure.ts";
import { compareText } from "@/core/text/text.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { Change } from "./eraser.ts";
import type { ErasureCount } from "./schema.ts";
import { ErasureStore } from "./store.ts";

/** Adds to the counts of the erasure that is at work; part of the transaction of the change. */
export async function addCount(
  tx: AnyTransaction,
  { tenantId, pseudonymId }: ErasedPerson,
  change: Change,
): Promise<void> {
  const erasures = new ErasureStore(tx.db);
  const row = await erasures.lockRunning(tenantId, pseudonymId);
  if (row === undefined) throw new Error("Expected a running erasure, received none");
  const counts = summed([...JSON.parse(row.counts_json), change]);
  await erasures.update(tenantId, row.id, { counts_json: JSON.stringify(counts) });
}

/** One entry for each table that has any, by name. */
export function summed(changes: readonly Change[]): ErasureCount[] {
  const sum = (some: readonly Change[], what: "changed" | "deleted"): number =>
    some.reduce((total, change) => total + change[what], 0);
  return [...Map.groupBy(changes, ({ table }) => table)]
    .map(([table, some]) => ({ table, changed: sum(some, "changed"), deleted: sum(some, "deleted") }))
    .filter(({ changed, deleted }) => changed + deleted > 0).sort((one, other) => compareText(one.table, other.table));
}
