// SQL of what messages respond to.
import type { Kysely } from "kysely";
import type { MessageRow, MessageTables } from "@/modules/message/mod.ts";
import type { AnyDatabase } from "@/ports/store.ts";

const CAUSE_COLUMNS = ["id", "room_id", "seq", "sender_id", "sender_kind"] as const;
type CauseRow = Pick<MessageRow, typeof CAUSE_COLUMNS[number]>;

export class OriginStore {
  readonly #db: Kysely<Pick<MessageTables, "message">>;

  constructor(db: AnyDatabase) {
    // The messages are in every database.
    this.#db = db as unknown as Kysely<Pick<MessageTables, "message">>;
  }

  /**
   * The message that another one responds to: the one that it replies to, else the newest one before it of its thread. `undefined`
   * if it responds to none, or a person wrote in the room since.
   */
  async findCause(tenantId: string, id: string): Promise<CauseRow | undefined> {
    const message = await this.#db.selectFrom("message").select([...CAUSE_COLUMNS, "reply_to_id", "thread_id"])
      .where("tenant_id", "=", tenantId).where("id", "=", id).executeTakeFirst();
    if (message === undefined) return undefined;
    const { room_id, seq, reply_to_id, thread_id } = message;
    const cause = reply_to_id !== null
      ? await this.#find(tenantId, reply_to_id)
      : thread_id !== null
      ? await this.#newestOfThread(tenantId, thread_id, message)
      : undefined;
    if (cause === undefined) return undefined;
    const person = await this.#db.selectFrom("message").select("seq").where("tenant_id", "=", tenantId)
      .where("room_id", "=", room_id).where("seq", ">", cause.seq).where("seq", "<", seq)
      .where("sender_kind", "=", "human").limit(1).executeTakeFirst();
    return person === undefined ? cause : undefined;
  }

  #find(tenantId: string, id: string): Promise<CauseRow | undefined> {
    return this.#db.selectFrom("message").select(CAUSE_COLUMNS).where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  /** What the sender itself said in the thread is no cause. */
  async #newestOfThread(
    tenantId: string,
    threadId: string,
    { seq, sender_id }: Pick<CauseRow, "seq" | "sender_id">,
  ): Promise<CauseRow | undefined> {
    const newest = await this.#db.selectFrom("message").select(CAUSE_COLUMNS).where("tenant_id", "=", tenantId)
      .where("thread_id", "=", threadId).where("seq", "<", seq).where("sender_id", "!=", sender_id)
      .orderBy("seq", "desc").limit(1).executeTakeFirst();
    const cause = newest ?? await this.#find(tenantId, threadId);
    return cause?.sender_id === sender_id ? undefined : cause;
  }
}
