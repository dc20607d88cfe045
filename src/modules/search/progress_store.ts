// SQL of the progress of indexing: positions of rooms, what is behind, and reindexing.
import { type Kysely, type SelectQueryBuilder, sql, type SqlBool } from "kysely";
import { createYielder } from "@/core/caller.ts";
import { roomStream } from "@/core/event/event.ts";
import type { StreamSource } from "@/core/searchable.ts";
import { rowsAtOnce } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { Dialect } from "@/ports/store.ts";
import type { ReindexRow, SearchTables } from "./index_store.ts";

export type RoomLag = { tenantId: string; roomId: string; behind: number };

type Db = Kysely<SearchTables>;
type Documents = SelectQueryBuilder<SearchTables, "search_document", unknown>;
type Cursor = { seq: number; floor: number };
type Room = { tenantId: string; roomId: string };

const lockCursor = prepared((db: Db, value: Param<Room>) =>
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

const pendingJob = prepared((
  db: Kysely<{ job: { tenant_id: string; kind: string; state: string } }>,
  value: Param<{ tenantId: string; kind: string }>,
) =>
  db.selectFrom("job").select("state").where("tenant_id", "=", value("tenantId")).where("kind", "=", value("kind"))
    // Each state by itself has an index; "not dead" has none, and would read the waiting jobs of all tenants.
    .where((job) => job.or([job("state", "=", sql.lit("waiting")), job("state", "=", sql.lit("running"))]))
    .limit(sql.lit(1))
);

export class IndexProgressStore {
  readonly #db: Db;
  readonly #dialect: Dialect;

  constructor(db: Db, dialect: Dialect) {
    this.#db = db;
    this.#dialect = dialect;
  }

  /** Rooms of all tenants whose newest events are not indexed yet. A purged room still has a stream, but nothing to index. */
  async laggingInAllTenants(limit: number): Promise<RoomLag[]> {
    const rows = await laggingRooms(this.#db)
      .select(["room.tenant_id", "room.id", "stream.head", sql<number>`coalesce(c.seq, 0)`.as("seq")])
      .limit(limit).execute();
    return rows.map(({ tenant_id, id, head, seq }) => ({ tenantId: tenant_id, roomId: id, behind: head - seq }));
  }

  /** The number of rooms of a tenant with events that are not indexed yet, and the time of the oldest of these. */
  async lag(tenantId: string, eventPrefix: string): Promise<{ rooms: number; oldest: string | null }> {
    const first = laggingRooms(this.#db).where("room.tenant_id", "=", tenantId).select(
      sql<string | null>`(select event.at from event where event.tenant_id = room.tenant_id
        and event.stream = stream.name and event.seq > coalesce(c.seq, 0) and event.type like ${`${eventPrefix}%`}
        order by event.seq limit 1)`.as("at"),
    );
    const { rooms, oldest } = await this.#db.selectFrom(first.as("first"))
      .select(({ fn }) => [fn.count<number>("at").as("rooms"), fn.min("at").as("oldest")]).executeTakeFirstOrThrow();
    return { rooms: Number(rooms), oldest };
  }

  /** Documents of a tenant in the index. No index begins with the tenant: those of all tenants are read, in slices. */
  async documents(tenantId: string): Promise<number> {
    const yieldIfDue = createYielder();
    let count = 0;
    for (let from: string | undefined = ""; from !== undefined; await yieldIfDue()) {
      const rest: Documents = this.#db.selectFrom("search_document").where("id", ">=", from);
      const next: { id: string } | undefined = await rest.select("id").orderBy("id").limit(1).offset(
        rowsAtOnce(this.#db),
      )
        .executeTakeFirst();
      const { n } = await rest.$if(next !== undefined, (slice) => slice.where("id", "<", next?.id ?? ""))
        .where("tenant_id", "=", tenantId).select(({ fn }) => fn.countAll<number>().as("n")).executeTakeFirstOrThrow();
      count += Number(n);
      from = next?.id;
    }
    return count;
  }

  /** Locks the cursor of a room until the commit and returns its position. */
  async lockCursor(tenantId: string, roomId: string): Promise<Cursor> {
    const cursor = await lockCursor.first(this.#db, { tenantId, roomId });
    if (cursor === undefined) throw new Error("Expected the search cursor of a room, received none");
    return cursor;
  }

  async moveCursor(tenantId: string, roomId: string, to: Cursor): Promise<void> {
    await moveCursor.run(this.#db, { tenantId, roomId, ...to });
  }

  async removeCursor(tenantId: string, roomId: string): Promise<void> {
    await this.#db.deleteFrom("search_cursor").where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .execute();
  }

  /** The stream of a room with events that are not indexed; `undefined` if there are none. */
  unindexed(tenantId: string, roomId: string): Promise<{ head: number; floor: number } | undefined> {
    return unindexed.first(this.#db, { tenantId, roomId, name: roomStream(roomId) });
  }

  /** Takes the lock for background indexing until the end of the transaction; false if another node has it. */
  async tryLockBackground(): Promise<boolean> {
    if (this.#dialect === "sqlite") return true;
    const { rows } = await sql<{ is: boolean }>`
      select pg_try_advisory_xact_lock('search_cursor'::regclass::oid::bigint) as "is"`.execute(this.#db);
    return rows[0]?.is === true;
  }

  /** Events with `from < seq <= to` that changed existing resources; events up to `floor` are trimmed. */
  async changes(
    { eventPrefix, createdType }: Pick<StreamSource, "eventPrefix" | "createdType">,
    tenantId: string,
    roomId: string,
    from: number,
    to: number,
  ): Promise<{ events: { data?: unknown }[]; floor: number }> {
    const { rows } = await sql<{ json: string | null; floor: number }>`
      select event.json, stream.floor from stream left join event
        on event.tenant_id = stream.tenant_id and event.stream = stream.name and event.seq > ${from} and event.seq <= ${to}
        and event.type like ${`${eventPrefix}%`} and event.type <> ${createdType}
      where stream.tenant_id = ${tenantId} and stream.name = ${roomStream(roomId)}`.execute(this.#db);
    return { events: rows.flatMap(({ json }) => json === null ? [] : [JSON.parse(json)]), floor: rows[0]?.floor ?? 0 };
  }

  /** Whether a job of this kind is enqueued or running. */
  async hasPendingJob(tenantId: string, kind: string): Promise<boolean> {
    return await pendingJob.first(this.#db, { tenantId, kind }) !== undefined;
  }

  reindex(tenantId: string): Promise<ReindexRow | undefined> {
    return this.#db.selectFrom("search_reindex").selectAll().where("tenant_id", "=", tenantId).executeTakeFirst();
  }

  async putReindex(row: ReindexRow): Promise<void> {
    const { tenant_id: _, ...set } = row;
    await this.#db.insertInto("search_reindex").values(row)
      .onConflict((conflict) => conflict.column("tenant_id").doUpdateSet(set)).execute();
  }
}

/** Rooms whose newest events are not indexed yet. */
// The return type is inferred: it is a query under construction.
// deno-lint-ignore explicit-module-boundary-types
export function laggingRooms(db: Db) {
  return db.selectFrom("room")
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
