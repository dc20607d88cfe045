// Imports of iCalendar files: promised at once, done by a job, and safe to repeat because events are told by their uid.
import { isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { type Clock, iso, nextTurn } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { askedAgain, ruleOf, type Timing } from "./draft.ts";
import { type IcsFile, splitIcs } from "./ics_file.ts";
import type { IcsEvent } from "./ics_reader.ts";
import { ATTENDEES_MAX, EXCEPTIONS_MAX, type Import, type ImportReport, type ImportStart } from "./schema.ts";
import { calendarOf } from "./service.ts";
import { CalendarStore, type CalendarTables, type ImportRow, type WholeEvent } from "./store.ts";
import type { EventWriter } from "./writer.ts";

export const IMPORT_JOB = "calendar.import";
const PROBLEMS_MAX = 100;

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  gate: RoomGate;
  identity: Pick<IdentityService, "enabled" | "subject">;
  writer: EventWriter;
};
type Reader = typeof import("./ics_reader.ts");
type Who = Awaited<ReturnType<IdentityService["subject"]>>;
type Outcome = "created" | "updated" | "unchanged";

export class CalendarImports {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async start(context: Context, { roomId, text }: ImportStart): Promise<Import> {
    const { actor } = context;
    splitIcs(text);
    return await this.#deps.store.write(async (tx) => {
      if (roomId !== undefined) await this.#deps.gate.enter(context, roomId);
      const row: ImportRow = {
        tenant_id: actor.tenantId,
        id: newId("imp"),
        principal_id: actor.principalId,
        room_id: roomId ?? null,
        state: "waiting",
        text,
        report_json: null,
        created_at: iso(this.#deps.clock.now()),
        finished_at: null,
      };
      await new CalendarStore(tx.db).addImport(row);
      await tx.enqueue({ tenantId: actor.tenantId, kind: IMPORT_JOB, payload: { importId: row.id } });
      return present(row);
    });
  }

  /** The caller's own import. */
  async read({ actor }: Context, id: string): Promise<Import> {
    const row = await new CalendarStore(this.#deps.store.db).import(actor.tenantId, id);
    if (row === undefined || row.principal_id !== actor.principalId) throw new Fault("not_found", "No such import");
    return present(row);
  }

  /** The job: brings the events in one by one, so that a bad one does not keep the others out. */
  async run(tenantId: string, id: string): Promise<void> {
    const row = await new CalendarStore(this.#deps.store.db).import(tenantId, id);
    if (row === undefined || row.text === null) return;
    const report: ImportReport = { created: 0, updated: 0, unchanged: 0, problems: [] };
    const problem = (uid: string | null, detail: string): void => {
      if (report.problems.length < PROBLEMS_MAX) report.problems.push({ uid, detail });
    };
    const home = (await this.#deps.identity.enabled(tenantId, [row.principal_id])).get(row.principal_id);
    const reader = await import("./ics_reader.ts");
    const file = splitIcs(row.text);
    if (home === undefined) problem(null, "whoever asked for it is gone");
    if (file.oversized > 0) problem(null, `${file.oversized} events are too large to read`);
    const groups = home === undefined ? [] : groupsOf(reader, file, home.timezone ?? "UTC", problem);
    for (const group of groups) {
      // Between events others get their turn.
      await nextTurn();
      try {
        report[await this.#bring(reader, row, group)]++;
        const leftOut = [group.master, ...group.edits].flatMap((one) => one.leftOut);
        for (const detail of new Set(leftOut)) problem(group.master.uid, detail);
      } catch (error) {
        if (!(error instanceof Fault) || error.kind.retryable === true) throw error;
        problem(group.master.uid, error.message);
      }
    }
    const now = iso(this.#deps.clock.now());
    await this.#deps.store.write((tx) => new CalendarStore(tx.db).endImport(tenantId, id, JSON.stringify(report), now));
  }

  #bring(
    reader: Reader,
    { tenant_id, principal_id, room_id: roomId }: ImportRow,
    { master, edits }: Group,
  ): Promise<Outcome> {
    const { writer, clock, identity } = this.#deps;
    return this.#deps.store.write(async (tx) => {
      const who = await identity.subject(tenant_id, principal_id);
      if (roomId !== null) await this.#checkRoom(who, roomId);
      const events = new CalendarStore(tx.db);
      const calendar = calendarOf(roomId, who.principalId);
      const found = await events.byUid(who.tenantId, calendar, master.uid);
      const before = found === undefined ? undefined : await events.locked(who.tenantId, found.id);
      if (before !== undefined && before.row.visibility !== "room" && before.row.created_by !== who.principalId) {
        throw new Fault("forbidden", "somebody else's event has this uid");
      }
      const after = eventOf(reader, who, roomId, { master, edits }, before, iso(clock.now()));
      if (before !== undefined && isSame(before, after)) return "unchanged";
      await writer.put(tx, after, { actor: who, scope: "all", invited: after }, before);
      // The room is held by now: a removal that came before is seen, and one to come waits for this.
      if (roomId !== null) await this.#checkRoom(who, roomId);
      return before === undefined ? "created" : "updated";
    });
  }

  async #checkRoom(who: Who, roomId: string): Promise<void> {
    const entry = await this.#deps.gate.look(who, roomId);
    if (entry === undefined || entry.role === null || !isAtLeast(ROOM_ROLES, entry.role, "member")) {
      throw new Fault("forbidden", "the room is no longer open to the importer");
    }
    if (entry.room.state === "archived") throw new Fault("room_archived", "the room is archived");
  }
}

type Group = { master: IcsEvent; edits: IcsEvent[] };

/** Series with their single-occurrence edits; an edit without its series stands for itself. */
function groupsOf(
  reader: Reader,
  file: IcsFile,
  homeZone: string,
  problem: (uid: string, detail: string) => void,
): Group[] {
  const read: IcsEvent[] = [];
  const readEvent = reader.readerOf(file, homeZone);
  for (const event of file.events) {
    try {
      read.push(readEvent(event));
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      problem(event.uid, error.message.replace(/^\/text: /, ""));
    }
  }
  const groups: Group[] = [];
  for (const [uid, events] of Map.groupBy(read, (event) => event.uid)) {
    const masters = events.filter((event) => event.occurrence === null);
    const master = masters.at(-1);
    const edits = events.filter((event) => event.occurrence !== null);
    if (masters.length > 1) problem(uid, "the file has it more than once; the last one counts");
    if (master?.isCancelled) problem(uid, "it is cancelled in the file");
    else if (master !== undefined) groups.push({ master, edits });
    else {
      for (const edit of edits.filter((one) => !one.isCancelled)) {
        const name = edit.occurrence?.local.replaceAll(/[-:]/g, "");
        groups.push({ master: { ...edit, uid: `${uid.slice(0, 200)}_R${name}`, rrule: null, exDates: [] }, edits: [] });
      }
    }
  }
  return groups;
}

function eventOf(
  { inSeries }: Reader,
  who: Who,
  roomId: string | null,
  { master, edits }: Group,
  before: WholeEvent | undefined,
  now: string,
): WholeEvent {
  const { timing, rrule } = master;
  const id = before?.row.id ?? newId("cal");
  const named = edits.flatMap((edit) =>
    edit.occurrence === null || rrule === null ? [] : [{ edit, name: inSeries(edit.occurrence, timing) }]
  );
  const cancelled = named.filter(({ edit }) => edit.isCancelled).map(({ name }) => name);
  const edited = new Map(named.filter(({ edit }) => !edit.isCancelled).map(({ name, edit }) => [name, edit]));
  const exDates = [...master.exDates, ...cancelled];
  if (exDates.length > EXCEPTIONS_MAX || edited.size > EXCEPTIONS_MAX) {
    throw new Fault("limit_reached", `more than ${EXCEPTIONS_MAX} occurrences differ from the series`);
  }
  const fromFile = master.attendees.map((attendee) => ({
    ...attendee,
    principal_id: null,
    comment: null,
    responded_at: null,
  }));
  const when = { ...timing, ...ruleOf(rrule, exDates, timing) };
  const isMoved = before !== undefined && !isSameTime(before.row, when);
  // Principals who were invited here stay invited.
  const invited = before?.attendees.filter((attendee) => attendee.principal_id !== null) ?? [];
  const kept = isMoved ? askedAgain(invited) : invited;
  const attendees = [...kept, ...fromFile].map((attendee, position) => ({
    ...attendee,
    tenant_id: who.tenantId,
    event_id: id,
    position,
  }));
  if (attendees.length > ATTENDEES_MAX) {
    throw new Fault("limit_reached", `with those invited here it has more than ${ATTENDEES_MAX} attendees`);
  }
  const reminders_json = master.reminders === null
    ? before?.row.reminders_json ?? "[]"
    : JSON.stringify(master.reminders);
  return {
    row: {
      tenant_id: who.tenantId,
      id,
      calendar: calendarOf(roomId, who.principalId),
      uid: master.uid,
      room_id: roomId,
      from_at: now,
      to_at: now,
      meeting_id: null,
      version: 1,
      created_by: who.principalId,
      created_at: now,
      updated_at: now,
      ...before?.row,
      title: master.title,
      description: master.description,
      location: master.location,
      visibility: master.visibility ?? before?.row.visibility ?? "room",
      is_transparent: master.isTransparent ? 1 : 0,
      ...when,
      reminders_json,
      // Other reminders are for what is still to come.
      reminded_at: before?.row.reminders_json === reminders_json ? before.row.reminded_at : now,
    },
    attendees,
    overrides: [...edited].sort(([a], [b]) => a < b ? -1 : 1).map(([name, edit]) => ({
      tenant_id: who.tenantId,
      event_id: id,
      occurrence: name,
      patch_json: JSON.stringify({
        title: edit.title,
        description: edit.description,
        location: edit.location,
        startLocal: edit.timing.start_local,
        timeZone: edit.timing.time_zone,
        durationSeconds: edit.timing.duration_seconds,
      }),
    })),
    rsvps: isMoved ? [] : before?.rsvps ?? [],
  };
}

function isSameTime(a: Timing & { rrule: string | null }, b: Timing & { rrule: string | null }): boolean {
  return a.start_local === b.start_local && a.time_zone === b.time_zone && a.rrule === b.rrule &&
    a.duration_seconds === b.duration_seconds;
}

/** Whether an import would change nothing. */
function isSame(before: WholeEvent, after: WholeEvent): boolean {
  return JSON.stringify(comparable(before)) === JSON.stringify(comparable(after));
}

function comparable({ row, overrides, attendees }: WholeEvent): unknown {
  return [
    [row.title, row.description, row.location, row.visibility, row.is_transparent, row.reminders_json],
    [row.start_local, row.time_zone, row.duration_seconds, row.rrule, row.last_local, row.ex_dates_json],
    overrides.map(({ occurrence, patch_json }) => [occurrence, patch_json]),
    // Who is invited by address comes out of the file, and so behind the others.
    attendees.map(({ principal_id, email, role }) => JSON.stringify([principal_id, email, role])).sort(),
  ];
}

function present(row: ImportRow): Import {
  return {
    id: row.id,
    roomId: row.room_id,
    state: row.state,
    report: row.report_json === null ? null : JSON.parse(row.report_json),
    createdAt: row.created_at,
    finishedAt: row.finished_at,
  };
}
