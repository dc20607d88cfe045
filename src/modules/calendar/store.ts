// SQL of calendars.
import type { Kysely } from "kysely";
import { byChunks } from "@/core/chunks.ts";
import { isOfTenant } from "@/ports/list.ts";
import type { RoomTables } from "@/modules/room/mod.ts";
import type { ATTENDEE_ROLES, EVENT_VISIBILITIES, STATUSES } from "./schema.ts";

export type EventRow = {
  tenant_id: string;
  id: string;
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
  /** No start comes after this wall time; null for a series that goes on, and for a single event. */
  last_local: string | null;
  ex_dates_json: string;
  /** Everything of the event lies between these instants; `to_at` is null for a series that goes on. */
  from_at: string;
  to_at: string | null;
  reminders_json: string;
  /** Reminders due up to this instant have been sent, or are not wanted. */
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
  calendar_attendee: AttendeeRow;
  calendar_rsvp: RsvpRow;
  calendar_feed: FeedRow;
  calendar_import: ImportRow;
};

/** What belongs to a batch of events. */
export type Parts = { overrides: OverrideRow[]; attendees: AttendeeRow[]; rsvps: RsvpRow[] };

/** An event with everything that belongs to it. */
export type WholeEvent = Parts & { row: EventRow };

const PARTS = ["calendar_override", "calendar_attendee", "calendar_rsvp"] as const;
/** Read with their parts before others may have a turn. */
const EVENTS_AT_ONCE = 500;
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

  /** The event with all its parts, kept from other writers until the transaction ends. */
  async locked(tenantId: string, id: string): Promise<WholeEvent | undefined> {
    // An update that changes nothing is the row lock that both engines have.
    await this.#db.updateTable("calendar_event").set(({ ref }) => ({ version: ref("version") }))
      .where("tenant_id", "=", tenantId).where("id", "=", id).execute();
    return await this.whole(tenantId, id);
  }

  /** The event with all its parts. */
  async whole(tenantId: string, id: string): Promise<WholeEvent | undefined> {
    const row = await this.find(tenantId, id);
    return row === undefined ? undefined : (await this.wholes(tenantId, [row]))[0];
  }

  byUid(tenantId: string, calendar: string, uid: string): Promise<EventRow | undefined> {
    return this.#db.selectFrom("calendar_event").selectAll().where("tenant_id", "=", tenantId)
      .where("calendar", "=", calendar).where("uid", "=", uid).executeTakeFirst();
  }

  /** The events of these ids with all their parts, in the same order. `rest` lets others have a turn in between. */
  async wholesOf(tenantId: string, ids: readonly string[], rest?: () => Promise<unknown>): Promise<WholeEvent[]> {
    const events = await byChunks(ids, async (some) => {
      const wholes = await this.wholes(tenantId, await this.#byIds(tenantId, some));
      await rest?.();
      return wholes;
    }, EVENTS_AT_ONCE);
    const whole = new Map(events.map((event) => [event.row.id, event]));
    return ids.flatMap((id) => whole.get(id) ?? []);
  }

  /** The events of these rows, of which one statement takes the ids, with all their parts. */
  async wholes(tenantId: string, rows: readonly EventRow[]): Promise<WholeEvent[]> {
    const whole = new Map(rows.map((row): [string, WholeEvent] => [
      row.id,
      { row, overrides: [], attendees: [], rsvps: [] },
    ]));
    const ids = [...whole.keys()];
    if (ids.length === 0) return [];
    const overrides = await this.#db.selectFrom("calendar_override").selectAll().where("tenant_id", "=", tenantId)
      .where("event_id", "in", ids).orderBy("occurrence").execute();
    const attendees = await this.#db.selectFrom("calendar_attendee").selectAll().where("tenant_id", "=", tenantId)
      .where("event_id", "in", ids).orderBy("position").execute();
    const rsvps = await this.#db.selectFrom("calendar_rsvp").selectAll().where("tenant_id", "=", tenantId)
      .where("event_id", "in", ids).execute();
    for (const part of overrides) whole.get(part.event_id)?.overrides.push(part);
    for (const part of attendees) whole.get(part.event_id)?.attendees.push(part);
    for (const part of rsvps) whole.get(part.event_id)?.rsvps.push(part);
    return [...whole.values()];
  }

  async add(row: EventRow): Promise<void> {
    await this.#db.insertInto("calendar_event").values(row).execute();
  }

  async update(tenantId: string, id: string, set: Partial<EventRow>): Promise<void> {
    await this.#db.updateTable("calendar_event").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  /** Puts these in the place of whatever belonged to the event. */
  async replaceParts(tenantId: string, eventId: string, parts: Partial<Parts>): Promise<void> {
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
      // Of a long series with many guests there are more than one statement takes.
      for (let at = 0; at < rsvps.length; at += ROWS_PER_INSERT) {
        await this.#db.insertInto("calendar_rsvp").values(rsvps.slice(at, at + ROWS_PER_INSERT)).execute();
      }
    }
  }

  /** Puts one answer to one occurrence in the place of the one before. */
  async answer(row: RsvpRow): Promise<void> {
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

  /** Events with an id after `after`, by id. */
  after(tenantId: string, after: string, limit: number): Promise<EventRow[]> {
    return this.#db.selectFrom("calendar_event").selectAll().where("tenant_id", "=", tenantId).where("id", ">", after)
      .orderBy("id").limit(limit).execute();
  }

  #byIds(tenantId: string, ids: readonly string[]): Promise<EventRow[]> {
    return this.#db.selectFrom("calendar_event").selectAll().where(isOfTenant(tenantId)).where("id", "in", ids)
      .execute();
  }

  async addFeed(row: FeedRow): Promise<void> {
    await this.#db.insertInto("calendar_feed").values(row).execute();
  }

  feeds(tenantId: string, principalId: string): Promise<FeedRow[]> {
    return this.#db.selectFrom("calendar_feed").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).orderBy("id").execute();
  }

  /** The one look-up without a tenant: the hash is what names the tenant. */
  feedByHash(hash: string): Promise<FeedRow | undefined> {
    return this.#db.selectFrom("calendar_feed").selectAll().where("hash", "=", hash).executeTakeFirst();
  }

  async removeFeed(tenantId: string, principalId: string, id: string): Promise<boolean> {
    const rows = await this.#db.deleteFrom("calendar_feed").where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).where("id", "=", id).returning("id").execute();
    return rows.length > 0;
  }

  async addImport(row: ImportRow): Promise<void> {
    await this.#db.insertInto("calendar_import").values(row).execute();
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

  /** Removes what hangs on a purged room besides its events. */
  async purge(tenantId: string, roomId: string): Promise<void> {
    for (const table of ["calendar_feed", "calendar_import"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("room_id", "=", roomId).execute();
    }
  }

  async #clear(table: (typeof PARTS)[number], tenantId: string, eventId: string): Promise<void> {
    await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("event_id", "=", eventId).execute();
  }
}
