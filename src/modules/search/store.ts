// SQL of search: candidates within the rooms that a viewer may read.
import { type Expression, type Kysely, type SelectQueryBuilder, sql, type SqlBool } from "kysely";
import { createYielder } from "@/core/caller.ts";
import { compareText } from "@/core/text/text.ts";
import { withTimeout } from "@/core/time/clock.ts";
import { EVERYONE } from "@/core/searchable.ts";
import { inJsonList, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import { isNotBanned } from "@/modules/room/mod.ts";
import type { Dialect } from "@/ports/store.ts";
import {
  type DocumentPosition,
  type DocumentQuery,
  type IndexEngine,
  indexEngineOf,
  type SearchTables,
  type Tokens,
} from "./index_store.ts";
import { laggingRooms, type RoomLag } from "./progress_store.ts";
import { hashGrams, readerGram } from "./tokenize.ts";
import type { SearchViewer } from "./search_viewer.ts";

/** Conditions besides the query; a list is never empty. */
export type CandidateFilter = {
  kinds: readonly string[];
  roomIds?: readonly string[] | undefined;
  senderIds?: readonly string[] | undefined;
  excludeSenderIds?: readonly string[] | undefined;
  /** By kind, when properties are asked for; kinds without them have none. */
  propertyConditions?: ReadonlyMap<string, readonly Expression<SqlBool>[]> | undefined;
  /** Whether few documents have the properties, and an index of theirs finds them. */
  hasFew?: boolean;
  /** Whether all kinds are indexed from streams: their documents are in rooms, and have no parts. */
  isOnlyStreamed: boolean;
  /** Among several kinds, the one that is indexed from streams: it has by far the most documents. */
  streamedKind?: string | undefined;
  /** Whether a kind has documents that all members of the tenant may find. */
  isTenantWide?: boolean;
  from?: string | undefined;
  to?: string | undefined;
};

/** If fewer than one of so many documents have the tokens, all that do are read fast. */
const RARE = 200;

/** What is searched, as whom, and the time that is left to ask the index. */
export type CandidateSearch = { viewer: SearchViewer; filter: CandidateFilter; leftMs: () => number };

/** A document that may match; the index has them newest first. */
export type Candidate = { n: number; kind: string; id: string; room_id: string | null; seq: number | null };

type Found = { candidates: Candidate[]; isComplete: boolean };
/** A query, and the tokens by which it reads documents; those that are read by their parts are few. */
type Match = { query: DocumentQuery; tokens?: Tokens | undefined };

type Db = Kysely<SearchTables>;

export class SearchStore {
  readonly #db: Db;
  readonly #dialect: Dialect;
  readonly #engine: IndexEngine;

  constructor(db: Db, dialect: Dialect) {
    this.#db = db;
    this.#dialect = dialect;
    this.#engine = indexEngineOf(dialect);
  }

  /**
   * At most `limit` candidates after `after` that the viewer may read now. Where the newest documents are read first, these are all
   * that there is if the others take longer than `leftMs`.
   */
  async candidates(
    { viewer, filter, leftMs }: CandidateSearch,
    tokens: Tokens,
    after: DocumentPosition | undefined,
    limit: number,
  ): Promise<Found> {
    if (filter.streamedKind !== undefined && this.#engine.newestRows.length > 0) {
      return await this.#candidatesByKind({ viewer, filter, leftMs }, tokens, after, limit);
    }
    let candidates: Candidate[] = [];
    let read = 0;
    const [kind = "", ...otherKinds] = filter.kinds;
    // The parts of long documents are read by their tokens only.
    const isNewestFirst = filter.isOnlyStreamed && otherKinds.length === 0 && filter.hasFew !== true;
    for (const rows of isNewestFirst ? this.#engine.newestRows : []) {
      if (candidates.length * RARE < read) break;
      const newest = { ...tokens, newest: { kind, rows, after } };
      ({ candidates } = await this.#find(viewer, newest, filter, after, limit));
      if (candidates.length === limit) return { candidates, isComplete: true };
      read = rows;
    }
    if (this.#engine.slice !== undefined) return await this.#find(viewer, tokens, filter, after, limit, leftMs);
    const ms = leftMs();
    const all = ms > 0 ? await withTimeout(this.#find(viewer, tokens, filter, after, limit), ms) : undefined;
    return all ?? { candidates, isComplete: false };
  }

  /** The streamed kind and all others by themselves: what one of them lacks at the end of the time, the other may have. */
  async #candidatesByKind(
    { filter: { streamedKind = "", ...filter }, ...search }: CandidateSearch,
    tokens: Tokens,
    after: DocumentPosition | undefined,
    limit: number,
  ): Promise<Found> {
    const filters = [
      { ...filter, kinds: [streamedKind], isOnlyStreamed: true },
      { ...filter, kinds: filter.kinds.filter((kind) => kind !== streamedKind) },
    ];
    const found = await Promise.all(
      filters.map((part) => this.candidates({ ...search, filter: part }, tokens, after, limit)),
    );
    return {
      candidates: newestOf(found.flatMap(({ candidates }) => candidates), limit),
      isComplete: found.every(({ isComplete }) => isComplete),
    };
  }

  async #find(
    viewer: SearchViewer,
    tokens: Tokens,
    filter: CandidateFilter,
    after: DocumentPosition | undefined,
    limit: number,
    leftMs: () => number = () => Infinity,
  ): Promise<Found> {
    const found = await Promise.all(
      this.#matching(viewer, tokens, filter).map(async ({ query, tokens }): Promise<Found> => {
        const rest = after === undefined
          ? query
          : query.where(({ eb, or, and }) =>
            or([eb("d.n", "<", after.n), and([eb("d.n", "=", after.n), eb("d.id", "<", after.id)])])
          );
        if (tokens !== undefined && this.#engine.slice !== undefined) {
          return await this.#findInSlices(rest, tokens, after?.n, limit, leftMs);
        }
        return { candidates: await this.#newest(rest, limit), isComplete: true };
      }),
    );
    if (found.length === 1 && found[0] !== undefined) return found[0];
    // A long document may be found by its first part and by all of its parts.
    const distinct = new Map(
      found.flatMap(({ candidates }) => candidates).map((
        candidate,
      ) => [`${candidate.kind} ${candidate.id}`, candidate]),
    );
    return {
      candidates: newestOf([...distinct.values()], limit),
      isComplete: found.every(({ isComplete }) => isComplete),
    };
  }

  /** Others get their turn between two slices: most documents may have the tokens, and few of them match the filter. */
  async #findInSlices(
    query: DocumentQuery,
    tokens: Tokens,
    before: number = Number.MAX_SAFE_INTEGER,
    limit: number,
    leftMs: () => number,
  ): Promise<Found> {
    const candidates: Candidate[] = [];
    const yieldIfDue = createYielder();
    for (let n = before;;) {
      const part = await this.#engine.slice?.(this.#db, query, tokens, n);
      if (part === undefined) return { candidates, isComplete: true };
      candidates.push(...await this.#newest(part.query, limit - candidates.length));
      if (part.end === undefined || candidates.length === limit) return { candidates, isComplete: true };
      if (leftMs() <= 0) return { candidates, isComplete: false };
      n = part.end;
      await yieldIfDue();
    }
  }

  #newest(query: DocumentQuery, limit: number): Promise<Candidate[]> {
    return this.#engine.newestFirst(query).select(["d.n", "d.kind", "d.id", "d.room_id", "d.seq"]).limit(limit)
      .execute();
  }

  /** Those of the documents that the viewer may read now and that match the filter. */
  async readable(
    viewer: SearchViewer,
    flags: readonly number[],
    filter: CandidateFilter,
    ids: readonly string[],
  ): Promise<Candidate[]> {
    const found = await Promise.all(
      this.#matching(viewer, { all: flags, any: [] }, filter, ids).map(({ query }) =>
        query.select(["d.n", "d.kind", "d.id", "d.room_id", "d.seq"]).execute()
      ),
    );
    return found.flat();
  }

  /** Those of the rooms that the viewer can see now, with the last position hidden from the viewer. */
  async visible(viewer: SearchViewer, roomIds: readonly string[]): Promise<Map<string, number>> {
    if (roomIds.length === 0) return new Map();
    const rows = await readableRooms(this.#db.selectFrom("room"), viewer, roomIds)
      .select(["room.id", "room.history_visibility"])
      .select([sql<number | null>`me.joined_seq`.as("mine"), sql<number | null>`owner.joined_seq`.as("owners")])
      .execute();
    return new Map(rows.map((row) => [row.id, row.history_visibility === "shared" ? 0 : hiddenUpToOf(viewer, row)]));
  }

  /** Ids of rooms that the viewer can see, at most `limit`. */
  async visibleIds(viewer: SearchViewer, limit: number): Promise<string[]> {
    const rows = await readableRooms(this.#db.selectFrom("room"), viewer).select("room.id").limit(limit).execute();
    return rows.map((row) => row.id);
  }

  /**
   * Rooms that the viewer can see whose newest events are not indexed yet, at most so many. A literal limit: of one that it does
   * not know, PostgreSQL expects to read a tenth, and would look up each room by itself.
   */
  async lagging(viewer: SearchViewer, roomIds: readonly string[] | undefined, limit: number): Promise<RoomLag[]> {
    // Whether the viewer can see a room is asked of few: most are indexed.
    const query = readableRooms(laggingRooms(this.#db), viewer, roomIds);
    const rows = await query.select(["room.id", "stream.head", sql<number>`coalesce(c.seq, 0)`.as("seq")])
      .orderBy("room.id").limit(sql.lit(limit)).execute();
    return rows.map(({ id, head, seq }) => ({ tenantId: viewer.tenantId, roomId: id, behind: head - seq }));
  }

  /**
   * Documents that the viewer may read: those in visible rooms, and for kinds that are not always in rooms the viewer's own
   * outside of rooms and those shared with the viewer. Separate queries, because with one `or` PostgreSQL would check
   * permissions row by row.
   */
  #matching(viewer: SearchViewer, tokens: Tokens, filter: CandidateFilter, ids?: readonly string[]): Match[] {
    const find = (wanted: Tokens, condition: (query: DocumentQuery) => DocumentQuery) =>
      this.#filtered(viewer, wanted, filter, ids).map(({ query, tokens }) => ({ query: condition(query), tokens }));
    const inRooms = find(tokens, (query) => query.where(isReadableBy(viewer)));
    if (filter.isOnlyStreamed) return inRooms;
    const own = find(
      { ...tokens, any: [] },
      (query) => query.where("d.room_id", "is", null).where("d.principal_id", "=", viewer.principalId),
    );
    const reader = hashGrams(viewer.tenantId, [readerGram(viewer.principalId)]);
    const shared = find({ all: [...tokens.all, ...reader], any: [] }, (query) =>
      query.where("d.room_id", "is", null)
        .where(({ eb, or }) => or([eb("d.principal_id", "is", null), eb("d.principal_id", "<>", viewer.principalId)])));
    if (viewer.isGuest || filter.isTenantWide !== true) return [...inRooms, ...own, ...shared];
    const everyone = hashGrams(viewer.tenantId, [readerGram(EVERYONE)]);
    const open = find({ all: [...tokens.all, ...everyone], any: [] }, (query) => query.where("d.room_id", "is", null));
    return [...inRooms, ...own, ...shared, ...open];
  }

  /** Documents with the tokens, and those whose parts have them; or of these ids, which need no tokens. */
  #filtered(viewer: SearchViewer, tokens: Tokens, filter: CandidateFilter, ids?: readonly string[]): Match[] {
    if (ids !== undefined) {
      const named = tokens.all.length === 0
        ? this.#db.selectFrom("search_document as d").where(tenantIsUnindexed(viewer.tenantId, "d.tenant_id"))
        : this.#engine.matching(this.#db, viewer.tenantId, tokens);
      const isNamed = inJsonList(this.#dialect, "d.id", JSON.stringify(ids));
      return [{ query: narrowed(named as DocumentQuery, filter).where(isNamed) }];
    }
    const whole = { query: narrowed(this.#engine.matching(this.#db, viewer.tenantId, tokens), filter), tokens };
    if (filter.isOnlyStreamed) return [whole];
    const inParts = this.#engine.matchingInParts(this.#db, viewer.tenantId, tokens);
    return [whole, { query: narrowed(inParts, filter) }];
  }
}

/** Those of the rooms that the viewer may read now, optionally only these ids; with memberships `me` and `owner`. */
function readableRooms<Query>(rooms: Query, viewer: SearchViewer, ids?: readonly string[]): Query {
  const query = (rooms as SelectQueryBuilder<SearchTables, "room", unknown>)
    .leftJoin(
      "member as me",
      (join) => join.onRef("me.room_id", "=", "room.id").on("me.principal_id", "=", viewer.principalId),
    )
    .leftJoin(
      "member as owner",
      (join) => join.onRef("owner.room_id", "=", "room.id").on("owner.principal_id", "=", viewer.ownerId),
    )
    .$if(ids === undefined, (all) => all.where("room.tenant_id", "=", viewer.tenantId))
    .$if(
      ids !== undefined,
      (named) => named.where(tenantIsUnindexed(viewer.tenantId, "room.tenant_id")).where("room.id", "in", ids ?? []),
    )
    .where("room.state", "<>", sql.lit("deleted")).where(isVisibleTo(viewer));
  return query as Query;
}

function newestOf(candidates: Candidate[], limit: number): Candidate[] {
  return candidates.sort((a, b) => b.n - a.n || compareText(b.id, a.id)).slice(0, limit);
}

/** The viewer is a member, for an agent its owner as well, or the room is public and the viewer may browse public rooms. */
function isVisibleTo(viewer: SearchViewer): Expression<SqlBool> {
  const isMember = viewer.ownerId === ""
    ? sql<SqlBool>`me.principal_id is not null`
    : sql<SqlBool>`me.principal_id is not null and owner.principal_id is not null`;
  if (viewer.rooms !== undefined) {
    const isAllowed = viewer.rooms.size === 0 ? sql`1 = 0` : sql`room.id in (${sql.join([...viewer.rooms.keys()])})`;
    return sql<SqlBool>`(${isMember} and ${isAllowed})`;
  }
  if (!viewer.canBrowsePublic) return sql<SqlBool>`(${isMember})`;
  return sql<SqlBool>`(${isMember} or room.visibility = 'public' and ${isNotBanned(viewer.principalId)})`;
}

/**
 * The same condition for a document in a room. Rooms with shared history are selected once for the query; in the others, a
 * document is hidden from members who joined after it.
 */
function isReadableBy(viewer: SearchViewer): Expression<SqlBool> {
  const rooms = sql`room
    left join member as me on me.room_id = room.id and me.principal_id = ${viewer.principalId}
    left join member as owner on owner.room_id = room.id and owner.principal_id = ${viewer.ownerId}
    where room.tenant_id = ${viewer.tenantId} and room.state <> 'deleted' and ${isVisibleTo(viewer)}`;
  return sql<SqlBool>`(d.room_id in (select room.id from ${rooms} and room.history_visibility = 'shared')
    or exists (select 1 from ${rooms} and room.history_visibility <> 'shared' and room.id = d.room_id
      and (d.seq is null or d.seq > me.joined_seq and (${viewer.ownerId} = '' or d.seq > owner.joined_seq)
        and d.seq > ${historyStart(viewer)})))`;
}

/** The latest history start of those on whose behalf the viewer searches. */
function historyStart({ rooms = new Map() }: SearchViewer): Expression<number> {
  const late = [...rooms].filter(([, start]) => start > 0);
  if (late.length === 0) return sql.lit(0);
  return sql<number>`case room.id ${
    sql.join(late.map(([id, start]) => sql`when ${id} then ${start}`), sql` `)
  } else 0 end`;
}

function narrowed(query: DocumentQuery, filter: CandidateFilter): DocumentQuery {
  query = query.where("d.kind", "in", filter.kinds);
  const { roomIds, senderIds, excludeSenderIds, propertyConditions, from, to } = filter;
  if (roomIds !== undefined) query = query.where("d.room_id", "in", roomIds);
  if (senderIds !== undefined) query = query.where("d.author_id", "in", senderIds);
  if (excludeSenderIds !== undefined) {
    query = query.where(({ eb, or }) =>
      or([eb("d.author_id", "is", null), eb("d.author_id", "not in", excludeSenderIds)])
    );
  }
  if (from !== undefined) query = query.where("d.at", ">=", from);
  if (to !== undefined) query = query.where("d.at", "<=", to);
  if (propertyConditions === undefined) return query;
  return query.where(({ eb, or, and }) =>
    or([...propertyConditions].map(([kind, conditions]) => and([eb("d.kind", "=", kind), ...conditions])))
  );
}

function hiddenUpToOf(
  { rooms }: SearchViewer,
  { id, mine, owners }: { id: string; mine: number | null; owners: number | null },
): number {
  // Without membership nothing is visible; the condition on the document has excluded it already.
  return mine === null ? Number.MAX_SAFE_INTEGER : Math.max(mine, owners ?? 0, rooms?.get(id) ?? 0);
}
