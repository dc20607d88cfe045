// SQL of read positions and unread counts.
import { type Kysely, type RawBuilder, sql } from "kysely";
import { roomStream } from "@/core/event/event.ts";
import {
  type Reader,
  type RoomReadState,
  roomsOfMember,
  type UnreadCount,
  VIEWER_SETTINGS,
} from "@/modules/room/mod.ts";
import { jsonRows } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { Dialect } from "@/ports/store.ts";
import { MENTION_ALL, type MessageTables } from "../store.ts";

/** Counts end here, which bounds their cost. */
export const COUNT_MAX = 10_000;

/** Positions that one statement of SQLite counts: some milliseconds. */
const POSITIONS_AT_ONCE = 10_000;

type Viewer = { tenantId: string; principalId: string; ownerId: string };
/** The positions `after < seq <= upTo` of a room's stream. */
export type UnreadRange = { roomId: string; after: number; upTo: number };

type Db = Kysely<MessageTables>;
type EventDb = Kysely<{ event: { tenant_id: string; stream: string; seq: number; type: string } }>;
type UnreadRangeRow = { n: number; room_id: string; after: number; up_to: number };

const UNREAD_RANGE_COLUMNS = sql`range(n int, room_id text, after bigint, up_to bigint)`;

/** Reader and positions: values, or columns of the surrounding query. */
type UnreadScope = { tenantId: unknown; roomId: unknown; principalId: unknown; after: unknown; upTo: unknown };

/** Subquery: the number of unread messages by others, at most `COUNT_MAX`. */
function unreadOf({ tenantId, roomId, principalId, after, upTo }: UnreadScope): RawBuilder<number> {
  return sql<number>`(select count(*) from (
    select 1 from message as unread where unread.tenant_id = ${tenantId} and unread.room_id = ${roomId}
      and unread.seq > ${after} and unread.seq <= ${upTo} and unread.sender_id <> ${principalId} and unread.deleted_at is null
      and unread.type <> 'system' limit ${sql.lit(COUNT_MAX)}) as counted)`;
}

/** Subquery: the number of those that mention the reader or everybody. */
function mentionsOf({ tenantId, roomId, principalId, after, upTo }: UnreadScope): RawBuilder<number> {
  return sql<number>`(select count(*) from (
    select distinct mention.seq from mention
      inner join message as unread on unread.tenant_id = mention.tenant_id and unread.id = mention.message_id
      where mention.tenant_id = ${tenantId} and mention.room_id = ${roomId} and mention.seq > ${after} and mention.seq <= ${upTo}
        and mention.principal_id in (${principalId}, ${sql.lit(MENTION_ALL)}) and unread.sender_id <> ${principalId}
      limit ${sql.lit(COUNT_MAX)}) as counted)`;
}

/** The number of events, and of those that may change whether an older message is counted. */
const EVENT_COUNTS = [
  sql<number>`count(*)`.as("total"),
  sql<number>`count(case when event.type in ('message.updated', 'message.deleted', 'message.expired') then 1 end)`
    .as("changed"),
];

type CountedRange = { tenantId: string; principalId: string } & UnreadRange;

/** The scope that the values of a query name. */
function scopeOf(value: Param<CountedRange>): UnreadScope {
  return {
    tenantId: value("tenantId"),
    roomId: value("roomId"),
    principalId: value("principalId"),
    after: value("after"),
    upTo: value("upTo"),
  };
}

const countOne = prepared((db: Db, value: Param<CountedRange>) =>
  db.selectNoFrom([unreadOf(scopeOf(value)).as("unread"), mentionsOf(scopeOf(value)).as("mentions")])
);
const countOnlyUnread = prepared((db: Db, value: Param<CountedRange>) =>
  db.selectNoFrom(unreadOf(scopeOf(value)).as("unread"))
);
const countOnlyMentions = prepared((db: Db, value: Param<CountedRange>) =>
  db.selectNoFrom(mentionsOf(scopeOf(value)).as("mentions"))
);
/** The same for several ranges, each an `UnreadRangeRow`; PostgreSQL only, as below. */
const countMany = prepared((db: Db, value: Param<{ tenantId: string; principalId: string; ranges: string }>) => {
  const scope = {
    tenantId: value("tenantId"),
    roomId: sql.ref("range.room_id"),
    principalId: value("principalId"),
    after: sql.ref("range.after"),
    upTo: sql.ref("range.up_to"),
  };
  return db.selectFrom(jsonRows<UnreadRangeRow, "range">(value("ranges"), UNREAD_RANGE_COLUMNS))
    .select(["range.n", unreadOf(scope).as("unread"), mentionsOf(scope).as("mentions")]);
});
const countEventsInOne = prepared((
  db: EventDb,
  value: Param<{ tenantId: string; stream: string; after: number; upTo: number }>,
) =>
  db.selectFrom("event").select(EVENT_COUNTS).where("tenant_id", "=", value("tenantId"))
    .where("stream", "=", value("stream")).where("seq", ">", value("after")).where("seq", "<=", value("upTo"))
);
const countEventsInMany = prepared((db: EventDb, value: Param<{ tenantId: string; ranges: string }>) =>
  db.selectFrom(jsonRows<UnreadRangeRow, "range">(value("ranges"), UNREAD_RANGE_COLUMNS))
    .innerJoin("event", (join) =>
      join.on("event.tenant_id", "=", value("tenantId"))
        .on("event.stream", "=", sql<string>`'room:' || range.room_id`)
        .onRef("event.seq", ">", "range.after").onRef("event.seq", "<=", "range.up_to"))
    .select("range.n").select(EVENT_COUNTS).groupBy("range.n")
);

export class ReadStateStore {
  readonly #db: Db;
  readonly #dialect: Dialect;

  constructor(db: Db, dialect: Dialect) {
    this.#db = db;
    this.#dialect = dialect;
  }

  /** Moves a read position forward; returns whether it moved. */
  async moveReadPosition(tenantId: string, roomId: string, principalId: string, seq: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("member").set({ last_read_seq: seq })
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("principal_id", "=", principalId)
      .where("last_read_seq", "<", seq).executeTakeFirstOrThrow();
    return Number(numUpdatedRows) > 0;
  }

  /** Moves a read position back to before `seq`; returns whether it moved. */
  async moveReadPositionBefore(tenantId: string, roomId: string, principalId: string, seq: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("member").set({ last_read_seq: seq - 1 })
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("principal_id", "=", principalId)
      .where("last_read_seq", ">=", seq).executeTakeFirstOrThrow();
    return Number(numUpdatedRows) > 0;
  }

  /** Moves a principal's read positions to the end of these rooms; returns those that moved. */
  moveReadPositionsToEnd(
    tenantId: string,
    principalId: string,
    roomIds: readonly string[],
  ): Promise<{ room_id: string; last_read_seq: number }[]> {
    const head = sql<number>`(select stream.head from stream where stream.tenant_id = member.tenant_id
      and stream.name = 'room:' || member.room_id)`;
    return this.#db.updateTable("member").set({ last_read_seq: head })
      .where("tenant_id", "=", tenantId).where("principal_id", "=", principalId).where("room_id", "in", roomIds)
      .where("last_read_seq", "<", head).returning(["room_id", "last_read_seq"]).execute();
  }

  /** The rooms of a member, optionally only some of them, with the member's read positions. */
  memberRooms(
    viewer: Viewer & Pick<Reader, "isOwned" | "roomIds">,
    roomIds?: readonly string[],
  ): Promise<RoomReadState[]> {
    let query = roomsOfMember(this.#db, viewer).clearSelect()
      .select(["room.id", "room.history_visibility", "stream.head", "me.last_read_seq as my_last_read_seq"])
      .select(VIEWER_SETTINGS).select(["me.joined_seq as my_joined_seq", "owner.joined_seq as owner_joined_seq"])
      .where("room.state", "<>", sql.lit("deleted"));
    if (viewer.isOwned) query = query.where("owner.role", "is not", null);
    if (viewer.roomIds !== undefined) query = query.where("room.id", "in", [...viewer.roomIds, ""]);
    if (roomIds !== undefined) query = query.where("room.id", "in", roomIds);
    return query.orderBy("room.id").execute();
  }

  /** Unread counts of a member in these ranges, in the same order; each at most `COUNT_MAX`. Long ranges pause in between. */
  async countUnread(
    tenantId: string,
    principalId: string,
    ranges: readonly UnreadRange[],
    pause: () => Promise<unknown>,
  ): Promise<UnreadCount[]> {
    const rows = await this.#forEachRange(
      ranges,
      (range) => this.#countInParts({ tenantId, principalId, ...range }, pause),
      (json) => countMany.all(this.#db, { tenantId, principalId, ranges: json }),
    );
    return rows.map((row) => ({ unreadCount: Number(row?.unread ?? 0), mentionCount: Number(row?.mentions ?? 0) }));
  }

  /** All messages of a range may be the reader's own or deleted: these are read, but not counted. */
  async #countInParts(
    range: CountedRange,
    pause: () => Promise<unknown>,
  ): Promise<{ unread: number; mentions: number } | undefined> {
    const { after, upTo } = range;
    if (upTo - after <= POSITIONS_AT_ONCE) return await countOne.first(this.#db, range);
    let unread = 0;
    for (let from = after; from < upTo && unread < COUNT_MAX; from += POSITIONS_AT_ONCE) {
      if (from > after) await pause();
      const part = { ...range, after: from, upTo: Math.min(upTo, from + POSITIONS_AT_ONCE) };
      unread += (await countOnlyUnread.first(this.#db, part))?.unread ?? 0;
    }
    return {
      unread: Math.min(COUNT_MAX, unread),
      mentions: (await countOnlyMentions.first(this.#db, range))?.mentions ?? 0,
    };
  }

  /** For each of these ranges, whether its events changed no older messages. */
  async areAppendOnly(tenantId: string, ranges: readonly UnreadRange[]): Promise<boolean[]> {
    const rows = await this.#forEachRange(
      ranges,
      ({ roomId, ...range }) => countEventsInOne.first(this.#db, { tenantId, stream: roomStream(roomId), ...range }),
      (json) => countEventsInMany.all(this.#db, { tenantId, ranges: json }),
    );
    return ranges.map(({ after, upTo }, n) =>
      Number(rows[n]?.total) === upTo - after && Number(rows[n]?.changed) === 0
    );
  }

  /** One query for each range on SQLite, where queries have no round trip; one for all of them on PostgreSQL. */
  async #forEachRange<Row>(
    ranges: readonly UnreadRange[],
    one: (range: UnreadRange) => Promise<Row | undefined>,
    many: (json: string) => Promise<(Row & { n: number })[]>,
  ): Promise<(Row | undefined)[]> {
    if (this.#dialect === "sqlite") return await Promise.all(ranges.map(one));
    const json = JSON.stringify(
      ranges.map(({ roomId, after, upTo }, n): UnreadRangeRow => ({ n, room_id: roomId, after, up_to: upTo })),
    );
    const rows = new Map((await many(json)).map((row) => [row.n, row]));
    return ranges.map((_, n) => rows.get(n));
  }
}
