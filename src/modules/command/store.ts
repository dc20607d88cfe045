// SQL of interactions.
import type { Kysely } from "kysely";

export type InteractionRow = {
  tenant_id: string;
  id: string;
  room_id: string;
  kind: "command" | "action";
  /** The command that was run, or the element that was used. */
  name: string;
  /** The message of the element. */
  message_id: string | null;
  caller_id: string;
  /** The principal that may respond. */
  responder_id: string;
  client_message_id: string | null;
  /** Hash of what was sent with the clientMessageId. */
  fingerprint: string | null;
  thread_root_id: string | null;
  /** `calling`: the node that calls it waits for a response. `accepted`: the response follows. */
  state: "calling" | "accepted" | "done";
  response_json: string | null;
  /** Responses that followed by the address that an endpoint was given. */
  late_count: number;
  called_at: string;
  created_at: string;
  expires_at: string;
};
export type InteractionTables = { interaction: InteractionRow };

export class InteractionStore {
  readonly #db: Kysely<InteractionTables>;

  constructor(db: Kysely<InteractionTables>) {
    this.#db = db;
  }

  /** Adds an interaction; false if the caller used its clientMessageId in the room before. */
  async add(row: InteractionRow): Promise<boolean> {
    const added = await this.#db.insertInto("interaction").values(row).onConflict((conflict) => conflict.doNothing())
      .returning("id").execute();
    return added.length > 0;
  }

  find(tenantId: string, id: string): Promise<InteractionRow | undefined> {
    return this.#db.selectFrom("interaction").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  findByClientId(
    { tenant_id, room_id, caller_id, client_message_id }: InteractionRow,
  ): Promise<InteractionRow | undefined> {
    return this.#db.selectFrom("interaction").selectAll().where("tenant_id", "=", tenant_id)
      .where("room_id", "=", room_id).where("caller_id", "=", caller_id)
      .where("client_message_id", "=", client_message_id).executeTakeFirst();
  }

  /** Ends an interaction; false if it has ended. */
  async finish(tenantId: string, id: string): Promise<boolean> {
    const ended = await this.#db.updateTable("interaction").set({ state: "done" })
      .where("tenant_id", "=", tenantId).where("id", "=", id).where("state", "!=", "done").returning("id").execute();
    return ended.length > 0;
  }

  /** Notes that the response follows, unless it has followed. */
  async accept(tenantId: string, id: string): Promise<void> {
    await this.#db.updateTable("interaction").set({ state: "accepted" }).where("tenant_id", "=", tenantId)
      .where("id", "=", id).where("state", "=", "calling").execute();
  }

  /** Takes over a call whose node has ended; `undefined` if another did. */
  takeOver(
    { tenant_id, id, called_at }: InteractionRow,
    set: Pick<InteractionRow, "called_at" | "expires_at">,
  ): Promise<InteractionRow | undefined> {
    return this.#db.updateTable("interaction").set(set).where("tenant_id", "=", tenant_id).where("id", "=", id)
      .where("state", "=", "calling").where("called_at", "=", called_at).returningAll().executeTakeFirst();
  }

  /** Counts a response that follows; the number, `undefined` beyond `max`. */
  async countLate(tenantId: string, id: string, max: number): Promise<number | undefined> {
    const counted = await this.#db.updateTable("interaction").set((set) => ({ late_count: set("late_count", "+", 1) }))
      .where("tenant_id", "=", tenantId).where("id", "=", id).where("late_count", "<", max).returning("late_count")
      .executeTakeFirst();
    return counted?.late_count;
  }

  async setResponse(tenantId: string, id: string, json: string): Promise<void> {
    await this.#db.updateTable("interaction").set({ response_json: json }).where("tenant_id", "=", tenantId)
      .where("id", "=", id).execute();
  }

  /** Deletes an interaction whose call failed, unless another took it over. */
  async removeFailed({ tenant_id, id, called_at }: InteractionRow): Promise<void> {
    await this.#db.deleteFrom("interaction").where("tenant_id", "=", tenant_id).where("id", "=", id)
      .where("state", "=", "calling").where("called_at", "=", called_at).execute();
  }

  /** Deletes some interactions of a room, or of all tenants that expired before a time; returns how many. */
  async removeSome(of: { tenantId: string; roomId: string } | { before: string }, limit: number): Promise<number> {
    let some = this.#db.selectFrom("interaction").select("id").limit(limit);
    some = "before" in of
      ? some.where("expires_at", "<", of.before)
      : some.where("tenant_id", "=", of.tenantId).where("room_id", "=", of.roomId);
    const removed = await this.#db.deleteFrom("interaction").where("id", "in", some).returning("id").execute();
    return removed.length;
  }
}
