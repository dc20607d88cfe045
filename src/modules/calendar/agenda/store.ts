// SQL of agendas: which events may have something in a stretch of time, and no more of each than what tells when it is.
import { type Kysely, sql } from "kysely";
import { byChunks } from "@/core/chunks.ts";
import type { CalendarTables, EventRow } from "../store.ts";

const OUTLINE = [
  "calendar_event.id",
  "calendar_event.start_local",
  "calendar_event.time_zone",
  "calendar_event.duration_seconds",
  "calendar_event.rrule",
  "calendar_event.last_local",
  "calendar_event.from_at",
  "calendar_event.to_at",
] as const;

/** What tells when an event is, but for edits of single occurrences. */
export type Outline = Pick<
  EventRow,
  "id" | "start_local" | "time_zone" | "duration_seconds" | "rrule" | "last_local" | "from_at" | "to_at"
>;
export type Window = { from: string; to: string };
export type EventFilter = { roomId?: string | undefined; attendeeId?: string | undefined; principalId: string };

/** Later than the end of every event that has one; as the indexes have it. */
const NEVER = "9999-12-31T23:59:59.999Z";
const endsAt = sql<string>`coalesce(calendar_event.to_at, ${sql.lit(NEVER)})`;

export class AgendaStore {
  readonly #db: Kysely<CalendarTables>;

  constructor(db: Kysely<CalendarTables>) {
    this.#db = db;
  }

  /** Events that may have something in the window, those that begin first: of a room, or all that concern a principal. */
  async first(tenantId: string, window: Window, filter: EventFilter, limit: number): Promise<Outline[]> {
    const found: Outline[][] = [];
    for (const query of this.#concerning(tenantId, window, filter)) {
      found.push(await query.orderBy("calendar_event.from_at").orderBy("calendar_event.id").limit(limit).execute());
    }
    return merged(found, byStart, limit);
  }

  /** The same, where there are too many those that end last. */
  async last(tenantId: string, window: Window, filter: EventFilter, limit: number): Promise<Outline[]> {
    const found: Outline[][] = [];
    for (const query of this.#concerning(tenantId, window, filter)) {
      // PostgreSQL sorts distinct rows only by what is among their columns.
      found.push(
        await query.select(endsAt.as("ends_at")).orderBy("ends_at", "desc").orderBy("calendar_event.id").limit(limit)
          .execute(),
      );
    }
    return merged(found, byEnd, limit);
  }

  /** Events in the window that may make these principals busy. */
  async busy(tenantId: string, window: Window, principalIds: readonly string[], limit: number): Promise<Outline[]> {
    const found: Outline[][] = [];
    for (
      const query of [
        this.#within(tenantId, window).where("calendar_event.created_by", "in", principalIds),
        this.#attended(tenantId, window, principalIds),
      ]
    ) {
      found.push(
        await query.where("calendar_event.is_transparent", "=", 0)
          .where(({ eb, or, exists, selectFrom }) =>
            or([
              eb("calendar_event.room_id", "is", null),
              exists(
                selectFrom("room").select("room.id").where("room.tenant_id", "=", tenantId)
                  .whereRef("room.id", "=", "calendar_event.room_id").where("room.state", "<>", "deleted"),
              ),
            ])
          )
          .orderBy("calendar_event.from_at").orderBy("calendar_event.id").limit(limit).execute(),
      );
    }
    return merged(found, byStart, limit);
  }

  /** Of these events, those with edits of single occurrences. */
  async edited(tenantId: string, ids: readonly string[]): Promise<Set<string>> {
    const rows = await byChunks(
      ids,
      (some) =>
        this.#db.selectFrom("calendar_override").select("event_id").where("tenant_id", "=", tenantId)
          .where("event_id", "in", some).execute(),
    );
    return new Set(rows.map((row) => row.event_id));
  }

  /** A query for each way to be concerned: with "or" between them an engine reads the calendars of the whole tenant. */
  #concerning(tenantId: string, window: Window, { roomId, attendeeId, principalId }: EventFilter) {
    if (attendeeId !== undefined) {
      const attended = this.#attended(tenantId, window, [attendeeId]);
      if (roomId !== undefined) return [attended.where("calendar_event.room_id", "=", roomId)];
      return [
        attended.where(({ eb, or, exists, selectFrom }) =>
          or([
            eb("calendar_event.created_by", "=", principalId),
            exists(
              selectFrom("member").select("member.role").where("member.tenant_id", "=", tenantId)
                .whereRef("member.room_id", "=", "calendar_event.room_id")
                .where("member.principal_id", "=", principalId),
            ),
            exists(
              selectFrom("calendar_attendee as me").select("me.position").where("me.tenant_id", "=", tenantId)
                .whereRef("me.event_id", "=", "calendar_event.id").where("me.principal_id", "=", principalId),
            ),
          ])
        ),
      ];
    }
    const within = this.#within(tenantId, window);
    if (roomId !== undefined) return [within.where("calendar_event.room_id", "=", roomId)];
    const rooms = this.#db.selectFrom("member").select("room_id").where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId);
    return [
      within.where("calendar_event.created_by", "=", principalId),
      within.where("calendar_event.room_id", "in", rooms),
      this.#attended(tenantId, window, [principalId]),
    ];
  }

  #within(tenantId: string, { from, to }: Window) {
    return this.#db.selectFrom("calendar_event").select(OUTLINE).where("calendar_event.tenant_id", "=", tenantId)
      .where("calendar_event.from_at", "<", to).where(endsAt, ">=", from);
  }

  /** Those that one of these attends. The cross join has SQLite begin with who attends. */
  #attended(tenantId: string, { from, to }: Window, principalIds: readonly string[]) {
    return this.#db.selectFrom("calendar_attendee").crossJoin("calendar_event").select(OUTLINE).distinct()
      .where("calendar_attendee.tenant_id", "=", tenantId).where("calendar_attendee.principal_id", "in", principalIds)
      .whereRef("calendar_event.id", "=", "calendar_attendee.event_id").where("calendar_event.tenant_id", "=", tenantId)
      .where("calendar_event.from_at", "<", to).where(endsAt, ">=", from);
  }
}

function merged(found: Outline[][], order: (a: Outline, b: Outline) => number, limit: number): Outline[] {
  const outlines = new Map(found.flat().map((outline) => [outline.id, outline]));
  return [...outlines.values()].sort(order).slice(0, limit);
}

function byStart(a: Outline, b: Outline): number {
  return compare(a.from_at, b.from_at) || compare(a.id, b.id);
}

function byEnd(a: Outline, b: Outline): number {
  return compare(b.to_at ?? NEVER, a.to_at ?? NEVER) || compare(a.id, b.id);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
