// SQL of who takes part in threads, and of what is unread in them.
import { type Kysely, sql } from "kysely";
import type { Actor } from "@/core/actor.ts";
import type { CursorKey } from "@/core/page.ts";
import { inList, orderedAfter, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import { MENTION_ALL, type MessageRow, type MessageTables, type ThreadParticipantRow } from "../store.ts";
import { REPLIES_SHOWN, THREADS_MAX, UNREAD_MAX } from "./schema.ts";

/** A thread that has replies, before it is known whether the principal may read it. */
export type FoundThread = Pick<MessageRow, "id" | "room_id" | "seq" | "last_reply_at">;

export class ThreadStore {
  readonly #db: Kysely<MessageTables>;

  constructor(db: Kysely<MessageTables>) {
    this.#db = db;
  }

  /** Adds who takes part in threads by those of the new messages that are replies. */
  async addParticipantsOf(rows: readonly MessageRow[]): Promise<void> {
    const replies = rows.filter(({ thread_id }) => thread_id !== null);
    for (const [tenantId, own] of Map.groupBy(replies, ({ tenant_id }) => tenant_id)) {
      await this.addParticipants(tenantId, own.map(({ id }) => id));
    }
  }

  /**
   * Adds who takes part in threads by these replies, or by mentions that were added to these messages: who wrote the root or a
   * reply, and who is mentioned in one. A message that is no part of a thread adds nothing.
   */
  async addParticipants(tenantId: string, messageIds: readonly string[]): Promise<void> {
    const these = sql`message.tenant_id || '' = ${tenantId} and ${inList(this.#db, "message.id", messageIds)}`;
    const parts = sql`
      select root.id as root_id, message.id, message.sender_id, message.created_at
        from message inner join message as root on root.id = coalesce(message.thread_id, message.id)
        where ${these} and (message.thread_id is not null or message.reply_count > 0)
      union
      select root.id as root_id, root.id, root.sender_id, root.created_at
        from message inner join message as root on root.id = message.thread_id where ${these}`;
    await sql`insert into thread_participant (tenant_id, message_id, principal_id, active_at)
      select ${tenantId}, root_id, principal_id, max(created_at) from (
        select root_id, sender_id as principal_id, created_at from (${parts}) as part
        union all
        select part.root_id, mention.principal_id, part.created_at from (${parts}) as part
          inner join mention on mention.message_id = part.id where mention.principal_id <> ${sql.lit(MENTION_ALL)}
      ) as taking_part where true group by root_id, principal_id
      on conflict (message_id, principal_id) do update set active_at = excluded.active_at
        where thread_participant.active_at < excluded.active_at`.execute(this.#db);
  }

  /** Sets whether a principal follows a thread, on request only if it has not decided yet; returns whether that is new. */
  async setFollowing(row: ThreadParticipantRow, { isFirst = false } = {}): Promise<boolean> {
    const isChange = isFirst
      ? sql<boolean>`thread_participant.following is null`
      : sql<boolean>`coalesce(thread_participant.following, -1) <> ${row.following}`;
    const changed = await this.#db.insertInto("thread_participant").values(row)
      .onConflict((conflict) =>
        conflict.columns(["message_id", "principal_id"]).doUpdateSet({ following: row.following }).where(isChange)
      )
      .returning("message_id").execute();
    return changed.length > 0;
  }

  /** Whether a principal follows the thread of a message, or takes part in it and has not unfollowed it. */
  async isFollowed(
    { tenantId, principalId }: Pick<Actor, "tenantId" | "principalId">,
    { id, thread_id, sender_id }: Pick<MessageRow, "id" | "thread_id" | "sender_id">,
  ): Promise<boolean> {
    const own = await this.#db.selectFrom("thread_participant").select("following")
      .where(tenantIsUnindexed(tenantId)).where("message_id", "=", thread_id ?? id)
      .where("principal_id", "=", principalId).executeTakeFirst();
    // Without replies, nobody takes part yet; the author of the message will.
    return own === undefined ? thread_id === null && sender_id === principalId : own.following !== 0;
  }

  /** Those who have decided whether to follow a thread. */
  decided(tenantId: string, rootId: string): Promise<Pick<ThreadParticipantRow, "principal_id" | "following">[]> {
    return this.#db.selectFrom("thread_participant").select(["principal_id", "following"])
      .where(tenantIsUnindexed(tenantId)).where("message_id", "=", rootId).where("following", "is not", null).execute();
  }

  /** What principals of a tenant, or one of them, have decided, by principal and time, after a row. */
  allDecided(
    tenantId: string,
    principalId: string | undefined,
    after: ThreadParticipantRow | undefined,
    limit: number,
  ): Promise<ThreadParticipantRow[]> {
    let query = this.#db.selectFrom("thread_participant").selectAll().where("tenant_id", "=", tenantId)
      .where("following", "is not", null);
    if (principalId !== undefined) query = query.where("principal_id", "=", principalId);
    const position = after && [after.principal_id, after.active_at, after.message_id];
    return orderedAfter(query, ["principal_id", "active_at", "message_id"], position).limit(limit).execute();
  }

  /** Threads of a principal, those with the newest replies first, after a position in this order. */
  find(
    { tenantId, principalId }: Pick<Actor, "tenantId" | "principalId">,
    { roomId, mayBeUnread, after }: { roomId: string | undefined; mayBeUnread: boolean; after: CursorKey | undefined },
  ): Promise<FoundThread[]> {
    const recent = this.#db.selectFrom("thread_participant").select("message_id").where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).where(sql<boolean>`coalesce(following, 1) = 1`)
      .orderBy("active_at", "desc").orderBy("message_id", "desc").limit(THREADS_MAX);
    let query = this.#db.selectFrom(recent.as("recent")).innerJoin("message", "message.id", "recent.message_id")
      .select(["message.id", "message.room_id", "message.seq", "message.last_reply_at"])
      .where(tenantIsUnindexed(tenantId, "message.tenant_id")).where("message.reply_count", ">", 0);
    if (roomId !== undefined) query = query.where(sql<string>`message.room_id || ''`, "=", roomId);
    if (mayBeUnread) {
      query = query.where(sql<boolean>`exists (select 1 from message as reply where reply.thread_id = message.id
        and reply.seq > (select me.last_read_seq from member as me where me.tenant_id = ${tenantId}
          and me.room_id = message.room_id and me.principal_id = ${principalId}))`);
    }
    return orderedAfter(query, ["message.last_reply_at", "message.id"], after, "desc").execute();
  }

  /** Unread replies of these threads in rooms of a member, by thread. */
  async unreadCounts(tenantId: string, principalId: string, rootIds: readonly string[]): Promise<Map<string, number>> {
    const unread = sql<number>`(select count(*) from (
      select reply.sender_id, reply.type, reply.deleted_at from message as reply
        where reply.tenant_id = root.tenant_id and reply.thread_id = root.id and reply.seq > me.last_read_seq
        order by reply.seq desc limit ${sql.lit(UNREAD_MAX)}
      ) as newest where newest.sender_id <> ${principalId} and newest.type <> 'system' and newest.deleted_at is null)`;
    const rows = await this.#db.selectFrom("message as root")
      .innerJoin(
        "member as me",
        (join) => join.onRef("me.room_id", "=", "root.room_id").on("me.principal_id", "=", principalId),
      )
      .select(["root.id", unread.as("unread")]).where(tenantIsUnindexed(tenantId, "root.tenant_id"))
      .where(inList(this.#db, "root.id", rootIds)).execute();
    return new Map(rows.map(({ id, unread }) => [id, Number(unread)]));
  }

  /** The newest replies of these threads, in ascending order of their positions. */
  newestReplies(tenantId: string, rootIds: readonly string[]): Promise<MessageRow[]> {
    const first = sql<number>`coalesce((select last.seq from message as last where last.thread_id = root.id
      order by last.seq desc limit 1 offset ${sql.lit(REPLIES_SHOWN - 1)}), 0)`;
    return this.#db.selectFrom("message as root")
      .innerJoin(
        "message as reply",
        (join) => join.onRef("reply.thread_id", "=", "root.id").on("reply.seq", ">=", first),
      )
      .selectAll("reply").where(tenantIsUnindexed(tenantId, "root.tenant_id"))
      .where(inList(this.#db, "root.id", rootIds)).where("reply.deleted_at", "is", null).orderBy("reply.seq").execute();
  }
}
