// SQL of searching: who sees which rooms, candidates for a question within that, and how far indexing has come.
import { type Expression, type ExpressionBuilder, type Kysely, sql, type SqlBool } from "kysely";
import { roomStream } from "@/core/event.ts";
import { isOfTenant } from "@/ports/list.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import { EVERYBODY } from "@/modules/message/mod.ts";
import { isNotBanned } from "@/modules/room/mod.ts";
import type { Dialect } from "@/ports/store.ts";
import {
  type DocumentQuery,
  type IndexEngine,
  indexEngineOf,
  type ReindexRow,
  type SearchTables,
  type Tokens,
} from "./index/store.ts";
import { hashGrams, readerGram } from "./gram.ts";
import type { SearchScope } from "./scope.ts";

/** What narrows a search besides its words; a filter that is given is never empty. */
export type CandidateFilter = {
  kinds: readonly string[];
  roomIds?: readonly string[] | undefined;
  senderIds?: readonly string[] | undefined;
  excludeSenderIds?: readonly string[] | undefined;
  threadIds?: readonly string[] | undefined;
  messageTypes?: readonly string[] | undefined;
  mentions?: readonly string[] | undefined;
  pinned?: true | undefined;
  isReacted?: boolean | undefined;
  from?: string | undefined;
  to?: string | undefined;
};

/** A thing that may answer, in the order of the index: newest first. */
export type Candidate = { n: number; kind: string; id: string; room_id: string | null; seq: number | null };

export type RoomLag = { tenantId: string; roomId: string; behind: number };

type Db = Kysely<SearchTables>;
type Eb = ExpressionBuilder<SearchTables & { d: SearchTables["search_document"] }, "d">;

const MESSAGE = "message";

type Cursor = { seq: number; floor: number };
type Room = { tenantId: string; roomId: string };

const takeCursor = prepared((db: Db, value: Param<Room>) =>
  db.insertInto("search_cursor").values({ tenant_id: value("tenantId"), room_id: value("roomId"), seq: 0, floor: 0 })
    .onConflict((conflict) =>
      conflict.columns(["tenant_id", "room_id"]).doUpdateSet(({ ref }) => ({ seq: ref("search_cursor.seq") }))
    ).returning(["seq", "floor"])
);
const moveCursor = prepared((db: Db, value: Param<Room & Cursor>) =>
  db.updateTable("search_cursor").set({ seq: value("seq"), floor: value("floor") })
    .where("tenant_id", "=", value("tenantId")).where("room_id", "=", value("roomId"))
);
const unindexed = prepared((db: Db, value: Param<{ tenantId: string; roomId: string; name: string }>) =>
  db.selectFrom("stream").select(["stream.head", "stream.floor"])
    .leftJoin(
      "search_cursor as c",
      (join) => join.on("c.tenant_id", "=", value("tenantId")).on("c.room_id", "=", value("roomId")),
    )
    .where("stream.tenant_id", "=", value("tenantId")).where("stream.name", "=", value("name"))
    .where(({ eb, fn, val }) => eb("stream.head", ">", fn.coalesce("c.seq", val(0))))
);

const promised = prepared((
  db: Kysely<{ job: { tenant_id: string; kind: string; state: string } }>,
  value: Param<{ tenantId: string; kind: string }>,
) =>
  db.selectFrom("job").select("state").where("tenant_id", "=", value("tenantId")).where("kind", "=", value("kind"))
    .where("state", "<>", sql.lit("dead")).limit(sql.lit(1))
);

export class SearchStore {
  readonly #db: Db;
  readonly #dialect: Dialect;
  readonly #engine: IndexEngine;

  constructor(db: Db, dialect: Dialect) {
    this.#db = db;
    this.#dialect = dialect;
    this.#engine = indexEngineOf(dialect);
  }

  /** At most `limit` candidates after `after`, only such as the scope may read now. */
  async candidates(
    scope: SearchScope,
    tokens: Tokens,
    filter: CandidateFilter,
    after: { n: number; id: string } | undefined,
    limit: number,
  ): Promise<Candidate[]> {
    const found = await Promise.all(
      this.#matching(scope, tokens, filter).map((query) => {
        const rest = after === undefined
          ? query
          : query.where(({ eb, or, and }) =>
            or([eb("d.n", "<", after.n), and([eb("d.n", "=", after.n), eb("d.id", "<", after.id)])])
          );
        return this.#engine.newestFirst(rest).select(["d.n", "d.kind", "d.id", "d.room_id", "d.seq"]).limit(limit)
          .execute();
      }),
    );
    if (found.length === 1) return found[0] ?? [];
    return found.flat().sort((a, b) => b.n - a.n || (a.id < b.id ? 1 : -1)).slice(0, limit);
  }

  /** How many candidates there are, counted up to `max`. */
  async count(scope: SearchScope, tokens: Tokens, filter: CandidateFilter, max: number): Promise<number> {
    const counts = await Promise.all(
      this.#matching(scope, tokens, filter).map((query) =>
        this.#db.selectFrom(query.select("d.n").limit(max).as("found"))
          .select(({ fn }) => fn.countAll<number>().as("n")).executeTakeFirst()
      ),
    );
    return Math.min(max, counts.reduce((sum, row) => sum + Number(row?.n ?? 0), 0));
  }

  /** Of these rooms, those the scope sees now, with the last position that is hidden from it. */
  async visible(scope: SearchScope, roomIds: readonly string[]): Promise<Map<string, number>> {
    if (roomIds.length === 0) return new Map();
    const rows = await this.#rooms(scope, roomIds)
      .select(["room.id", "room.history_visibility", "me.joined_seq as mine", "boss.joined_seq as owners"])
      .execute();
    return new Map(rows.map((row) => [row.id, row.history_visibility === "shared" ? 0 : hidden(row)]));
  }

  /** Ids of the rooms the scope sees, at most `limit`. */
  async visibleIds(scope: SearchScope, limit: number): Promise<string[]> {
    const rows = await this.#rooms(scope).select("room.id").limit(limit).execute();
    return rows.map((row) => row.id);
  }

  /** Rooms the scope sees whose newest events are not in the index yet. */
  async lagging(scope: SearchScope, roomIds: readonly string[] | undefined, limit: number): Promise<RoomLag[]> {
    const query = this.#rooms(scope, roomIds)
      .innerJoin(
        "stream",
        (join) =>
          join.onRef("stream.tenant_id", "=", "room.tenant_id").on("stream.name", "=", sql<string>`'room:' || room.id`),
      )
      .leftJoin(
        "search_cursor as c",
        (join) => join.onRef("c.tenant_id", "=", "room.tenant_id").onRef("c.room_id", "=", "room.id"),
      )
      .where(sql<SqlBool>`stream.head > coalesce(c.seq, 0)`);
    const rows = await query.select(["room.id", "stream.head", sql<number>`coalesce(c.seq, 0)`.as("seq")])
      .orderBy("room.id").limit(limit).execute();
    return rows.map(({ id, head, seq }) => ({ tenantId: scope.tenantId, roomId: id, behind: head - seq }));
  }

  /** The same for all rooms of all tenants. A room that was purged has its line still, and nothing to index. */
  async laggingAnywhere(limit: number): Promise<RoomLag[]> {
    const rows = await this.#lagging()
      .select(["room.tenant_id", "room.id", "stream.head", sql<number>`coalesce(c.seq, 0)`.as("seq")])
      .limit(limit).execute();
    return rows.map(({ tenant_id, id, head, seq }) => ({ tenantId: tenant_id, roomId: id, behind: head - seq }));
  }

  /** In how many rooms of a tenant messages are not in the index yet, and when the oldest of them was sent. */
  async lag(tenantId: string): Promise<{ rooms: number; oldest: string | null }> {
    const first = this.#lagging().where("room.tenant_id", "=", tenantId).select(({ selectFrom }) =>
      selectFrom("message").select("message.created_at").whereRef("message.tenant_id", "=", "room.tenant_id")
        .whereRef("message.room_id", "=", "room.id").where("message.seq", ">", sql<number>`coalesce(c.seq, 0)`)
        .orderBy("message.seq").limit(1).as("at")
    );
    const { rooms, oldest } = await this.#db.selectFrom(first.as("first"))
      .select(({ fn }) => [fn.count<number>("at").as("rooms"), fn.min("at").as("oldest")]).executeTakeFirstOrThrow();
    return { rooms: Number(rooms), oldest };
  }

  #lagging() {
    return this.#db.selectFrom("room")
      .innerJoin(
        "stream",
        (join) =>
          join.onRef("stream.tenant_id", "=", "room.tenant_id").on("stream.name", "=", sql<string>`'room:' || room.id`),
      )
      .leftJoin(
        "search_cursor as c",
        (join) => join.onRef("c.tenant_id", "=", "room.tenant_id").onRef("c.room_id", "=", "room.id"),
      )
      .where(sql<SqlBool>`stream.head > coalesce(c.seq, 0)`);
  }

  /** Documents of a tenant in the index. */
  async documents(tenantId: string): Promise<number> {
    const row = await this.#db.selectFrom("search_document").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).executeTakeFirst();
    return Number(row?.n ?? 0);
  }

  /** Takes the cursor of a room for this transaction; who else wants it waits. Returns where it stands. */
  async takeCursor(tenantId: string, roomId: string): Promise<Cursor> {
    const cursor = await takeCursor.first(this.#db, { tenantId, roomId });
    if (cursor === undefined) throw new Error("The cursor of a room could not be taken");
    return cursor;
  }

  async moveCursor(tenantId: string, roomId: string, to: Cursor): Promise<void> {
    await moveCursor.run(this.#db, { tenantId, roomId, ...to });
  }

  async removeCursor(tenantId: string, roomId: string): Promise<void> {
    await this.#db.deleteFrom("search_cursor").where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .execute();
  }

  /** The line of a room of which not all is indexed; `undefined` when all of it is. */
  unindexed(tenantId: string, roomId: string): Promise<{ head: number; floor: number } | undefined> {
    return unindexed.first(this.#db, { tenantId, roomId, name: roomStream(roomId) });
  }

  /** Whether no other node is indexing in the background now, nor will be until this transaction has ended. */
  async isAlone(): Promise<boolean> {
    if (this.#dialect === "sqlite") return true;
    const { rows } = await sql<{ is: boolean }>`
      select pg_try_advisory_xact_lock('search_cursor'::regclass::oid::bigint) as "is"`.execute(this.#db);
    return rows[0]?.is === true;
  }

  /** Ids of the messages that events with `from < seq <= to` changed after they were made; `floor` = up to where events are gone. */
  async changed(
    tenantId: string,
    roomId: string,
    from: number,
    to: number,
  ): Promise<{ ids: Set<string>; floor: number }> {
    const { rows } = await sql<{ json: string | null; floor: number }>`
      select event.json, stream.floor from stream left join event
        on event.tenant_id = stream.tenant_id and event.stream = stream.name and event.seq > ${from} and event.seq <= ${to}
        and event.type like 'message.%' and event.type <> 'message.created'
      where stream.tenant_id = ${tenantId} and stream.name = ${roomStream(roomId)}`.execute(this.#db);
    return {
      ids: new Set(rows.flatMap(({ json }) => json === null ? [] : messageIdIn(JSON.parse(json)))),
      floor: rows[0]?.floor ?? 0,
    };
  }

  /** Whether a job of this kind is still to run, or runs. */
  async isPromised(tenantId: string, kind: string): Promise<boolean> {
    return await promised.first(this.#db, { tenantId, kind }) !== undefined;
  }

  reindex(tenantId: string): Promise<ReindexRow | undefined> {
    return this.#db.selectFrom("search_reindex").selectAll().where("tenant_id", "=", tenantId).executeTakeFirst();
  }

  async putReindex(row: ReindexRow): Promise<void> {
    const { tenant_id: _, ...set } = row;
    await this.#db.insertInto("search_reindex").values(row)
      .onConflict((conflict) => conflict.column("tenant_id").doUpdateSet(set)).execute();
  }

  /**
   * What the scope may read: things in rooms it sees, and, where such are asked for, its own things outside of rooms and
   * those of others it is a reader of. A query for each, since PostgreSQL would look up the rights of every row anew if one
   * query said "or".
   */
  #matching(scope: SearchScope, tokens: Tokens, filter: CandidateFilter): DocumentQuery[] {
    const inRooms = this.#filtered(scope, tokens, filter).where(readable(scope));
    if (filter.kinds.every((kind) => kind === MESSAGE)) return [inRooms];
    const own = this.#filtered(scope, { ...tokens, any: [] }, filter).where("d.room_id", "is", null)
      .where("d.principal_id", "=", scope.principalId);
    const reader = hashGrams(scope.tenantId, [readerGram(scope.principalId)]);
    const shared = this.#filtered(scope, { all: [...tokens.all, ...reader], any: [] }, filter)
      .where("d.room_id", "is", null)
      .where(({ eb, or }) => or([eb("d.principal_id", "is", null), eb("d.principal_id", "<>", scope.principalId)]));
    return [inRooms, own, shared];
  }

  #filtered(scope: SearchScope, tokens: Tokens, filter: CandidateFilter): DocumentQuery {
    let query = this.#engine.matching(this.#db, scope.tenantId, tokens).where("d.kind", "in", filter.kinds);
    const { roomIds, senderIds, excludeSenderIds, from, to } = filter;
    if (roomIds !== undefined) query = query.where("d.room_id", "in", roomIds);
    if (senderIds !== undefined) query = query.where("d.author_id", "in", senderIds);
    if (excludeSenderIds !== undefined) {
      query = query.where(({ eb, or }) =>
        or([eb("d.author_id", "is", null), eb("d.author_id", "not in", excludeSenderIds)])
      );
    }
    if (from !== undefined) query = query.where("d.at", ">=", from);
    if (to !== undefined) query = query.where("d.at", "<=", to);
    return query.where((eb) => eb.and(messageConditions(eb, scope.tenantId, filter)));
  }

  /** Rooms that the scope may read now, of these ids if any are given. */
  #rooms(scope: SearchScope, ids?: readonly string[]) {
    return this.#db.selectFrom("room")
      .leftJoin(
        "member as me",
        (join) =>
          join.onRef("me.room_id", "=", "room.id").onRef("me.tenant_id", "=", "room.tenant_id")
            .on("me.principal_id", "=", scope.principalId),
      )
      .leftJoin(
        "member as boss",
        (join) =>
          join.onRef("boss.room_id", "=", "room.id").onRef("boss.tenant_id", "=", "room.tenant_id")
            .on("boss.principal_id", "=", scope.ownerId),
      )
      .$if(ids === undefined, (query) => query.where("room.tenant_id", "=", scope.tenantId))
      .$if(
        ids !== undefined,
        (query) => query.where(isOfTenant(scope.tenantId, "room.tenant_id")).where("room.id", "in", ids ?? []),
      )
      .where("room.state", "<>", "deleted").where(sees(scope));
  }
}

/** Member (and, of an agent, its owner as well), or the room is public and the caller may look into those. */
function sees(scope: SearchScope): Expression<SqlBool> {
  const isMember = scope.ownerId === ""
    ? sql<SqlBool>`me.principal_id is not null`
    : sql<SqlBool>`me.principal_id is not null and boss.principal_id is not null`;
  if (!scope.seesPublic) return sql<SqlBool>`(${isMember})`;
  return sql<SqlBool>`(${isMember} or room.visibility = 'public' and ${isNotBanned(scope.principalId)})`;
}

/**
 * The same rights for a document in a room. Rooms whose whole history is shared are looked up once for the query, whatever
 * a planner thinks of it; of the others, a document is hidden from those who joined after it.
 */
function readable(scope: SearchScope): Expression<SqlBool> {
  const rooms = sql`room
    left join member as me on me.room_id = room.id and me.tenant_id = room.tenant_id
      and me.principal_id = ${scope.principalId}
    left join member as boss on boss.room_id = room.id and boss.tenant_id = room.tenant_id
      and boss.principal_id = ${scope.ownerId}
    where room.tenant_id = ${scope.tenantId} and room.state <> 'deleted' and ${sees(scope)}`;
  return sql<SqlBool>`(d.room_id in (select room.id from ${rooms} and room.history_visibility = 'shared')
    or exists (select 1 from ${rooms} and room.history_visibility <> 'shared' and room.id = d.room_id
      and (d.seq is null or d.seq > me.joined_seq and (${scope.ownerId} = '' or d.seq > boss.joined_seq))))`;
}

/** Conditions that only messages can meet. */
function messageConditions(eb: Eb, tenantId: string, filter: CandidateFilter): Expression<SqlBool>[] {
  const { threadIds, messageTypes, mentions, pinned, isReacted } = filter;
  const conditions: Expression<SqlBool>[] = [];
  if (threadIds !== undefined || messageTypes !== undefined || pinned !== undefined) {
    let message = eb.selectFrom("message as m").select("m.id").where("m.tenant_id", "=", tenantId)
      .whereRef("m.id", "=", "d.id");
    if (messageTypes !== undefined) message = message.where(sql.ref("m.type"), "in", messageTypes);
    if (pinned !== undefined) message = message.where("m.pinned_at", "is not", null);
    if (threadIds !== undefined) {
      message = message.where((m) => m.or([m("m.thread_id", "in", threadIds), m("m.id", "in", threadIds)]));
    }
    conditions.push(eb.exists(message));
  }
  if (isReacted === true) {
    conditions.push(eb.exists(
      eb.selectFrom("reaction").select("reaction.key").where("reaction.tenant_id", "=", tenantId)
        .whereRef("reaction.message_id", "=", "d.id"),
    ));
  }
  if (mentions !== undefined) {
    conditions.push(eb.exists(
      eb.selectFrom("mention").select("mention.seq").where("mention.tenant_id", "=", tenantId)
        .whereRef("mention.message_id", "=", "d.id")
        .where("mention.principal_id", "in", [...mentions, EVERYBODY]),
    ));
  }
  return conditions.length === 0 ? [] : [eb("d.kind", "=", MESSAGE), ...conditions];
}

function hidden({ mine, owners }: { mine: number | null; owners: number | null }): number {
  // Not a member: nothing of it is shown, and the condition on the document has dropped it before.
  return mine === null ? Number.MAX_SAFE_INTEGER : Math.max(mine, owners ?? 0);
}

function messageIdIn({ data }: { data?: { message?: { id?: unknown }; messageId?: unknown } }): string[] {
  const id = data?.message?.id ?? data?.messageId;
  return typeof id === "string" ? [id] : [];
}
