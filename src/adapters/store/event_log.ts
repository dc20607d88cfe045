// The event log of both engines: reading streams, and trimming them from their old end.
import { type Kysely, sql } from "kysely";
import { nextSlice } from "@/core/caller.ts";
import { iso } from "@/core/time/clock.ts";
import type { StoredEvent, StreamPosition } from "@/core/event/event.ts";
import { newSecret } from "@/core/id.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import { inJsonList } from "@/ports/sql/filters.ts";
import { type EventLog, type Store, streamKey } from "@/ports/store.ts";
import type { CoreTables, EventRow, StreamRow } from "./core_tables.ts";

/** Events deleted, and streams checked, at once. */
const TRIM_EVENTS = 1000;
const TRIM_STREAMS = 200;

export class SqlEventLog implements EventLog {
  readonly #store: Pick<Store<CoreTables>, "db" | "write" | "dialect">;

  constructor(store: Pick<Store<CoreTables>, "db" | "write" | "dialect">) {
    this.#store = store;
  }

  async position(tenantId: string, stream: string): Promise<StreamPosition> {
    const key = { tenantId, stream };
    const found = await positionOf.first(this.#store.db, key);
    if (found !== undefined) return found;
    return await this.#store.write(async (tx) => {
      await createStream.run(tx.db, { ...key, epoch: newSecret(9) });
      const created = await positionOf.first(tx.db, key);
      if (created === undefined) throw new Error("Expected the new stream, received none");
      return created;
    });
  }

  async heads(streams: readonly { tenantId: string; stream: string }[]): Promise<Map<string, StreamPosition>> {
    const heads = new Map<string, StreamPosition>();
    const byTenant = Map.groupBy(streams, (stream) => stream.tenantId);
    for (const [tenantId, wanted] of byTenant) {
      const names = JSON.stringify(wanted.map(({ stream }) => stream));
      const rows = await headsOf.all(this.#store.db, { tenantId, names });
      for (const { name, ...position } of rows) heads.set(streamKey(tenantId, name), position);
    }
    return heads;
  }

  async read(tenantId: string, stream: string, after: number, limit: number): Promise<StoredEvent[]> {
    const rows = await eventsAfter.all(this.#store.db, { tenantId, stream, after, limit });
    return rows.map((row) => storedEvent(tenantId, stream, row));
  }

  async readBackward(tenantId: string, stream: string, before: number, limit: number): Promise<StoredEvent[]> {
    const rows = await eventsBefore.all(this.#store.db, { tenantId, stream, before, limit });
    return rows.map((row) => storedEvent(tenantId, stream, row));
  }

  async trim(olderThanMs: number, keep: number): Promise<number> {
    const cutoff = iso(olderThanMs);
    let dropped = 0;
    let last = { tenant_id: "", name: "" };
    while (true) {
      const streams = await streamsToTrim.all(this.#store.db, { ...last, cutoff, keep, limit: TRIM_STREAMS });
      for (const stream of streams) dropped += await this.#trimStream(stream, { cutoff, keep });
      const end = streams.at(-1);
      if (end === undefined) return dropped;
      last = end;
    }
  }

  trimStream(tenantId: string, stream: string, olderThanMs: number, upTo: number): Promise<number> {
    return this.#trimStream({ tenant_id: tenantId, name: stream }, { cutoff: iso(olderThanMs), upTo });
  }

  /** Uses several small transactions, so that writers of the stream never wait for long. */
  async #trimStream(
    { tenant_id, name }: StreamName,
    { cutoff, keep = Infinity, upTo = Infinity }: { cutoff: string; keep?: number; upTo?: number },
  ): Promise<number> {
    let dropped = 0;
    while (true) {
      const deleted = await this.#store.write(async ({ db }) => {
        const position = await positionOf.first(db, { tenantId: tenant_id, stream: name });
        if (position === undefined) return 0;
        const { head, floor } = position;
        const stream = { tenant_id, name, floor, until: Math.min(floor + TRIM_EVENTS, upTo) };
        const old = await newestBefore.first(db, { ...stream, cutoff });
        const newFloor = Math.min(Math.max(old?.seq ?? floor, head - keep), stream.until);
        if (newFloor <= floor) return 0;
        await moveFloor.run(db, { tenant_id, name, floor: newFloor });
        return await deleteUpTo.run(db, { tenant_id, name, seq: newFloor });
      });
      if (deleted === 0) return dropped;
      dropped += deleted;
      await nextSlice();
    }
  }
}

type StreamName = Pick<StreamRow, "tenant_id" | "name">;
type StreamRef = { tenantId: string; stream: string };

function storedEvent(
  tenantId: string,
  stream: string,
  { epoch, seq, type, json, effect }: Pick<EventRow, "seq" | "type" | "json" | "effect"> & { epoch: string },
): StoredEvent {
  const event: StoredEvent = { tenantId, stream, epoch, seq, type, json };
  if (effect !== null) event.effect = JSON.parse(effect);
  return event;
}

const positionOf = prepared((db: Kysely<CoreTables>, param: Param<StreamRef>) =>
  db.selectFrom("stream").select(["epoch", "head", "floor"])
    .where("tenant_id", "=", param("tenantId")).where("name", "=", param("stream"))
);

const createStream = prepared((db: Kysely<CoreTables>, param: Param<StreamRef & { epoch: string }>) =>
  db.insertInto("stream")
    .values({
      tenant_id: param("tenantId"),
      name: param("stream"),
      epoch: param("epoch"),
      head: sql.lit(0),
      floor: sql.lit(0),
    })
    .onConflict((conflict) => conflict.doNothing())
);

const headsOf = prepared((db: Kysely<CoreTables>, param: Param<{ tenantId: string; names: string }>, dialect) =>
  db.selectFrom("stream").select(["name", "epoch", "head", "floor"]).where("tenant_id", "=", param("tenantId"))
    .where(inJsonList(dialect, "name", param("names")))
);

const eventsAfter = prepared((db: Kysely<CoreTables>, param: Param<StreamRef & { after: number; limit: number }>) =>
  eventsOf(db).where("event.tenant_id", "=", param("tenantId")).where("event.stream", "=", param("stream"))
    .where("event.seq", ">", param("after")).orderBy("event.seq", "asc").limit(param("limit"))
);

const eventsBefore = prepared((db: Kysely<CoreTables>, param: Param<StreamRef & { before: number; limit: number }>) =>
  eventsOf(db).where("event.tenant_id", "=", param("tenantId")).where("event.stream", "=", param("stream"))
    .where("event.seq", "<", param("before")).orderBy("event.seq", "desc").limit(param("limit"))
);

// The return type is inferred: it is a query under construction.
function eventsOf(db: Kysely<CoreTables>) {
  return db.selectFrom("event")
    .innerJoin(
      "stream",
      (join) => join.onRef("stream.tenant_id", "=", "event.tenant_id").onRef("stream.name", "=", "event.stream"),
    )
    .select(["stream.epoch", "event.seq", "event.type", "event.json", "event.effect"]);
}

type Trim = StreamName & { cutoff: string; keep: number; limit: number };

/** Streams after `name` that are too long, or whose oldest event is too old. */
const streamsToTrim = prepared((db: Kysely<CoreTables>, param: Param<Trim>) =>
  db.selectFrom("stream").select(["tenant_id", "name"])
    .where((where) => where(where.refTuple("tenant_id", "name"), ">", where.tuple(param("tenant_id"), param("name"))))
    .where((where) =>
      where.or([
        where(where("head", "-", where.ref("floor")), ">", param("keep")),
        where(
          where.selectFrom("event").select("at")
            .whereRef("event.tenant_id", "=", "stream.tenant_id").whereRef("event.stream", "=", "stream.name")
            .where("event.seq", "=", where("stream.floor", "+", sql.lit(1))),
          "<",
          param("cutoff"),
        ),
      ])
    )
    .orderBy("tenant_id").orderBy("name").limit(param("limit"))
);

const newestBefore = prepared((
  db: Kysely<CoreTables>,
  param: Param<StreamName & { floor: number; until: number; cutoff: string }>,
) =>
  db.selectFrom("event").select("seq").where("tenant_id", "=", param("tenant_id")).where("stream", "=", param("name"))
    .where("seq", ">", param("floor")).where("seq", "<=", param("until"))
    .where("at", "<", param("cutoff"))
    .orderBy("seq", "desc").limit(sql.lit(1))
);

const moveFloor = prepared((db: Kysely<CoreTables>, param: Param<StreamName & { floor: number }>) =>
  db.updateTable("stream").set({ floor: param("floor") })
    .where("tenant_id", "=", param("tenant_id")).where("name", "=", param("name")).where("floor", "<", param("floor"))
);

const deleteUpTo = prepared((db: Kysely<CoreTables>, param: Param<StreamName & { seq: number }>) =>
  db.deleteFrom("event")
    .where("tenant_id", "=", param("tenant_id")).where("stream", "=", param("name")).where("seq", "<=", param("seq"))
);
