// Rows by ids that are unique across all tenants, in tables with `tenant_id` and `id`.
import { candidateIds, LocalIds, type OriginalRef } from "@/core/archive/ids.ts";
import type { AnyDatabase } from "@/core/migration.ts";
import { inList, tenantIsUnindexed } from "./filters.ts";

/** Which of these ids other tenants have: those are not free. */
export async function idsOfOtherTenants(
  db: AnyDatabase,
  table: string,
  tenantId: string,
  ids: readonly string[],
): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db.selectFrom(table).select("id").where("tenant_id", "<>", tenantId).where(inList(db, "id", ids))
    .execute();
  return new Set(rows.map((row) => row.id));
}

/** The value of `column`, such as a container, in rows of the tenant by id. */
export async function readColumnById(
  db: AnyDatabase,
  table: string,
  column: string,
  tenantId: string,
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db.selectFrom(table).select(["id", column]).where(tenantIsUnindexed(tenantId))
    .where(inList(db, "id", ids)).execute();
  return new Map(rows.map((row) => [row.id, row[column]]));
}

/** Which of these ids rows of the tenant have, deleted ones too. */
export async function existingIds(
  db: AnyDatabase,
  table: string,
  tenantId: string,
  ids: readonly string[],
): Promise<Set<string>> {
  return new Set((await readColumnById(db, table, "tenant_id", tenantId, ids)).keys());
}

/** The ids that resources of an archive have in a table. */
export async function loadLocalIds(
  db: AnyDatabase,
  table: string,
  tenantId: string,
  refs: readonly OriginalRef[],
): Promise<LocalIds> {
  const existing = await existingIds(db, table, tenantId, [...new Set(refs.flatMap(candidateIds))]);
  return new LocalIds(existing, await idsOfOtherTenants(db, table, tenantId, refs.map(({ original }) => original)));
}
