// SQL of saved messages.
import { type Kysely, sql } from "kysely";
import { tenantIsUnindexed } from "@/ports/sql/filters.ts";

export type SavedMessageRow = {
  tenant_id: string;
  id: string;
  principal_id: string;
  message_id: string;
  room_id: string;
  state: "open" | "done";
  /** Null also after the reminder. */
  remind_at: string | null;
  saved_at: string;
};

export type SavedMessageTables = { saved_message: SavedMessageRow };
type Owner = { tenantId: string; principalId: string };

export class SavedMessageStore {
  readonly #db: Kysely<SavedMessageTables>;

  constructor(db: Kysely<SavedMessageTables>) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<SavedMessageRow | undefined> {
    return this.#db.selectFrom("saved_message").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  findOwn({ tenantId, principalId }: Owner, messageId: string): Promise<SavedMessageRow | undefined> {
    return this.#db.selectFrom("saved_message").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).where("message_id", "=", messageId).executeTakeFirst();
  }

  /** Those of a principal, the last saved first. */
  list(
    { tenantId, principalId }: Owner,
    state: SavedMessageRow["state"] | undefined,
    before: string | undefined,
    limit: number,
  ): Promise<SavedMessageRow[]> {
    let query = this.#db.selectFrom("saved_message").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId);
    if (state !== undefined) query = query.where("state", "=", state);
    if (before !== undefined) query = query.where("id", "<", before);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  /** All of a tenant by id, after an id. */
  listAll(tenantId: string, after: string, limit: number): Promise<SavedMessageRow[]> {
    return this.#db.selectFrom("saved_message").selectAll().where("tenant_id", "=", tenantId).where("id", ">", after)
      .orderBy("id").limit(limit).execute();
  }

  async count({ tenantId, principalId }: Owner): Promise<number> {
    const row = await this.#db.selectFrom("saved_message").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("principal_id", "=", principalId).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  /** Which of these messages these principals saved. */
  savesOf(
    tenantId: string,
    principalIds: readonly string[],
    messageIds: readonly string[],
  ): Promise<Pick<SavedMessageRow, "principal_id" | "message_id">[]> {
    if (messageIds.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("saved_message").select(["principal_id", "message_id"])
      .where(tenantIsUnindexed(tenantId)).where("message_id", "in", messageIds)
      .where("principal_id", "in", principalIds).execute();
  }

  /** How many each of these principals has. */
  async counts(tenantId: string, principalIds: readonly string[]): Promise<Map<string, number>> {
    if (principalIds.length === 0) return new Map();
    const rows = await this.#db.selectFrom("saved_message").select("principal_id")
      .select(({ fn }) => fn.countAll<number>().as("n")).where("tenant_id", "=", tenantId)
      .where("principal_id", "in", principalIds).groupBy("principal_id").execute();
    return new Map(rows.map((row) => [row.principal_id, Number(row.n)]));
  }

  async add(row: SavedMessageRow): Promise<void> {
    await this.#db.insertInto("saved_message").values(row).execute();
  }

  async update(tenantId: string, id: string, set: Partial<SavedMessageRow>): Promise<void> {
    await this.#db.updateTable("saved_message").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  /** Those of these messages that somebody saved. */
  async filterSaved(tenantId: string, messageIds: readonly string[]): Promise<string[]> {
    const rows = await this.#db.selectFrom("saved_message").select("message_id").distinct()
      .where(tenantIsUnindexed(tenantId)).where("message_id", "in", messageIds).execute();
    return rows.map((row) => row.message_id);
  }

  /** Rows about messages, or about all of a room, at most `limit`. */
  findAbout(
    tenantId: string,
    about: "message_id" | "room_id",
    ids: readonly string[],
    limit: number,
  ): Promise<SavedMessageRow[]> {
    return this.#db.selectFrom("saved_message").selectAll().where(tenantIsUnindexed(tenantId))
      .where(sql.ref(about), "in", ids).limit(limit).execute();
  }

  async remove(tenantId: string, ids: readonly string[]): Promise<void> {
    await this.#db.deleteFrom("saved_message").where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }
}
