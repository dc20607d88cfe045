// SQL of imports: what of an archive's tasks, events and meetings is there already, and what came in before.
import type { Kysely } from "kysely";
import { isOfTenant } from "@/ports/list.ts";
import { byChunks } from "@/core/chunks.ts";
import type { BroughtRow, TransferTables } from "../store.ts";

export class CarriedStore {
  readonly #db: Kysely<TransferTables>;

  constructor(db: Kysely<TransferTables>) {
    this.#db = db;
  }

  /** In which rooms these meetings are, by their ids. */
  async meetings(tenantId: string, ids: readonly string[]): Promise<Map<string, string>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#db.selectFrom("meeting").select(["id", "room_id"]).where(isOfTenant(tenantId))
      .where("id", "in", ids).execute();
    return new Map(rows.map((row) => [row.id, row.room_id]));
  }

  /** Of which meetings these participants or segments are, by their ids. */
  async meetingParts(
    tenantId: string,
    table: "meeting_participant" | "meeting_segment",
    ids: readonly string[],
  ): Promise<Map<string, string>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#db.selectFrom(table).select(["id", "meeting_id"]).where(isOfTenant(tenantId))
      .where("id", "in", ids).execute();
    return new Map(rows.map((row) => [row.id, row.meeting_id]));
  }

  /** Which of these events exist. */
  async events(tenantId: string, ids: readonly string[]): Promise<Set<string>> {
    const rows = await this.#db.selectFrom("calendar_event").select("id").where(isOfTenant(tenantId))
      .where("id", "in", ids).execute();
    return new Set(rows.map((row) => row.id));
  }

  /** Which of these tasks exist, deleted ones too. */
  async tasks(tenantId: string, ids: readonly string[]): Promise<Set<string>> {
    if (ids.length === 0) return new Set();
    const rows = await this.#db.selectFrom("task").select("id").where(isOfTenant(tenantId)).where("id", "in", ids)
      .execute();
    return new Set(rows.map((row) => row.id));
  }

  /** Those of these parts that an import brought in, and more of the same names. */
  brought(tenantId: string, parts: readonly Omit<BroughtRow, "tenant_id">[]): Promise<BroughtRow[]> {
    const wholes = [...new Set(parts.map(({ whole }) => whole))];
    return byChunks(
      parts,
      (some) =>
        this.#db.selectFrom("transfer_brought").selectAll().where("tenant_id", "=", tenantId)
          .where("whole", "in", wholes).where("name", "in", some.map(({ name }) => name)).execute(),
    );
  }

  async noteBrought(rows: readonly BroughtRow[]): Promise<void> {
    await byChunks(
      rows,
      (some) =>
        this.#db.insertInto("transfer_brought").values(some).onConflict((conflict) => conflict.doNothing()).execute(),
    );
  }

  async forgetBrought(tenantId: string, whole: string): Promise<void> {
    await this.#db.deleteFrom("transfer_brought").where("tenant_id", "=", tenantId).where("whole", "=", whole)
      .execute();
  }
}
