// SQL of retention: rooms with a retention period, and the age of their oldest messages and events.
import { type Kysely, sql } from "kysely";
import type { RetentionTables } from "@/modules/tenant/mod.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { ScheduledTables } from "./scheduled/store.ts";

type AllTables = ScheduledTables & RetentionTables;
type LoggedTables = AllTables & { event: { tenant_id: string; stream: string; seq: number; at: string } };

/** The days of a room and those of its tenant; the fewer apply. */
type RetentionDays = { retention_days: number | null; messages_days: number | null };
/** A room with a retention period, and the times of its oldest message, event and failed scheduled message. */
export type RetentionRoom = RetentionDays & {
  tenant_id: string;
  id: string;
  message_at: string | null;
  event_at: string | null;
  failed_at: string | null;
};

const roomsWithRetention = prepared((db: Kysely<LoggedTables>, value: Param<{ after: string; limit: number }>) =>
  db.selectFrom("room").leftJoin("tenant_retention", "tenant_retention.tenant_id", "room.tenant_id")
    .leftJoin(
      (from) =>
        from.selectFrom("scheduled_message").select(({ fn }) => ["tenant_id", "room_id", fn.min("send_at").as("at")])
          .where("state", "=", sql.lit("failed")).groupBy(["tenant_id", "room_id"]).as("failed"),
      (join) => join.onRef("failed.tenant_id", "=", "room.tenant_id").onRef("failed.room_id", "=", "room.id"),
    )
    .select(({ selectFrom }) => [
      "room.tenant_id",
      "room.id",
      "room.retention_days",
      "tenant_retention.messages_days",
      "failed.at as failed_at",
      selectFrom("message").select("message.created_at").whereRef("message.tenant_id", "=", "room.tenant_id")
        .whereRef("message.room_id", "=", "room.id").orderBy("message.seq").limit(sql.lit(1)).as("message_at"),
      selectFrom("stream")
        .innerJoin(
          "event",
          (join) =>
            join.onRef("event.tenant_id", "=", "stream.tenant_id").onRef("event.stream", "=", "stream.name")
              .on((on) => on("event.seq", "=", on("stream.floor", "+", sql.lit(1)))),
        )
        .select("event.at").whereRef("stream.tenant_id", "=", "room.tenant_id")
        .where("stream.name", "=", sql<string>`'room:' || room.id`).as("event_at"),
    ])
    .where(({ eb, or }) =>
      or([eb("room.retention_days", "is not", null), eb("tenant_retention.messages_days", "is not", null)])
    )
    .where("room.id", ">", value("after")).orderBy("room.id").limit(value("limit"))
);

export class RetentionStore {
  readonly #db: Kysely<AllTables>;

  constructor(db: Kysely<AllTables>) {
    this.#db = db;
  }

  /** The days that a room stores messages; `undefined`: unlimited. */
  async days(tenantId: string, roomId: string): Promise<number | undefined> {
    const row = await this.#db.selectFrom("room")
      .leftJoin("tenant_retention", "tenant_retention.tenant_id", "room.tenant_id")
      .select(["room.retention_days", "tenant_retention.messages_days"]).where("room.tenant_id", "=", tenantId)
      .where("room.id", "=", roomId).executeTakeFirst();
    return row === undefined ? undefined : daysOf(row);
  }

  /** Rooms of all tenants with an id after `after`, by id. */
  roomsWithRetention(after: string, limit: number): Promise<RetentionRoom[]> {
    return roomsWithRetention.all(this.#db, { after, limit });
  }
}

export function daysOf({ retention_days, messages_days }: RetentionDays): number | undefined {
  const days = Math.min(retention_days ?? Infinity, messages_days ?? Infinity);
  return days === Infinity ? undefined : days;
}
