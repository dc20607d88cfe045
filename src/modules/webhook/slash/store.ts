// SQL of commands that endpoints handle.
import type { Kysely } from "kysely";

export type SlashCommandRow = {
  tenant_id: string;
  id: string;
  room_id: string;
  name: string;
  description: string;
  url: string;
  display_name: string;
  principal_id: string;
  /** Who created it, rotated its secret or changed its address last. */
  responsible_id: string;
  /** Scopes of the tokens that did so, see `textOfScopes`. */
  scopes: string | null;
  secret_encrypted: string;
  previous_secret_encrypted: string | null;
  previous_until: string | null;
  version: number;
  created_at: string;
  updated_at: string;
};
export type SlashCommandTables = { slash_command: SlashCommandRow };

export class SlashCommandStore {
  readonly #db: Kysely<SlashCommandTables>;

  constructor(db: Kysely<SlashCommandTables>) {
    this.#db = db;
  }

  /** Adds a command; false if the room has one of this name. */
  async add(row: SlashCommandRow): Promise<boolean> {
    const added = await this.#db.insertInto("slash_command").values(row).onConflict((conflict) => conflict.doNothing())
      .returning("id").execute();
    return added.length > 0;
  }

  find(tenantId: string, id: string): Promise<SlashCommandRow | undefined> {
    return this.#db.selectFrom("slash_command").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  list(tenantId: string, roomId: string, after: string | undefined, limit: number): Promise<SlashCommandRow[]> {
    let query = this.#db.selectFrom("slash_command").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId);
    if (after !== undefined) query = query.where("id", ">", after);
    return query.orderBy("id").limit(limit).execute();
  }

  /** Changes a command; false if the room has another one of its name. */
  async update(row: SlashCommandRow): Promise<boolean> {
    const taken = await this.#db.selectFrom("slash_command").select("id").where("tenant_id", "=", row.tenant_id)
      .where("room_id", "=", row.room_id).where("name", "=", row.name).where("id", "!=", row.id).executeTakeFirst();
    if (taken !== undefined) return false;
    await this.#db.updateTable("slash_command").set(row).where("tenant_id", "=", row.tenant_id).where("id", "=", row.id)
      .execute();
    return true;
  }

  async remove(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("slash_command").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async removeOfRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#db.deleteFrom("slash_command").where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .execute();
  }
}
