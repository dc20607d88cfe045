// SQL of calendars.
import { inChunks, type RowSelection } from "@/core/page.ts";
import { type Generated, type Kysely, sql } from "kysely";
import type { TenantRole } from "@/core/actor.ts";
import { equalsUnindexed, inList, selectRows, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { RoomTables } from "@/modules/room/mod.ts";
import type { ATTENDEE_ROLES, EVENT_VISIBILITIES, STATUSES } from "./schema.ts";

export type EventRow = {
  tenant_id: string;
  id: string;
  /** The value of `calendarOf`. */
  calendar: string;
  uid: string;
  room_id: string | null;
  title: string;
  description: string | null;
  location: string | null;
  visibility: (typeof EVENT_VISIBILITIES)[number];
  is_transparent: number;
  /** Wall time, or date when `time_zone` is null. */
  start_local: string;
  time_zone: string | null;
  duration_seconds: number;
  rrule: string | null;
  /** Wall time of the last start; null for a series without end, and for a single event. */
  last_local: string | null;
  ex_dates_json: string;
  /** The time range of all occurrences; `to_at` is null for a series without end. */
  from_at: string;
  to_at: string | null;
  reminders_json: string;
  /** Reminders due up to this instant are not sent (again). */
  reminded_at: string;
  meeting_id: string | null;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
};

export type OverrideRow = { tenant_id: string; event_id: string; occurrence: string; patch_json: string };

export type AttendeeRow = {
  tenant_id: string;
  event_id: string;
  position: number;
  principal_id: string | null;
  email: string | null;
  role: (typeof ATTENDEE_ROLES)[number];
  status: (typeof STATUSES)[number];
  comment: string | null;
  responded_at: string | null;
};

const ATTENDEE_COLUMNS = [
  "tenant_id",
  "event_id",
  "position",
  "principal_id",
  "email",
  "role",
  "status",
  "comment",
  "responded_at",
] as const satisfies (keyof AttendeeRow)[];

/** When its event is, which the database adds: of a series as a whole, until `MAX_DATE` if that has no end. */
type AttendedTime = { from_at: Generated<string>; ends_at: Generated<string> };

export type RsvpRow = {
  tenant_id: string;
  event_id: string;
  principal_id: string;
  occurrence: string;
  status: (typeof STATUSES)[number];
  comment: string | null;
  responded_at: string;
};

export type FeedRow = {
  tenant_id: string;
  id: string;
  principal_id: string;
  room_id: string | null;
  name: string;
  hash: string;
  created_at: string;
  /** The token that created it, and its role. */
  token_id: string | null;
  role: TenantRole | null;
};

export type ImportRow = {
  tenant_id: string;
  id: string;
  principal_id: string;
  room_id: string | null;
  state: "waiting" | "done";
  text: string | null;
  report_json: string | null;
  created_at: string;
  finished_at: string | null;
};

export type CalendarTables = RoomTables & {
  calendar_event: EventRow;
  calendar_override: OverrideRow;
  calendar_attendee: AttendeeRow & AttendedTime;
  calendar_rsvp: RsvpRow;
  calendar_feed: FeedRow;
  calendar_import: ImportRow;
};

/** The parts of one or more events. */
type EventPartRows = { overrides: OverrideRow[]; attendees: AttendeeRow[]; rsvps: RsvpRow[] };

export type EventAggregate = EventPartRows & { row: EventRow };

/**
 * The calendar of an event, in which uids are unique: of a room, of a principal, or of the events of a principal in a room that not all
 * members see. So a uid that is taken does not reveal hidden events.
 */
export function calendarOf(row: Pick<EventRow, "room_id" | "visibility" | "created_by">): string {
  if (row.room_id === null) return `principal:${row.created_by}`;
  return row.visibility === "room" ? `room:${row.room_id}` : `room:${row.room_id}/${row.created_by}`;
}

const PARTS = ["calendar_override", "calendar_attendee", "calendar_rsvp"] as const;
/** Loaded at once. */
const EVENTS_PER_CHUNK = 50;
const ROWS_PER_INSERT = 1000;

export class CalendarStore {
  readonly #db: Kysely<CalendarTables>;

  constructor(db: Kysely<CalendarTables>) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<EventRow | undefined> {
    return this.#db.selectFrom("calendar_event").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  /** Ids of events of a room, or (null) of personal ones; `isRoomVisible`: only of those that the whole room may see. */
  async idsAfter(
    tenantId: string,
    roomId: string | null,
    isRoomVisible: boolean,
    after: string,
    limit: number,
  ): Promise<string[]> {
    let query = this.#db.selectFrom("calendar_event").select("id").where("tenant_id", "=", tenantId)
      .where("id", ">", after).orderBy("id").limit(limit);
    query = roomId === null ? query.where("room_id", "is", null) : query.where("room_id", "=", roomId);
    if (isRoomVisible) query = query.where("visibility", "=", "room");
    return (await query.execute()).map((row) => row.id);
  }

  /** The event with all its parts, locked until the transaction ends. */
  async lockAggregate(tenantId: string, id: string): Promise<EventAggregate | undefined> {
    // An update without a change is a row lock on both engines.
    await this.#db.updateTable("calendar_event").set(({ ref }) => ({ version: ref("version") }))
      .where("tenant_id", "=", tenantId).where("id", "=", id).execute();
    return await this.findAggregate(tenantId, id);
  }

  async findAggregate(tenantId: string, id: string): Promise<EventAggregate | undefined> {
    const row = await this.find(tenantId, id);
    return row === undefined ? undefined : (await this.loadAggregates(tenantId, [row]))[0];
  }

  /** The same for several events. */
  async lockAggregates(tenantId: string, ids: readonly string[]): Promise<EventAggregate[]> {
    if (ids.length === 0) return [];
    await this.#db.updateTable("calendar_event").set(({ ref }) => ({ version: ref("version") }))
      .where("tenant_id", "=", tenantId).where("id", "in", ids).execute();
    return await this.findAggregates(tenantId, ids);
  }

  byUid(tenantId: string, calendar: string, uid: string): Promise<EventRow | undefined> {
    return this.#db.selectFrom("calendar_event").selectAll().where("tenant_id", "=", tenantId)
      .where("calendar", "=", calendar).where("uid", "=", uid).executeTakeFirst();
  }

  /**
   * Ids of events with these uids, at most a statement's worth: in the principal's own calendar (null), or in a room those that all
   * members see, and those the principal created or is invited to.
   */
  async idsByUid(
    tenantId: string,
    roomId: string | null,
    principalId: string,
    uids: readonly string[],
  ): Promise<string[]> {
    const query = this.#db.selectFrom("calendar_event").select("id").where(tenantIsUnindexed(tenantId))
      .where("uid", "in", uids);
    const isMine = equalsUnindexed("created_by", principalId);
    const rows =
      await (roomId === null
        ? query.where("room_id", "is", null).where(isMine)
        : query.where(equalsUnindexed("room_id", roomId)).where(({ eb, or, exists, selectFrom }) => {
          const invitation = selectFrom("calendar_attendee").select("event_id")
            .where("calendar_attendee.tenant_id", "=", tenantId).whereRef("event_id", "=", "calendar_event.id")
            .where("principal_id", "=", principalId);
          return or([eb("visibility", "=", "room"), isMine, exists(invitation)]);
        })).execute();
    return rows.map(({ id }) => id);
  }

  /** The events of these ids with all their parts, in the same order. `yieldIfDue` is called between chunks. */
  async findAggregates(
    tenantId: string,
    ids: readonly string[],
    yieldIfDue?: () => Promise<unknown>,
  ): Promise<EventAggregate[]> {
    const events: EventAggregate[] = [];
    for await (const some of this.aggregatesInChunks(tenantId, ids)) {
      events.push(...some);
      await yieldIfDue?.();
    }
    return events;
  }

  /** The same, few at a time: each may have 200 attendees, and thousands of parts. */
  async *aggregatesInChunks(tenantId: string, ids: readonly string[]): AsyncGenerator<EventAggregate[]> {
    for (const some of inChunks(ids, EVENTS_PER_CHUNK)) {
      const events = await this.loadAggregates(tenantId, await this.rows(tenantId, { ids: some }));
      const byId = new Map(events.map((event) => [event.row.id, event]));
      yield some.flatMap((id) => byId.get(id) ?? []);
    }
  }

  /** The events of these rows, at most a statement's worth, with all their parts. */
  async loadAggregates(tenantId: string, rows: readonly EventRow[]): Promise<EventAggregate[]> {
    const aggregates = new Map(rows.map((row): [string, EventAggregate] => [
      row.id,
      { row, overrides: [], attendees: [], rsvps: [] },
    ]));
    const ids = [...aggregates.keys()];
    if (ids.length === 0) return [];
    const ofThese = inList(this.#db, "event_id", ids);
    const overrides = await this.#db.selectFrom("calendar_override").selectAll().where(tenantIsUnindexed(tenantId))
      .where(ofThese).orderBy("occurrence").execute();
    const attendees = await this.#db.selectFrom("calendar_attendee").select(ATTENDEE_COLUMNS)
      .where(tenantIsUnindexed(tenantId)).where(ofThese).orderBy("position").execute();
    const rsvps = await this.#db.selectFrom("calendar_rsvp").selectAll().where(tenantIsUnindexed(tenantId))
      .where(ofThese).execute();
    for (const part of overrides) aggregates.get(part.event_id)?.overrides.push(part);
    for (const part of attendees) aggregates.get(part.event_id)?.attendees.push(part);
    for (const part of rsvps) aggregates.get(part.event_id)?.rsvps.push(part);
    return [...aggregates.values()];
  }

  async update(tenantId: string, id: string, set: Partial<EventRow>): Promise<void> {
    await this.#db.updateTable("calendar_event").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  /** Replaces the parts of the event that are given. */
  async replaceParts(tenantId: string, eventId: string, parts: Partial<EventPartRows>): Promise<void> {
    const { overrides, attendees, rsvps } = parts;
    if (overrides !== undefined) {
      await this.#clear("calendar_override", tenantId, eventId);
      if (overrides.length > 0) await this.#db.insertInto("calendar_override").values(overrides).execute();
    }
    if (attendees !== undefined) {
      await this.#clear("calendar_attendee", tenantId, eventId);
      if (attendees.length > 0) await this.#db.insertInto("calendar_attendee").values(attendees).execute();
    }
    if (rsvps !== undefined) {
      await this.#clear("calendar_rsvp", tenantId, eventId);
      // A long series with many attendees has more than one statement can insert.
      for (const rows of inChunks(rsvps, ROWS_PER_INSERT)) {
        await this.#db.insertInto("calendar_rsvp").values(rows).execute();
      }
    }
  }

  /** Inserts or replaces the response to one occurrence. */
  async saveRsvp(row: RsvpRow): Promise<void> {
    const { status, comment, responded_at } = row;
    await this.#db.insertInto("calendar_rsvp").values(row).onConflict((conflict) =>
      conflict.columns(["event_id", "principal_id", "occurrence"]).doUpdateSet({ status, comment, responded_at })
    ).execute();
  }

  async remove(tenantId: string, id: string): Promise<void> {
    for (const table of PARTS) await this.#clear(table, tenantId, id);
    await this.#db.deleteFrom("calendar_event").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async idsOfRoom(tenantId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("calendar_event").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).limit(limit).execute();
    return rows.map((row) => row.id);
  }

  /** Events by id, or by page. */
  rows(tenantId: string, which: RowSelection): Promise<EventRow[]> {
    return selectRows(this.#db.selectFrom("calendar_event").selectAll(), tenantId, which);
  }

  async addFeed(row: FeedRow): Promise<void> {
    await this.#db.insertInto("calendar_feed").values(row).execute();
  }

  feeds(tenantId: string, principalId: string): Promise<FeedRow[]> {
    return this.#db.selectFrom("calendar_feed").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).orderBy("id").execute();
  }

  /** The only query without a tenant: the hash identifies it. */
  feedByHash(hash: string): Promise<FeedRow | undefined> {
    return this.#db.selectFrom("calendar_feed").selectAll().where("hash", "=", hash).executeTakeFirst();
  }

  async removeFeed(tenantId: string, principalId: string, id: string): Promise<boolean> {
    const rows = await this.#db.deleteFrom("calendar_feed").where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).where("id", "=", id).returning("id").execute();
    return rows.length > 0;
  }

  /** Deletes the feeds that a token created. */
  async removeFeedsByToken(tenantId: string, tokenId: string): Promise<void> {
    await this.#db.deleteFrom("calendar_feed").where("tenant_id", "=", tenantId).where("token_id", "=", tokenId)
      .execute();
  }

  async addImport(row: ImportRow): Promise<void> {
    await this.#db.insertInto("calendar_import").values(row).execute();
  }

  async countWaitingImports(tenantId: string, principalId: string): Promise<number> {
    const { count } = await this.#db.selectFrom("calendar_import").select(({ fn }) => fn.countAll().as("count"))
      .where("tenant_id", "=", tenantId).where("principal_id", "=", principalId).where("state", "=", sql.lit("waiting"))
      .executeTakeFirstOrThrow();
    return Number(count);
  }

  import(tenantId: string, id: string): Promise<ImportRow | undefined> {
    return this.#db.selectFrom("calendar_import").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  async endImport(tenantId: string, id: string, reportJson: string, at: string): Promise<void> {
    await this.#db.updateTable("calendar_import").set({
      state: "done",
      text: null,
      report_json: reportJson,
      finished_at: at,
    }).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Deletes the feeds and imports of a purged room. */
  async purge(tenantId: string, roomId: string): Promise<void> {
    for (const table of ["calendar_feed", "calendar_import"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("room_id", "=", roomId).execute();
    }
  }

  async #clear(table: (typeof PARTS)[number], tenantId: string, eventId: string): Promise<void> {
    await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("event_id", "=", eventId).execute();
  }
}
