// SQL of scheduled messages.
import type { Kysely } from "kysely";
import type { MessageTables } from "../store.ts";

export type ScheduledRow = {
  tenant_id: string;
  id: string;
  room_id: string;
  sender_id: string;
  client_message_id: string | null;
  /** Scopes of the token that scheduled it, see `textOfScopes`. */
  sender_scopes: string | null;
  /** Input of `message.send`, as filters let it through. */
  message_json: string;
  /** What the caller sent, where filters changed it. */
  given_json: string | null;
  send_at: string;
  state: "scheduled" | "failed";
  failure_json: string | null;
  version: number;
  created_at: string;
};

export type ScheduledTables = MessageTables & { scheduled_message: ScheduledRow };

export class ScheduledStore {
  readonly #db: Kysely<ScheduledTables>;

  constructor(db: Kysely<ScheduledTables>) {
    this.#db = db;
  }

  async add(row: ScheduledRow): Promise<void> {
    await this.#db.insertInto("scheduled_message").values(row).execute();
  }

  find(tenantId: string, id: string): Promise<ScheduledRow | undefined> {
    return this.#db.selectFrom("scheduled_message").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  findByClientId(tenantId: string, roomId: string, senderId: string, id: string): Promise<ScheduledRow | undefined> {
    return this.#db.selectFrom("scheduled_message").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("sender_id", "=", senderId).where("client_message_id", "=", id)
      .executeTakeFirst();
  }

  list(
    tenantId: string,
    senderId: string,
    roomId: string | undefined,
    after: string | undefined,
    limit: number,
  ): Promise<ScheduledRow[]> {
    let query = this.#db.selectFrom("scheduled_message").selectAll().where("tenant_id", "=", tenantId)
      .where("sender_id", "=", senderId);
    if (roomId !== undefined) query = query.where("room_id", "=", roomId);
    if (after !== undefined) query = query.where("id", ">", after);
    return query.orderBy("id").limit(limit).execute();
  }

  /** Failed messages of a room that were due before a time. */
  failedBefore(tenantId: string, roomId: string, before: string, limit: number): Promise<ScheduledRow[]> {
    return this.#db.selectFrom("scheduled_message").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("state", "=", "failed").where("send_at", "<", before).limit(limit).execute();
  }

  /** Removes a message; returns whether it existed. */
  async remove(tenantId: string, id: string): Promise<boolean> {
    const rows = await this.#db.deleteFrom("scheduled_message").where("tenant_id", "=", tenantId).where("id", "=", id)
      .returning("id").execute();
    return rows.length > 0;
  }

  /** The oldest scheduled messages of a room. */
  listByRoom(tenantId: string, roomId: string, limit: number): Promise<ScheduledRow[]> {
    return this.#db.selectFrom("scheduled_message").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).orderBy("id").limit(limit).execute();
  }
}
