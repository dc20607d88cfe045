// SQL of messages on their way out of a gateway and into one.
import { type Kysely, sql } from "kysely";
import { inList, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { Transaction } from "@/ports/store.ts";
import { mentionRows } from "./presenter.ts";
import { ThreadStore } from "./thread/store.ts";
import type { MessageEditRow, MessageRow, MessageTables, ReactionRow } from "./store.ts";

/** Where a message is, and what it shows. */
export type ExistingMessage = Pick<MessageRow, "tenant_id" | "id" | "room_id" | "seq" | "thread_id" | "files_json">;

type Db = Kysely<MessageTables>;

export class MessageArchiveStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Where messages are that exist in the tenant. */
  messages(tenantId: string, ids: readonly string[]): Promise<ExistingMessage[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("message").select(["tenant_id", "id", "room_id", "seq", "thread_id", "files_json"])
      .where(tenantIsUnindexed(tenantId)).where(inList(this.#db, "id", ids)).execute();
  }

  /** `sender clientMessageId` pairs a room has among these ids. */
  async clientIds(tenantId: string, roomId: string, ids: readonly string[]): Promise<Set<string>> {
    if (ids.length === 0) return new Set();
    const rows = await this.#db.selectFrom("message").select(["sender_id", "client_message_id"])
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("client_message_id", "in", ids).execute();
    return new Set(rows.map((row) => `${row.sender_id} ${row.client_message_id}`));
  }

  /** Recounts the replies of these roots; computed, never incremented. */
  async recountThreads(
    tenantId: string,
    rootIds: readonly string[],
  ): Promise<Pick<MessageRow, "id" | "seq" | "reply_count" | "last_reply_at">[]> {
    if (rootIds.length === 0) return [];
    return await this.#db.updateTable("message").set({
      reply_count: sql<number>`(select count(*) from message as reply where reply.tenant_id = message.tenant_id
        and reply.thread_id = message.id and reply.deleted_at is null)`,
      last_reply_at: sql<string>`(select max(created_at) from message as reply
        where reply.tenant_id = message.tenant_id and reply.thread_id = message.id and reply.deleted_at is null)`,
    }).where(tenantIsUnindexed(tenantId)).where("id", "in", rootIds)
      .returning(["id", "seq", "reply_count", "last_reply_at"]).execute();
  }

  /** Position of the last message of a room that is not newer than `at`. */
  async positionAt(tenantId: string, roomId: string, at: string): Promise<number> {
    const row = await this.#db.selectFrom("message").select(({ fn }) => fn.max("seq").as("seq"))
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("created_at", "<=", at)
      .executeTakeFirst();
    return Number(row?.seq ?? 0);
  }

  /** Messages of a room after a position. */
  messagesAfter(tenantId: string, roomId: string, after: number, limit: number): Promise<MessageRow[]> {
    return this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("seq", ">", after).orderBy("seq").limit(limit).execute();
  }

  async lastSeq(tenantId: string, roomId: string): Promise<number> {
    const row = await this.#db.selectFrom("message").select("seq").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).orderBy("seq", "desc").limit(1).executeTakeFirst();
    return Number(row?.seq ?? 0);
  }

  /** Messages of one sender in a part of a room, after the position `after`. */
  messagesBy(tenantId: string, roomId: string, senderId: string, after: number, upTo: number): Promise<MessageRow[]> {
    return this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("seq", ">", after).where("seq", "<=", upTo).where(sql.ref("sender_id"), "=", senderId)
      .where("deleted_at", "is", null).orderBy("seq").execute();
  }

  /** Reactions of one principal to messages in a part of a room. */
  reactionsBy(
    tenantId: string,
    roomId: string,
    principalId: string,
    after: number,
    upTo: number,
  ): Promise<ReactionRow[]> {
    return this.#db.selectFrom("message")
      .innerJoin(
        "reaction",
        (join) =>
          join.onRef("reaction.tenant_id", "=", "message.tenant_id").onRef("reaction.message_id", "=", "message.id"),
      )
      .selectAll("reaction").where("message.tenant_id", "=", tenantId).where("message.room_id", "=", roomId)
      .where("message.seq", ">", after).where("message.seq", "<=", upTo)
      .where("reaction.principal_id", "=", principalId).orderBy("message.seq").orderBy("reaction.key").execute();
  }

  reactionsOf(tenantId: string, messageIds: readonly string[]): Promise<ReactionRow[]> {
    if (messageIds.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("reaction").selectAll().where("tenant_id", "=", tenantId)
      .where(inList(this.#db, "message_id", messageIds)).orderBy("created_at").orderBy("key").orderBy("principal_id")
      .execute();
  }

  /** Earlier texts of a message, the last first. */
  editsOf(tenantId: string, messageId: string, limit: number): Promise<MessageEditRow[]> {
    return this.#db.selectFrom("message_edit").selectAll().where("tenant_id", "=", tenantId)
      .where("message_id", "=", messageId).orderBy("version", "desc").limit(limit).execute();
  }
}

/** Adds messages with whom they mention, their reactions and their earlier texts. */
export async function addArchivedMessages(
  tx: Transaction<MessageTables>,
  { messages, reactions, edits }: {
    messages: readonly MessageRow[];
    reactions: readonly ReactionRow[];
    edits: readonly MessageEditRow[];
  },
): Promise<void> {
  await tx.insertMany("message", messages);
  const mentions = messages.flatMap((row) => mentionRows(row, JSON.parse(row.mentions_json)));
  if (mentions.length > 0) await tx.insertMany("mention", mentions);
  if (reactions.length > 0) await tx.insertMany("reaction", reactions);
  if (edits.length > 0) await tx.insertMany("message_edit", edits);
  await new ThreadStore(tx.db).addParticipantsOf(messages);
}
