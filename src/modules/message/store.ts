// SQL of messages, their mentions and their history of edits.
import { type Kysely, sql } from "kysely";
import type { PrincipalKind } from "@/core/actor.ts";
import { isOfTenant, isOneOf, rowsOf } from "@/ports/list.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { Dialect } from "@/ports/store.ts";
import type { FileTables } from "@/modules/file/mod.ts";
import type { RoomTables } from "@/modules/room/mod.ts";
import type { MESSAGE_TYPES, Reaction } from "./schema.ts";

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
  /** What is attached, as `MessageFile`s. */
  files_json: string;
  pinned_at: string | null;
  edited_at: string | null;
  edit_count: number;
  deleted_at: string | null;
  version: number;
  created_at: string;
};

/** `principal_id` may be `EVERYBODY`. */
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

export type MessageTables = RoomTables & FileTables & {
  message: MessageRow;
  mention: MentionRow;
  message_edit: MessageEditRow;
  reaction: ReactionRow;
};

/** Stands in a mention for the whole room. */
export const EVERYBODY = "*";

type Db = Kysely<MessageTables>;
type Key = { tenantId: string; roomId: string };
type AskedId = { n: number; room_id: string; sender_id: string; id: string };

const byId = prepared((db: Db, value: Param<{ tenantId: string; id: string }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId")).where("id", "=", value("id"))
);
const byIds = prepared((db: Db, value: Param<{ tenantId: string; ids: string }>, dialect) =>
  db.selectFrom("message").selectAll().where(isOfTenant(value("tenantId")))
    .where(isOneOf(dialect, "id", value("ids")))
);
const byClientId = prepared((db: Db, value: Param<Key & { senderId: string; clientMessageId: string }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("sender_id", "=", value("senderId"))
    .where("client_message_id", "=", value("clientMessageId"))
);
/** The same for many at once, each an `AskedId`; PostgreSQL only. */
const byClientIds = prepared((db: Db, value: Param<{ tenantId: string; asked: string }>) =>
  db.selectFrom(rowsOf<AskedId, "asked">(value("asked"), sql`asked(n int, room_id text, sender_id text, id text)`))
    .innerJoin(
      "message",
      (join) =>
        join.onRef("message.room_id", "=", "asked.room_id").onRef("message.sender_id", "=", "asked.sender_id")
          .onRef("message.client_message_id", "=", "asked.id").on("message.tenant_id", "=", value("tenantId")),
    )
    .selectAll("message").select("asked.n")
);
const touchRooms = prepared((db: Db, value: Param<{ tenantId: string; roomIds: string; at: string }>, dialect) =>
  db.updateTable("room").set({ last_message_at: value("at"), active_at: value("at") })
    .where(isOfTenant(value("tenantId"))).where(isOneOf(dialect, "id", value("roomIds")))
);
const pageBefore = prepared((db: Db, value: Param<Key & { from: number; to: number; limit: number }>) =>
  db.selectFrom("message").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("seq", ">", value("from")).where("seq", "<", value("to"))
    .orderBy("seq", "desc").limit(value("limit"))
);

const hasFrom = prepared((db: Db, value: Param<Key & { kind: PrincipalKind; after: number }>) =>
  db.selectFrom("message").select("seq").where("tenant_id", "=", value("tenantId"))
    .where("room_id", "=", value("roomId")).where("seq", ">", value("after"))
    .where("sender_kind", "=", value("kind")).limit(sql.lit(1))
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

  byIds(tenantId: string, ids: readonly string[]): Promise<MessageRow[]> {
    return byIds.all(this.#db, { tenantId, ids: JSON.stringify(ids) });
  }

  byClientId(tenantId: string, roomId: string, senderId: string, id: string): Promise<MessageRow | undefined> {
    return byClientId.first(this.#db, { tenantId, roomId, senderId, clientMessageId: id });
  }

  /** The messages of one tenant that are asked for, in the same order. */
  async byClientIds(
    dialect: Dialect,
    tenantId: string,
    asked: readonly Omit<AskedId, "n">[],
  ): Promise<(MessageRow | undefined)[]> {
    if (dialect === "sqlite") {
      return await Promise.all(asked.map((one) => this.byClientId(tenantId, one.room_id, one.sender_id, one.id)));
    }
    const questions = JSON.stringify(asked.map((one, n) => ({ n, ...one })));
    const found = new Map((await byClientIds.all(this.#db, { tenantId, asked: questions })).map((row) => [row.n, row]));
    return asked.map((_, n) => found.get(n));
  }

  async touchRooms(tenantId: string, roomIds: readonly string[], at: string): Promise<void> {
    await touchRooms.run(this.#db, { tenantId, roomIds: JSON.stringify(roomIds), at });
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
    // `in ()` is no SQL, and a filter with no values filters nothing.
    if (types !== undefined && types.length > 0) query = query.where("type", "in", types);
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

  /** What a message said before, after a version in the order of versions; `newest`: the last of them, newest first. */
  edits(tenantId: string, messageId: string, after: number | "newest", limit: number): Promise<MessageEditRow[]> {
    let query = this.#db.selectFrom("message_edit").selectAll().where("tenant_id", "=", tenantId)
      .where("message_id", "=", messageId);
    if (after !== "newest") query = query.where("version", ">", after);
    return query.orderBy("version", after === "newest" ? "desc" : "asc").limit(limit).execute();
  }

  async removeEdits(tenantId: string, messageId: string): Promise<void> {
    await this.#db.deleteFrom("message_edit").where("tenant_id", "=", tenantId).where("message_id", "=", messageId)
      .execute();
  }

  /** Reactions of messages, the keys in the order in which they came up; `me` is about `readerId`. */
  async reactions(tenantId: string, readerId: string, messageIds: readonly string[]): Promise<Map<string, Reaction[]>> {
    const reactions = new Map<string, Reaction[]>();
    if (messageIds.length === 0) return reactions;
    const rows = await this.#db.selectFrom("reaction")
      .select(({ fn, eb }) => [
        "message_id",
        "key",
        fn.countAll<number>().as("count"),
        fn.max(eb.case().when("principal_id", "=", readerId).then(1).else(0).end()).as("me"),
      ])
      .where("tenant_id", "=", tenantId).where("message_id", "in", messageIds).groupBy(["message_id", "key"])
      .orderBy(({ fn }) => fn.min("created_at")).orderBy("key").execute();
    for (const { message_id, key, count, me } of rows) {
      const own = reactions.get(message_id) ?? [];
      own.push({ key, count: Number(count), me: Number(me) === 1 });
      reactions.set(message_id, own);
    }
    return reactions;
  }

  /** Adds a reaction; whether it was not there before. */
  async addReaction(row: ReactionRow): Promise<boolean> {
    const added = await this.#db.insertInto("reaction").values(row).onConflict((conflict) => conflict.doNothing())
      .returning("key").execute();
    return added.length > 0;
  }

  /** Removes a principal's reaction, or all; whether there was one. */
  async removeReactions(
    tenantId: string,
    messageId: string,
    one?: Pick<ReactionRow, "key" | "principal_id">,
  ): Promise<boolean> {
    let query = this.#db.deleteFrom("reaction").where("tenant_id", "=", tenantId).where("message_id", "=", messageId);
    if (one !== undefined) query = query.where("key", "=", one.key).where("principal_id", "=", one.principal_id);
    return (await query.returning("key").execute()).length > 0;
  }

  /** Pinned messages of a room, those pinned last first. */
  pinned(tenantId: string, roomId: string, hiddenUpTo: number, limit: number): Promise<MessageRow[]> {
    return this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      // A range, or SQLite would rather read all messages of the room.
      .where("pinned_at", ">", "").where("seq", ">", hiddenUpTo).orderBy("pinned_at", "desc")
      .orderBy("seq", "desc").limit(limit).execute();
  }

  /** Who wrote in a thread before a position and whose messages are there still, the author of its root included. */
  async threadAuthors(tenantId: string, rootId: string, before: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("message").select("sender_id").distinct().where("tenant_id", "=", tenantId)
      .where(({ eb, or }) => or([eb("thread_id", "=", rootId), eb("id", "=", rootId)]))
      .where("seq", "<", before).where("deleted_at", "is", null).execute();
    return rows.map((row) => row.sender_id);
  }

  /** Whether anybody of a kind wrote in a room after a position. */
  async hasFrom(tenantId: string, roomId: string, kind: PrincipalKind, after: number): Promise<boolean> {
    return await hasFrom.first(this.#db, { tenantId, roomId, kind, after }) !== undefined;
  }

  /** The first messages of a room that are there still. */
  oldest(
    tenantId: string,
    roomId: string,
    limit: number,
  ): Promise<Pick<MessageRow, "id" | "seq" | "created_at" | "files_json">[]> {
    return this.#db.selectFrom("message").select(["id", "seq", "created_at", "files_json"])
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).orderBy("seq").limit(limit).execute();
  }

  /** Removes messages with all that hangs on them; returns how many went. */
  async remove(tenantId: string, ids: readonly string[]): Promise<number> {
    if (ids.length === 0) return 0;
    await this.#db.deleteFrom("mention").where("tenant_id", "=", tenantId).where("message_id", "in", ids).execute();
    await this.#db.deleteFrom("message_edit").where("tenant_id", "=", tenantId).where("message_id", "in", ids)
      .execute();
    await this.#db.deleteFrom("reaction").where("tenant_id", "=", tenantId).where("message_id", "in", ids).execute();
    const { numDeletedRows } = await this.#db.deleteFrom("message").where(isOfTenant(tenantId))
      .where("id", "in", ids).executeTakeFirstOrThrow();
    return Number(numDeletedRows);
  }
}
