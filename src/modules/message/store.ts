// SQL of messages, their mentions, edits and reactions.
import { type Kysely, sql, type SqlBool } from "kysely";
import type { PrincipalKind } from "@/core/actor.ts";
import type { CursorKey } from "@/core/page.ts";
import { compareText } from "@/core/text/text.ts";
import { deleteSome } from "@/ports/sql/deletion.ts";
import { inJsonList, inList, jsonRows, orderedAfter, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { Dialect } from "@/ports/store.ts";
import type { FileTables } from "@/modules/file/mod.ts";
import type { RoomRow, RoomTables } from "@/modules/room/mod.ts";
import { type MESSAGE_TYPES, type Reaction, REACTORS_SHOWN } from "./schema.ts";

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
  /** Hash of the content sent with the clientMessageId: distinguishes a repeat from a conflict, also after an edit. */
  fingerprint: string | null;
  metadata_json: string;
  /** Attached files, as `MessageFile`s. */
  files_json: string;
  /** Null for a message that never had any. */
  elements_json: string | null;
  pinned_at: string | null;
  edited_at: string | null;
  edit_count: number;
  deleted_at: string | null;
  version: number;
  created_at: string;
};

/** `principal_id` may be `MENTION_ALL`. */
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

export type ReactionRow = {
  tenant_id: string;
  message_id: string;
  key: string;
  principal_id: string;
  created_at: string;
};

/** The reply count of a thread's root message after a reply. */
export type ThreadCount = { replyCount: number; lastReplyAt: string };

/** Who takes part in a thread: wrote or is mentioned in the root or a reply. `message_id` is the root. */
export type ThreadParticipantRow = {
  tenant_id: string;
  message_id: string;
  principal_id: string;
  /** When the newest message was sent that the principal wrote or is mentioned in. */
  active_at: string;
  /** 1 if it follows the thread whether it takes part or not, 0 if it does not follow it; null: as long as it takes part. */
  following: number | null;
};

export type MessageTables = RoomTables & FileTables & {
  message: MessageRow;
  mention: MentionRow;
  message_edit: MessageEditRow;
  reaction: ReactionRow;
  thread_participant: ThreadParticipantRow;
};

/** Pins of a room. */
export const PINS_MAX = 100;

/** Principal id of a mention of the whole room. */
export const MENTION_ALL = "*";

type Db = Kysely<MessageTables>;
type RoomKey = { tenantId: string; roomId: string };
type ClientIdQuery = { n: number; room_id: string; sender_id: string; id: string };

const byId = prepared((db: Db, value: Param<{ tenantId: string; id: string }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId")).where("id", "=", value("id"))
);
const byIds = prepared((db: Db, value: Param<{ tenantId: string; ids: string }>, dialect) =>
  db.selectFrom("message").selectAll().where(tenantIsUnindexed(value("tenantId")))
    .where(inJsonList(dialect, "id", value("ids")))
);
const byClientId = prepared((db: Db, value: Param<RoomKey & { senderId: string; clientMessageId: string }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("sender_id", "=", value("senderId"))
    .where("client_message_id", "=", value("clientMessageId"))
);
/** The same for several at once, each a `ClientIdQuery`; PostgreSQL only. */
const byClientIds = prepared((db: Db, value: Param<{ tenantId: string; query: string }>) =>
  db.selectFrom(
    jsonRows<ClientIdQuery, "query">(value("query"), sql`query(n int, room_id text, sender_id text, id text)`),
  )
    .innerJoin(
      "message",
      (join) =>
        join.onRef("message.room_id", "=", "query.room_id").onRef("message.sender_id", "=", "query.sender_id")
          .onRef("message.client_message_id", "=", "query.id").on("message.tenant_id", "=", value("tenantId")),
    )
    .selectAll("message").select("query.n")
);
const touchRooms = prepared((db: Db, value: Param<{ tenantId: string; roomIds: string; at: string }>, dialect) =>
  db.updateTable("room").set({ last_message_at: value("at"), active_at: value("at") })
    .where(tenantIsUnindexed(value("tenantId"))).where(inJsonList(dialect, "id", value("roomIds")))
);
const pageBefore = prepared((db: Db, value: Param<RoomKey & { from: number; to: number; limit: number }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("seq", ">", value("from")).where("seq", "<", value("to"))
    .orderBy("seq", "desc").limit(value("limit"))
);

const hasMessageAfter = prepared((db: Db, value: Param<RoomKey & { kind: PrincipalKind; after: number }>) =>
  db.selectFrom("message").select("seq").where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("seq", ">", value("after"))
    .where("sender_kind", "=", value("kind")).limit(sql.lit(1))
);

/** Positions between these two, newest first when `isBackward`. */
export type SeqRange = { from: number; to: number; isBackward: boolean };

type PageFilter = {
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

  findMany(tenantId: string, ids: readonly string[]): Promise<MessageRow[]> {
    return byIds.all(this.#db, { tenantId, ids: JSON.stringify(ids) });
  }

  /** The same with the kinds of their rooms. */
  findWithRooms(tenantId: string, ids: readonly string[]): Promise<(MessageRow & { room_kind: RoomRow["kind"] })[]> {
    return this.#db.selectFrom("message").innerJoin("room", "room.id", "message.room_id").selectAll("message")
      .select("room.kind as room_kind").where("message.tenant_id", "=", tenantId).where("message.id", "in", ids)
      .orderBy("message.id").execute();
  }

  findByClientId(tenantId: string, roomId: string, senderId: string, id: string): Promise<MessageRow | undefined> {
    return byClientId.first(this.#db, { tenantId, roomId, senderId, clientMessageId: id });
  }

  /** Messages of one tenant by clientMessageId, in the order of the queries. */
  async findByClientIds(
    dialect: Dialect,
    tenantId: string,
    queries: readonly Omit<ClientIdQuery, "n">[],
  ): Promise<(MessageRow | undefined)[]> {
    if (dialect === "sqlite") {
      return await Promise.all(queries.map((one) => this.findByClientId(tenantId, one.room_id, one.sender_id, one.id)));
    }
    const query = JSON.stringify(queries.map((one, n) => ({ n, ...one })));
    const found = new Map((await byClientIds.all(this.#db, { tenantId, query })).map((row) => [row.n, row]));
    return queries.map((_, n) => found.get(n));
  }

  async touchRooms(tenantId: string, roomIds: readonly string[], at: string): Promise<void> {
    await touchRooms.run(this.#db, { tenantId, roomIds: JSON.stringify(roomIds), at });
  }

  /** Messages with `from < seq < to`; newest first when `isBackward`. */
  page(tenantId: string, roomId: string, range: SeqRange, filter: PageFilter, limit: number): Promise<MessageRow[]> {
    const { threadId, senderId, types } = filter;
    if (range.isBackward && threadId === undefined && senderId === undefined && types === undefined) {
      return pageBefore.all(this.#db, { tenantId, roomId, from: range.from, to: range.to, limit });
    }
    let query = this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("seq", ">", range.from).where("seq", "<", range.to);
    if (threadId !== undefined) query = query.where("thread_id", "=", threadId);
    if (senderId !== undefined) query = query.where("sender_id", "=", senderId);
    // An empty list filters nothing; `in ()` would be a syntax error.
    if (types !== undefined && types.length > 0) {
      query = query.where("type", "in", types);
      // Of the index of the others.
      if (!types.includes("text")) query = query.where("type", "<>", sql.lit("text"));
    }
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

  /** Recounts the threads of new replies in the order of thread ids; returns the count after each reply, by its id. */
  async recountThreads(rows: readonly MessageRow[]): Promise<Map<string, ThreadCount>> {
    const counts = new Map<string, ThreadCount>();
    const byRoot = [...Map.groupBy(rows, (row) => row.thread_id ?? "")].filter(([rootId]) => rootId !== "");
    for (const [rootId, replies] of byRoot.sort(([a], [b]) => compareText(a, b))) {
      const root = await this.recountThread(replies[0]?.tenant_id ?? "", rootId);
      for (const [n, reply] of replies.entries()) {
        const replyCount = (root?.reply_count ?? 0) - (replies.length - 1 - n);
        counts.set(reply.id, { replyCount, lastReplyAt: reply.created_at });
      }
    }
    return counts;
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

  /** Earlier versions of a message: those after a version in ascending order, or `newest` first. */
  edits(tenantId: string, messageId: string, after: number | "newest", limit: number): Promise<MessageEditRow[]> {
    let query = this.#db.selectFrom("message_edit").selectAll().where("tenant_id", "=", tenantId)
      .where("message_id", "=", messageId);
    if (after !== "newest") query = query.where("version", ">", after);
    return query.orderBy("version", after === "newest" ? "desc" : "asc").limit(limit).execute();
  }

  /** Replaces the content of messages, and deletes what there is besides: mentions, versions, reactions. */
  async replaceContent(tenantId: string, ids: readonly string[], set: Partial<MessageRow>): Promise<void> {
    for (const table of ["mention", "message_edit", "reaction"] as const) {
      await this.#db.deleteFrom(table).where(tenantIsUnindexed(tenantId)).where(inList(this.#db, "message_id", ids))
        .execute();
    }
    await this.#db.updateTable("message").set(set).set(({ eb }) => ({ version: eb("version", "+", 1) }))
      .where(tenantIsUnindexed(tenantId)).where(inList(this.#db, "id", ids)).execute();
  }

  /** Reactions to messages, the keys in the order of their first use; `me` is about `readerId`. */
  async reactions(tenantId: string, readerId: string, messageIds: readonly string[]): Promise<Map<string, Reaction[]>> {
    const reactions = new Map<string, Reaction[]>();
    if (messageIds.length === 0) return reactions;
    const sameKey = sql`partition by message_id, key`;
    const ranked = this.#db.selectFrom("reaction").select(["message_id", "key", "principal_id"])
      .select([
        sql<number>`count(*) over (${sameKey})`.as("count"),
        sql<number>`max(case when principal_id = ${readerId} then 1 else 0 end) over (${sameKey})`.as("me"),
        sql<string>`min(created_at) over (${sameKey})`.as("since"),
        sql<number>`row_number() over (${sameKey} order by created_at, principal_id)`.as("rank"),
      ])
      .where("tenant_id", "=", tenantId).where("message_id", "in", messageIds);
    const rows = await this.#db.selectFrom(ranked.as("ranked")).selectAll().where("rank", "<=", REACTORS_SHOWN)
      .orderBy("message_id").orderBy("since").orderBy("key").orderBy("rank").execute();
    for (const { message_id, key, count, me, principal_id } of rows) {
      const own = reactions.get(message_id) ?? [];
      reactions.set(message_id, own);
      const last = own.at(-1);
      if (last?.key === key) last.principalIds?.push(principal_id);
      else own.push({ key, count: Number(count), me: Number(me) === 1, principalIds: [principal_id] });
    }
    return reactions;
  }

  /** Reactions to a message, of one key or all, after a position in the order of time. */
  reactors(
    tenantId: string,
    messageId: string,
    { key, after }: { key: string | undefined; after: CursorKey | undefined },
    limit: number,
  ): Promise<Pick<ReactionRow, "key" | "principal_id" | "created_at">[]> {
    let query = this.#db.selectFrom("reaction").select(["key", "principal_id", "created_at"])
      .where("tenant_id", "=", tenantId).where("message_id", "=", messageId);
    if (key !== undefined) query = query.where("key", "=", key);
    return orderedAfter(query, ["created_at", "key", "principal_id"], after).limit(limit).execute();
  }

  /** Adds a reaction; returns whether it is new. */
  async addReaction(row: ReactionRow): Promise<boolean> {
    const added = await this.#db.insertInto("reaction").values(row).onConflict((conflict) => conflict.doNothing())
      .returning("key").execute();
    return added.length > 0;
  }

  /** Removes a principal's reaction, or all; returns whether there was one. */
  async removeReaction(
    tenantId: string,
    messageId: string,
    { key, principal_id }: Pick<ReactionRow, "key" | "principal_id">,
  ): Promise<boolean> {
    const { numDeletedRows } = await this.#db.deleteFrom("reaction").where("tenant_id", "=", tenantId)
      .where("message_id", "=", messageId).where("key", "=", key).where("principal_id", "=", principal_id)
      .executeTakeFirstOrThrow();
    return numDeletedRows > 0n;
  }

  /** Pinned messages of a room, most recently pinned first. */
  pinned(tenantId: string, roomId: string, hiddenUpTo: number, limit: number): Promise<MessageRow[]> {
    return this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      // A range on `pinned_at`, because SQLite would otherwise read all messages of the room.
      .where("pinned_at", ">", "").where("seq", ">", hiddenUpTo).orderBy("pinned_at", "desc")
      .orderBy("seq", "desc").limit(limit).execute();
  }

  /** Authors of the messages of a thread before a position, including its root, without deleted messages. */
  async threadAuthors(tenantId: string, rootId: string, before: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("message").select("sender_id").distinct().where("tenant_id", "=", tenantId)
      .where(({ eb, or }) => or([eb("thread_id", "=", rootId), eb("id", "=", rootId)]))
      .where("seq", "<", before).where("deleted_at", "is", null).execute();
    return rows.map((row) => row.sender_id);
  }

  /** Whether a principal of a kind sent a message to a room after a position. */
  async hasMessageAfter(tenantId: string, roomId: string, kind: PrincipalKind, after: number): Promise<boolean> {
    return await hasMessageAfter.first(this.#db, { tenantId, roomId, kind, after }) !== undefined;
  }

  /** The oldest stored messages of a room. */
  oldest(
    tenantId: string,
    roomId: string,
    limit: number,
  ): Promise<Pick<MessageRow, "id" | "seq" | "created_at" | "edited_at" | "files_json">[]> {
    return this.#db.selectFrom("message").select(["id", "seq", "created_at", "edited_at", "files_json"])
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).orderBy("seq").limit(limit).execute();
  }

  /** Deletes some of what messages may have any number of; returns whether there may be more. */
  async removeDependents(tenantId: string, ids: readonly string[]): Promise<boolean> {
    const ofThese = sql<SqlBool>`${tenantIsUnindexed(tenantId)} and ${inList(this.#db, "message_id", ids)}`;
    for (const table of ["reaction", "message_edit", "thread_participant"]) {
      if (await deleteSome(this.#db, table, ofThese)) return true;
    }
    return false;
  }

  /** Deletes messages with their dependents; returns the number of deleted messages. */
  async remove(tenantId: string, ids: readonly string[]): Promise<number> {
    if (ids.length === 0) return 0;
    for (const table of ["mention", "message_edit", "reaction", "thread_participant"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where(inList(this.#db, "message_id", ids))
        .execute();
    }
    const { numDeletedRows } = await this.#db.deleteFrom("message").where(tenantIsUnindexed(tenantId))
      .where(inList(this.#db, "id", ids)).executeTakeFirstOrThrow();
    return Number(numDeletedRows);
  }
}
