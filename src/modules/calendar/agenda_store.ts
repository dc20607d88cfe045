// SQL of agendas: summaries of the events that may have an occurrence in a time range.
import { type Kysely, sql } from "kysely";
import { compareText } from "@/core/text/text.ts";
import { MAX_DATE } from "@/core/time/clock.ts";
import { queryInChunks } from "@/core/page.ts";
import { inSubquery, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { CalendarTables, EventRow } from "./store.ts";

const SUMMARY_COLUMNS = [
  "calendar_event.id",
  "calendar_event.start_local",
  "calendar_event.time_zone",
  "calendar_event.duration_seconds",
  "calendar_event.rrule",
  "calendar_event.last_local",
  "calendar_event.from_at",
  "calendar_event.to_at",
] as const;

/** When an event is, without edits of single occurrences. */
export type EventSummary = Pick<
  EventRow,
  "id" | "start_local" | "time_zone" | "duration_seconds" | "rrule" | "last_local" | "from_at" | "to_at"
>;
type TimeRange = { from: string; to: string };
type EventFilter = { roomId?: string | undefined; attendeeId?: string | undefined; principalId: string };

/** Series without an end are after all others; the indexes have the same expression. */
const endsAt = sql<string>`coalesce(calendar_event.to_at, ${sql.lit(MAX_DATE)})`;

export class AgendaStore {
  readonly #db: Kysely<CalendarTables>;

  constructor(db: Kysely<CalendarTables>) {
    this.#db = db;
  }

  /** Events that may have an occurrence in the window, by start: of a room, or all that concern a principal. */
  async findEarliest(tenantId: string, window: TimeRange, filter: EventFilter, limit: number): Promise<EventSummary[]> {
    const found: EventSummary[][] = [];
    for (const query of this.#relevantQueries(tenantId, window, filter)) {
      found.push(await query.orderBy("calendar_event.from_at").orderBy("calendar_event.id").limit(limit).execute());
    }
    return mergeSummaries(found, byStart, limit);
  }

  /** The same, by end, latest first. */
  async findLatest(tenantId: string, window: TimeRange, filter: EventFilter, limit: number): Promise<EventSummary[]> {
    const found: EventSummary[][] = [];
    for (const query of this.#relevantQueries(tenantId, window, filter)) {
      // PostgreSQL sorts distinct rows only by selected columns.
      found.push(
        await query.select(endsAt.as("ends_at")).orderBy("ends_at", "desc").orderBy("calendar_event.id").limit(limit)
          .execute(),
      );
    }
    return mergeSummaries(found, byEnd, limit);
  }

  /** Events in the window that may make these principals busy. */
  async findBusy(
    tenantId: string,
    window: TimeRange,
    principalIds: readonly string[],
    limit: number,
  ): Promise<EventSummary[]> {
    const found: EventSummary[][] = [];
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
                  .whereRef("room.id", "=", "calendar_event.room_id").where("room.state", "<>", sql.lit("deleted")),
              ),
            ])
          )
          .orderBy("calendar_event.from_at").orderBy("calendar_event.id").limit(limit).execute(),
      );
    }
    return mergeSummaries(found, byStart, limit);
  }

  /** Of these events, those with edits of single occurrences. */
  async idsWithOverrides(tenantId: string, ids: readonly string[]): Promise<Set<string>> {
    const rows = await queryInChunks(
      ids,
      (some) =>
        this.#db.selectFrom("calendar_override").select("event_id").where("tenant_id", "=", tenantId)
          .where("event_id", "in", some).execute(),
    );
    return new Set(rows.map((row) => row.event_id));
  }

  /** One query for each relation to the principal: with "or" an engine scans the calendars of the whole tenant. */
  #relevantQueries(tenantId: string, window: TimeRange, { roomId, attendeeId, principalId }: EventFilter) {
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

  #within(tenantId: string, { from, to }: TimeRange) {
    return this.#db.selectFrom("calendar_event").select(SUMMARY_COLUMNS)
      .where("calendar_event.tenant_id", "=", tenantId).where("calendar_event.from_at", "<", to).where(
        endsAt,
        ">=",
        from,
      );
  }

  /** The same that one of these principals attends, each looked up by its id. */
  #attended(tenantId: string, { from, to }: TimeRange, principalIds: readonly string[]) {
    const attended = this.#db.selectFrom("calendar_attendee").select("calendar_attendee.event_id")
      .where("calendar_attendee.tenant_id", "=", tenantId).where("calendar_attendee.principal_id", "in", principalIds)
      .where("calendar_attendee.from_at", "<", to).where("calendar_attendee.ends_at", ">=", from);
    return this.#db.selectFrom("calendar_event").select(SUMMARY_COLUMNS)
      .where(inSubquery(this.#db, "calendar_event.id", attended))
      .where(tenantIsUnindexed(tenantId, "calendar_event.tenant_id"));
  }
}

function mergeSummaries(
  found: EventSummary[][],
  order: (a: EventSummary, b: EventSummary) => number,
  limit: number,
): EventSummary[] {
  const summaries = new Map(found.flat().map((summary) => [summary.id, summary]));
  return [...summaries.values()].sort(order).slice(0, limit);
}

function byStart(a: EventSummary, b: EventSummary): number {
  return compareText(a.from_at, b.from_at) || compareText(a.id, b.id);
}

function byEnd(a: EventSummary, b: EventSummary): number {
  return compareText(b.to_at ?? MAX_DATE, a.to_at ?? MAX_DATE) || compareText(a.id, b.id);
}
