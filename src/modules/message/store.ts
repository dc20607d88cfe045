// SQL of messages, their mentions and their history of edits.
import type { Kysely } from "kysely";
import type { PrincipalKind } from "@/core/actor.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { RoomTables } from "@/modules/room/mod.ts";
import type { MESSAGE_TYPES } from "./schema.ts";

export type MessageRow = {
  tenant_id: string;
  id: string;
  room_id: string;
  seq: number;
  sender_id: string;
  sender_kind: PrincipalKind;
  type: (typeof MESSAGE_TYPES)[number];
  text: string | null;
  format: "markdown" | "plain";
  thread_id: string | null;
  reply_to_id: string | null;
  mentions_json: string;
  reply_count: number;
  last_reply_at: string | null;
  client_message_id: string | null;
  /** Hash of what was sent with the clientMessageId, so that a repeat is told from a clash even after an edit. */
  fingerprint: string | null;
  metadata_json: string;
  edited_at: string | null;
  edit_count: number;
  deleted_at: string | null;
  version: number;
  created_at: string;
};

/** `principal_id` is `*` for a mention of the whole room. */
export type MentionRow = {
  tenant_id: string;
  room_id: string;
  seq: number;
  principal_id: string;
  message_id: string;
};

export type MessageEditRow = {
  tenant_id: string;
  message_id: string;
  version: number;
  text: string | null;
  editor_id: string;
  at: string;
};

export type MessageTables = RoomTables & { message: MessageRow; mention: MentionRow; message_edit: MessageEditRow };

/** How far counts go; beyond it nobody reads the number. */
export const COUNT_MAX = 10_000;
export const EVERYBODY = "*";

type Db = Kysely<MessageTables>;
type Key = { tenantId: string; roomId: string };

const byId = prepared((db: Db, value: Param<{ tenantId: string; id: string }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId")).where("id", "=", value("id"))
);
const byClientId = prepared((db: Db, value: Param<Key & { senderId: string; clientMessageId: string }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("sender_id", "=", value("senderId"))
    .where("client_message_id", "=", value("clientMessageId"))
);
const touchRoom = prepared((db: Db, value: Param<Key & { at: string }>) =>
  db.updateTable("room").set({ last_message_at: value("at"), active_at: value("at") })
    .where("tenant_id", "=", value("tenantId")).where("id", "=", value("roomId"))
);
const pageBefore = prepared((db: Db, value: Param<Key & { from: number; to: number; limit: number }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("seq", ">", value("from")).where("seq", "<", value("to"))
    .orderBy("seq", "desc").limit(value("limit"))
);
const countUnread = prepared((db: Db, value: Param<Key & { principalId: string; after: number; limit: number }>) =>
  db.selectFrom(
    db.selectFrom("message").select("seq").where("tenant_id", "=", value("tenantId"))
      .where("room_id", "=", value("roomId")).where("seq", ">", value("after"))
      .where("sender_id", "<>", value("principalId")).where("deleted_at", "is", null).where("type", "<>", "system")
      .limit(value("limit")).as("unread"),
  ).select(({ fn }) => fn.countAll<number>().as("n"))
);
const countMentions = prepared((db: Db, value: Param<Key & { principalId: string; after: number; limit: number }>) =>
  db.selectFrom(
    db.selectFrom("mention").innerJoin("message", "message.id", "mention.message_id").select("mention.seq").distinct()
      .where("mention.tenant_id", "=", value("tenantId")).where("mention.room_id", "=", value("roomId"))
      .where("mention.seq", ">", value("after")).where("message.sender_id", "<>", value("principalId"))
      .where(({ eb, or }) =>
        or([eb("mention.principal_id", "=", value("principalId")), eb("mention.principal_id", "=", EVERYBODY)])
      ).limit(value("limit")).as("mentions"),
  ).select(({ fn }) => fn.countAll<number>().as("n"))
);

export type PageFilter = {
  threadId?: string | undefined;
  senderId?: string | undefined;
  types?: readonly MessageRow["type"][] | undefined;
};

export class MessageStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<MessageRow | undefined> {
    return byId.first(this.#db, { tenantId, id });
  }

  byClientId(tenantId: string, roomId: string, senderId: string, id: string): Promise<MessageRow | undefined> {
    return byClientId.first(this.#db, { tenantId, roomId, senderId, clientMessageId: id });
  }

  async touchRoom(tenantId: string, roomId: string, at: string): Promise<void> {
    await touchRoom.run(this.#db, { tenantId, roomId, at });
  }

  /** Messages with `from < seq < to`; newest first when `isBackward`. */
  page(
    tenantId: string,
    roomId: string,
    range: { from: number; to: number; isBackward: boolean },
    filter: PageFilter,
    limit: number,
  ): Promise<MessageRow[]> {
    const { threadId, senderId, types } = filter;
    if (range.isBackward && threadId === undefined && senderId === undefined && types === undefined) {
      return pageBefore.all(this.#db, { tenantId, roomId, from: range.from, to: range.to, limit });
    }
    let query = this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("seq", ">", range.from).where("seq", "<", range.to);
    if (threadId !== undefined) query = query.where("thread_id", "=", threadId);
    if (senderId !== undefined) query = query.where("sender_id", "=", senderId);
    if (types !== undefined) query = query.where("type", "in", types);
    return query.orderBy("seq", range.isBackward ? "desc" : "asc").limit(limit).execute();
  }

  async update(tenantId: string, id: string, set: Partial<MessageRow>): Promise<void> {
    await this.#db.updateTable("message").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Recounts the replies of a thread; computed, never incremented. */
  async recountThread(tenantId: string, rootId: string): Promise<MessageRow | undefined> {
    const { n, last } = await this.#db.selectFrom("message")
      .select(({ fn }) => [fn.countAll<number>().as("n"), fn.max("created_at").as("last")])
      .where("tenant_id", "=", tenantId).where("thread_id", "=", rootId).where("deleted_at", "is", null)
      .executeTakeFirstOrThrow();
    return await this.#db.updateTable("message").set({ reply_count: Number(n), last_reply_at: last })
      .where("tenant_id", "=", tenantId).where("id", "=", rootId).returningAll().executeTakeFirst();
  }

  async removeMentions(tenantId: string, messageId: string): Promise<void> {
    await this.#db.deleteFrom("mention").where("tenant_id", "=", tenantId).where("message_id", "=", messageId)
      .execute();
  }

  async addMentions(rows: readonly MentionRow[]): Promise<void> {
    if (rows.length > 0) await this.#db.insertInto("mention").values(rows).execute();
  }

  async addEdit(row: MessageEditRow): Promise<void> {
    await this.#db.insertInto("message_edit").values(row).execute();
  }

  edits(tenantId: string, messageId: string): Promise<MessageEditRow[]> {
    return this.#db.selectFrom("message_edit").selectAll().where("tenant_id", "=", tenantId)
      .where("message_id", "=", messageId).orderBy("version").execute();
  }

  async removeEdits(tenantId: string, messageId: string): Promise<void> {
    await this.#db.deleteFrom("message_edit").where("tenant_id", "=", tenantId).where("message_id", "=", messageId)
      .execute();
  }

  /** Unread messages and mentions of a member after a position, each at most `COUNT_MAX`. */
  async countUnread(
    tenantId: string,
    roomId: string,
    principalId: string,
    after: number,
  ): Promise<{ unreadCount: number; mentionCount: number }> {
    const values = { tenantId, roomId, principalId, after, limit: COUNT_MAX };
    const [unread, mentions] = await Promise.all([
      countUnread.first(this.#db, values),
      countMentions.first(this.#db, values),
    ]);
    return { unreadCount: Number(unread?.n ?? 0), mentionCount: Number(mentions?.n ?? 0) };
  }

  /** The same for many rooms of one member. */
  async countUnreadIn(
    tenantId: string,
    principalId: string,
    rooms: readonly { id: string; lastReadSeq: number }[],
  ): Promise<Map<string, { unreadCount: number; mentionCount: number }>> {
    const counts = await Promise.all(
      rooms.map(({ id, lastReadSeq }) => this.countUnread(tenantId, id, principalId, lastReadSeq)),
    );
    return new Map(rooms.flatMap(({ id }, place) => counts[place] === undefined ? [] : [[id, counts[place]]]));
  }

  /** Removes up to `limit` messages of a room with all that hangs on them; returns how many went. */
  async purge(tenantId: string, roomId: string, limit: number): Promise<number> {
    const rows = await this.#db.selectFrom("message").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).limit(limit).execute();
    const ids = rows.map((row) => row.id);
    if (ids.length === 0) return 0;
    await this.#db.deleteFrom("mention").where("tenant_id", "=", tenantId).where("message_id", "in", ids).execute();
    await this.#db.deleteFrom("message_edit").where("tenant_id", "=", tenantId).where("message_id", "in", ids)
      .execute();
    await this.#db.deleteFrom("message").where("tenant_id", "=", tenantId).where("id", "in", ids).execute();
    return ids.length;
  }
}
