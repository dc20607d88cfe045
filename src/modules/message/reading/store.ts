// SQL of read positions, and of what is unread behind them.
import { type Kysely, type RawBuilder, sql } from "kysely";
import { roomStream } from "@/core/event.ts";
import { type ReadRoom, seenRooms, type UnreadCount } from "@/modules/room/mod.ts";
import { rowsOf } from "@/ports/list.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { Dialect } from "@/ports/store.ts";
import { EVERYBODY, type MessageTables } from "../store.ts";

/** How far counts go; beyond it nobody reads the number. */
export const COUNT_MAX = 10_000;

type Who = { tenantId: string; principalId: string; ownerId: string };
/** Of a room's line the positions `after < seq <= upTo`. */
export type Span = { roomId: string; after: number; upTo: number };

type Db = Kysely<MessageTables>;
type EventDb = Kysely<{ event: { tenant_id: string; stream: string; seq: number; type: string } }>;
type Asked = { n: number; room_id: string; after: number; up_to: number };

const ASKED = sql`asked(n int, room_id text, after bigint, up_to bigint)`;

/** Whose unread messages, where: values, or columns of the query around it. */
type Reading = { tenantId: unknown; roomId: unknown; principalId: unknown; after: unknown; upTo: unknown };

/** Subquery: how many messages of others are unread, at most `COUNT_MAX`. */
function unreadOf({ tenantId, roomId, principalId, after, upTo }: Reading): RawBuilder<number> {
  return sql<number>`(select count(*) from (
    select 1 from message as unread where unread.tenant_id = ${tenantId} and unread.room_id = ${roomId}
      and unread.seq > ${after} and unread.seq <= ${upTo} and unread.sender_id <> ${principalId} and unread.deleted_at is null
      and unread.type <> 'system' limit ${sql.lit(COUNT_MAX)}) as counted)`;
}

/** Subquery: how many of those mention the reader or everybody. */
function mentionsOf({ tenantId, roomId, principalId, after, upTo }: Reading): RawBuilder<number> {
  return sql<number>`(select count(*) from (
    select distinct mention.seq from mention
      inner join message as unread on unread.tenant_id = mention.tenant_id and unread.id = mention.message_id
      where mention.tenant_id = ${tenantId} and mention.room_id = ${roomId} and mention.seq > ${after} and mention.seq <= ${upTo}
        and mention.principal_id in (${principalId}, ${sql.lit(EVERYBODY)}) and unread.sender_id <> ${principalId}
      limit ${sql.lit(COUNT_MAX)}) as counted)`;
}

/** How many events there are, and how many of them after which an older message counts otherwise than before. */
const told = [
  sql<number>`count(*)`.as("told"),
  sql<number>`count(case when event.type in ('message.updated', 'message.deleted', 'message.expired') then 1 end)`
    .as("changed"),
];

const countOne = prepared((db: Db, value: Param<{ tenantId: string; principalId: string } & Span>) => {
  const reading = {
    tenantId: value("tenantId"),
    roomId: value("roomId"),
    principalId: value("principalId"),
    after: value("after"),
    upTo: value("upTo"),
  };
  return db.selectNoFrom([unreadOf(reading).as("unread"), mentionsOf(reading).as("mentions")]);
});
/** The same for many rooms, each an `Asked`; PostgreSQL only, as below. */
const countMany = prepared((db: Db, value: Param<{ tenantId: string; principalId: string; asked: string }>) => {
  const reading = {
    tenantId: value("tenantId"),
    roomId: sql.ref("asked.room_id"),
    principalId: value("principalId"),
    after: sql.ref("asked.after"),
    upTo: sql.ref("asked.up_to"),
  };
  return db.selectFrom(rowsOf<Asked, "asked">(value("asked"), ASKED))
    .select(["asked.n", unreadOf(reading).as("unread"), mentionsOf(reading).as("mentions")]);
});
const toldInOne = prepared((
  db: EventDb,
  value: Param<{ tenantId: string; stream: string; after: number; upTo: number }>,
) =>
  db.selectFrom("event").select(told).where("tenant_id", "=", value("tenantId")).where("stream", "=", value("stream"))
    .where("seq", ">", value("after")).where("seq", "<=", value("upTo"))
);
const toldInMany = prepared((db: EventDb, value: Param<{ tenantId: string; asked: string }>) =>
  db.selectFrom(rowsOf<Asked, "asked">(value("asked"), ASKED))
    .innerJoin("event", (join) =>
      join.on("event.tenant_id", "=", value("tenantId"))
        .on("event.stream", "=", sql<string>`'room:' || asked.room_id`)
        .onRef("event.seq", ">", "asked.after").onRef("event.seq", "<=", "asked.up_to"))
    .select("asked.n").select(told).groupBy("asked.n")
);

export class ReadingStore {
  readonly #db: Db;
  readonly #dialect: Dialect;

  constructor(db: Db, dialect: Dialect) {
    this.#db = db;
    this.#dialect = dialect;
  }

  /** Moves a read position forward; whether it moved. */
  async advance(tenantId: string, roomId: string, principalId: string, seq: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("member").set({ last_read_seq: seq })
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("principal_id", "=", principalId)
      .where("last_read_seq", "<", seq).executeTakeFirstOrThrow();
    return Number(numUpdatedRows) > 0;
  }

  /** The rooms somebody is a member of, or some of them, with where they have read to. */
  rooms(who: Who & { isOwned: boolean }, roomIds?: readonly string[]): Promise<ReadRoom[]> {
    let query = seenRooms(this.#db, who.principalId, who.ownerId).clearSelect()
      .select(["room.id", "room.history_visibility", "stream.head", "me.last_read_seq as my_last_read_seq"])
      .select(["me.joined_seq as my_joined_seq", "boss.joined_seq as owner_joined_seq"])
      .where("room.tenant_id", "=", who.tenantId).where("room.state", "<>", "deleted")
      .where("me.role", "is not", null);
    if (who.isOwned) query = query.where("boss.role", "is not", null);
    if (roomIds !== undefined) query = query.where("room.id", "in", roomIds);
    return query.orderBy("room.id").execute();
  }

  /** What is unread of a member in these parts, in the same order; each number at most `COUNT_MAX`. */
  async countUnread(tenantId: string, principalId: string, spans: readonly Span[]): Promise<UnreadCount[]> {
    const rows = await this.#each(
      spans,
      (span) => countOne.first(this.#db, { tenantId, principalId, ...span }),
      (asked) => countMany.all(this.#db, { tenantId, principalId, asked }),
    );
    return rows.map((row) => ({ unreadCount: Number(row?.unread ?? 0), mentionCount: Number(row?.mentions ?? 0) }));
  }

  /** Of each of these parts, whether everything that happened there left older messages as they were. */
  async areOnlyAppended(tenantId: string, spans: readonly Span[]): Promise<boolean[]> {
    const rows = await this.#each(
      spans,
      ({ roomId, ...span }) => toldInOne.first(this.#db, { tenantId, stream: roomStream(roomId), ...span }),
      (asked) => toldInMany.all(this.#db, { tenantId, asked }),
    );
    return spans.map(({ after, upTo }, n) => Number(rows[n]?.told) === upTo - after && Number(rows[n]?.changed) === 0);
  }

  /** One question for each part on SQLite, where they cost no way; one for all of them on PostgreSQL. */
  async #each<Row>(
    spans: readonly Span[],
    one: (span: Span) => Promise<Row | undefined>,
    many: (asked: string) => Promise<(Row & { n: number })[]>,
  ): Promise<(Row | undefined)[]> {
    if (this.#dialect === "sqlite") return await Promise.all(spans.map(one));
    const asked = spans.map(({ roomId, after, upTo }, n): Asked => ({ n, room_id: roomId, after, up_to: upTo }));
    const rows = new Map((await many(JSON.stringify(asked))).map((row) => [row.n, row]));
    return spans.map((_, n) => rows.get(n));
  }
}
