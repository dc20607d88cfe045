// Imports of iCalendar files: run by a job, and repeatable because events are matched by uid.
import { isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { compareText } from "@/core/text/text.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { createYielder, nextSlice } from "@/core/caller.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { DeadLetterReason } from "@/core/job.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import type { CalendarAccess } from "./access.ts";
import { hidesEvent, resetResponses, resolveRule } from "./event_input.ts";
import { parseIcs } from "./ics/file.ts";
import type { IcsEvent } from "./ics/reader.ts";
import { type EventGroup, type ParsedFile, parseFile } from "./ics/parsing.ts";
import { findStart } from "./recurrence/expansion.ts";
import { exDatesOf, seriesOf } from "./recurrence/occurrence.ts";
import { ATTENDEES_MAX, EXCEPTIONS_MAX, WAITING_IMPORTS_MAX } from "./limits.ts";
import type { Import, ImportReport, ImportStart } from "./schema.ts";
import { CalendarStore, type CalendarTables, type EventAggregate, type EventRow, type ImportRow } from "./store.ts";
import { type Timing, toSeriesTime } from "./time_zone.ts";
import { type EventWrite, type EventWriter, writeEvents } from "./writer.ts";

export const IMPORT_JOB = "calendar.import";
const PROBLEMS_MAX = 100;
const EMPTY_FILE: ParsedFile = { batches: [], problems: [] };

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  roomAccess: RoomAccess;
  access: CalendarAccess;
  identity: Pick<IdentityService, "findEnabled" | "subject">;
  writer: EventWriter;
};
type Importer = Awaited<ReturnType<IdentityService["subject"]>>;
type Outcome = "created" | "updated" | "unchanged";
type Outcomes = ReadonlyMap<EventGroup, Outcome | Fault>;
/** A series or a single event with a valid rule. */
type ResolvedGroup = {
  master: IcsEvent;
  edited: ReadonlyMap<string, IcsEvent>;
  when: Timing & Pick<EventRow, "rrule" | "last_local" | "ex_dates_json">;
};

export class CalendarImports {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async start(context: Context, { roomId, text }: ImportStart): Promise<Import> {
    const { actor } = context;
    await parseIcs(text);
    return await this.#deps.store.write(async (tx) => {
      if (roomId !== undefined) await this.#deps.roomAccess.require(context, roomId, { tx });
      const imports = new CalendarStore(tx.db);
      await tx.lock(actor.tenantId, principalStream(actor.principalId));
      if (await imports.countWaitingImports(actor.tenantId, actor.principalId) >= WAITING_IMPORTS_MAX) {
        throw new Fault(
          "limit_reached",
          `${WAITING_IMPORTS_MAX} imports of the caller wait; import more when they are done`,
        );
      }
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
      await imports.addImport(row);
      await tx.enqueue({ tenantId: actor.tenantId, kind: IMPORT_JOB, payload: { importId: row.id } });
      return present(row);
    });
  }

  /** An import of the caller. */
  async read({ actor }: Context, id: string): Promise<Import> {
    const row = await new CalendarStore(this.#deps.store.db).import(actor.tenantId, id);
    if (row === undefined || row.principal_id !== actor.principalId) throw notFound("import");
    return present(row);
  }

  /** The job: imports the events in batches, one commit each; an invalid event does not affect the others. */
  async run(tenantId: string, id: string): Promise<void> {
    const row = await new CalendarStore(this.#deps.store.db).import(tenantId, id);
    if (row === undefined || row.text === null) return;
    const report: ImportReport = { created: 0, updated: 0, unchanged: 0, problems: [] };
    const problem = (uid: string | null, detail: string): void => {
      if (report.problems.length < PROBLEMS_MAX) report.problems.push({ uid, detail });
    };
    const creator = (await this.#deps.identity.findEnabled(tenantId, [row.principal_id])).get(row.principal_id);
    if (creator === undefined) problem(null, "its creator no longer exists");
    const file = creator === undefined ? EMPTY_FILE : await parseOrReport(row.text, creator.timezone ?? "UTC");
    report.problems.push(...file.problems);
    for (const json of file.batches) {
      const batch: EventGroup[] = JSON.parse(json);
      for (const [{ master, overrides }, outcome] of await this.#importGroups(row, batch)) {
        if (outcome instanceof Fault) {
          problem(master.uid, outcome.message);
          continue;
        }
        report[outcome]++;
        const unsupported = [master, ...overrides].flatMap((one) => one.unsupported);
        for (const detail of new Set(unsupported)) problem(master.uid, detail);
      }
    }
    await this.#end(tenantId, id, report);
  }

  /** Ends an import that will not run again; imported events remain. */
  async abandon(tenantId: string, id: string, reason: DeadLetterReason): Promise<void> {
    const cause = reason === "interrupted"
      ? "the gateway stopped several times while reading the file"
      : "it failed too often";
    const detail = `${cause}; events read until then were imported`;
    await this.#end(tenantId, id, { created: 0, updated: 0, unchanged: 0, problems: [{ uid: null, detail }] });
  }

  async #end(tenantId: string, id: string, report: ImportReport): Promise<void> {
    const now = iso(this.#deps.clock.now());
    await this.#deps.store.write((tx) => new CalendarStore(tx.db).endImport(tenantId, id, JSON.stringify(report), now));
  }

  /** Imports a batch; if its commit fails for good, each group gets a commit of its own. */
  async #importGroups(row: ImportRow, groups: readonly EventGroup[]): Promise<Outcomes> {
    // Yields between batches, and between rules that take long.
    await nextSlice();
    const yieldIfDue = createYielder();
    const resolved = new Map<EventGroup, ResolvedGroup | Fault>();
    for (const group of groups) {
      resolved.set(group, await resolveGroup(group).catch(permanentFault));
      await yieldIfDue();
    }
    try {
      return await this.#write(row, resolved);
    } catch (cause) {
      const fault = permanentFault(cause);
      if (groups.length === 1) return new Map(groups.map((group) => [group, fault]));
      const outcomes: [EventGroup, Outcome | Fault][] = [];
      for (const group of groups) outcomes.push(...await this.#importGroups(row, [group]));
      return new Map(outcomes);
    }
  }

  #write(
    { tenant_id, principal_id, room_id: roomId }: ImportRow,
    resolved: ReadonlyMap<EventGroup, ResolvedGroup | Fault>,
  ): Promise<Outcomes> {
    const { store, writer, clock, access, identity } = this.#deps;
    const uids = [...resolved.keys()].map(({ master }) => master.uid);
    return writeEvents(store, async (tx) => {
      const importer = await identity.subject(tenant_id, principal_id, tx.db);
      const isModerator = roomId !== null && await this.#checkRoom(tx.db, importer, roomId);
      const existing = await access.lockByUid(tx, importer, roomId, uids);
      const now = iso(clock.now());
      const puts: EventWrite[] = [];
      const outcomes = new Map<EventGroup, Outcome | Fault>();
      for (const [group, one] of resolved) {
        outcomes.set(
          group,
          one instanceof Fault ? one : attempt(() => {
            const before = existing.get(one.master.uid);
            const isOfOther = before !== undefined && before.row.created_by !== importer.principalId;
            if (isOfOther && before.row.visibility !== "room") {
              throw new Fault("forbidden", "An event of another principal has this uid");
            }
            const event = eventOf(importer, roomId, one, before, now);
            const { visibility } = event.row;
            if (isOfOther && !isModerator && hidesEvent(before.row, { visibility, exDates: exDatesOf(event.row) })) {
              throw new Fault("forbidden", "The file hides an event of another principal, which takes a moderator");
            }
            if (before !== undefined && isSame(before, event)) return "unchanged";
            puts.push({ event, before, change: { actor: importer, scope: "all", invited: event } });
            return before === undefined ? "created" : "updated";
          }),
        );
      }
      await writer.putAll(tx, puts);
      // The room stream is locked by now: a removal has either been committed or waits for this commit.
      if (roomId !== null) await this.#checkRoom(tx.db, importer, roomId);
      return outcomes;
    });
  }

  /** Throws unless the importer may write in the room; returns whether as a moderator. */
  async #checkRoom(db: AnyDatabase, importer: Importer, roomId: string): Promise<boolean> {
    const grant = await this.#deps.roomAccess.find(importer, roomId, db);
    if (grant === undefined || grant.role === null || !isAtLeast(ROOM_ROLES, grant.role, "member")) {
      throw new Fault("forbidden", "The room is no longer accessible to its creator");
    }
    if (grant.room.state === "archived") throw new Fault("room_archived", "The room is archived");
    return isAtLeast(ROOM_ROLES, grant.role, "moderator");
  }
}

/** The result of `work`, or the permanent fault it throws. */
function attempt<Result>(work: () => Result): Result | Fault {
  try {
    return work();
  } catch (cause) {
    return permanentFault(cause);
  }
}

/** Returns a fault that a retry would repeat; throws any other. */
function permanentFault(cause: unknown): Fault {
  if (!(cause instanceof Fault) || cause.spec.retryable === true) throw cause;
  return cause;
}

/** Parses a file; an invalid one has a problem and no events. */
async function parseOrReport(text: string, homeZone: string): Promise<ParsedFile> {
  try {
    return await parseFile({ text, homeZone, problemsMax: PROBLEMS_MAX });
  } catch (thrown) {
    return { batches: [], problems: [{ uid: null, detail: permanentFault(thrown).message.replace(/^\/text: /, "") }] };
  }
}

/** What does not depend on stored events: the validated rule, and edits by their occurrence. */
async function resolveGroup({ master, overrides }: EventGroup): Promise<ResolvedGroup> {
  const { timing, rrule } = master;
  const named = overrides.flatMap((edit) =>
    edit.occurrence === null || rrule === null ? [] : [{ edit, name: toSeriesTime(edit.occurrence, timing) }]
  );
  const cancelled = named.filter(({ edit }) => edit.isCancelled).map(({ name }) => name);
  const exDates = [...master.exDates, ...cancelled];
  const when = { ...timing, ...await resolveRule(rrule, exDates, timing) };
  const edited = new Map(
    named.filter(({ edit, name }) => !edit.isCancelled && !isUnedited(edit, name, master, when))
      .map(({ name, edit }) => [name, edit]),
  );
  if (exDates.length > EXCEPTIONS_MAX || edited.size > EXCEPTIONS_MAX) {
    throw new Fault("limit_reached", `More than ${EXCEPTIONS_MAX} exceptions of the series`);
  }
  return { master, edited, when };
}

/** Whether an occurrence in a file is as its series says: it is there because somebody responded to it. */
function isUnedited(edit: IcsEvent, name: string, master: IcsEvent, when: ResolvedGroup["when"]): boolean {
  const { title, description, location, timing } = edit;
  return title === master.title && description === master.description && location === master.location &&
    isSameTime({ ...timing, rrule: null }, { ...when, start_local: name, rrule: null }) &&
    findStart(seriesOf(when), name) !== undefined;
}

function eventOf(
  importer: Importer,
  roomId: string | null,
  { master, edited, when }: ResolvedGroup,
  before: EventAggregate | undefined,
  now: string,
): EventAggregate {
  const id = before?.row.id ?? newId("cal");
  const isMoved = before !== undefined && !isSameTime(before.row, when);
  const reminders_json = master.reminders === null
    ? before?.row.reminders_json ?? "[]"
    : JSON.stringify(master.reminders);
  return {
    row: {
      tenant_id: importer.tenantId,
      id,
      calendar: "",
      uid: master.uid,
      room_id: roomId,
      from_at: now,
      to_at: now,
      meeting_id: null,
      version: 1,
      created_by: importer.principalId,
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
      // Changed reminders apply to future occurrences only.
      reminded_at: before?.row.reminders_json === reminders_json ? before.row.reminded_at : now,
    },
    attendees: attendeesOf(importer, id, master, before?.attendees ?? [], isMoved),
    overrides: [...edited].sort(([a], [b]) => compareText(a, b)).map(([name, edit]) => ({
      tenant_id: importer.tenantId,
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

/** Those in the file, after the principals that were invited here, who remain attendees. */
function attendeesOf(
  importer: Importer,
  eventId: string,
  master: ResolvedGroup["master"],
  before: EventAggregate["attendees"],
  isMoved: boolean,
): EventAggregate["attendees"] {
  const fromFile = master.attendees.map((attendee) => ({
    ...attendee,
    principal_id: null,
    comment: null,
    responded_at: null,
  }));
  const invited = before.filter((attendee) => attendee.principal_id !== null);
  const remaining = isMoved ? resetResponses(invited) : invited;
  const attendees = [...remaining, ...fromFile].map((attendee, position) => ({
    ...attendee,
    tenant_id: importer.tenantId,
    event_id: eventId,
    position,
  }));
  if (attendees.length > ATTENDEES_MAX) {
    throw new Fault("limit_reached", `More than ${ATTENDEES_MAX} attendees, including those invited here`);
  }
  return attendees;
}

function isSameTime(a: Timing & { rrule: string | null }, b: Timing & { rrule: string | null }): boolean {
  return a.start_local === b.start_local && a.time_zone === b.time_zone && a.rrule === b.rrule &&
    a.duration_seconds === b.duration_seconds;
}

/** Whether an import changes nothing. */
function isSame(before: EventAggregate, after: EventAggregate): boolean {
  return JSON.stringify(comparable(before)) === JSON.stringify(comparable(after));
}

function comparable({ row, overrides, attendees }: EventAggregate): unknown {
  return [
    [row.title, row.description, row.location, row.visibility, row.is_transparent, row.reminders_json],
    [row.start_local, row.time_zone, row.duration_seconds, row.rrule, row.last_local, row.ex_dates_json],
    overrides.map(({ occurrence, patch_json }) => [occurrence, patch_json]),
    // Sorted: attendees from the file follow those invited here.
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
