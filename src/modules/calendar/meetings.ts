// The meeting of an event: scheduled for its first occurrence, moved with it, and followed by one for the next occurrence.
import type { Actor } from "@/core/actor.ts";
import type { ImportContext } from "@/core/archive.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { invalidField } from "@/core/fault.ts";
import type { AnyDatabase } from "@/core/migration.ts";
import type { Context } from "@/core/operation.ts";
import { currentOccurrence, firstOccurrence, type Occurrence } from "./occurrence.ts";
import type { EventAggregate, EventRow } from "./store.ts";

/** Absent if the gateway does it by itself. */
type Initiator = Pick<Actor, "principalId" | "kind"> | undefined;
type MeetingSlot = { title: string | null; scheduledFor: string };

/** Meetings as the calendar uses them; all methods take part in the running transaction. */
export type Meetings = {
  /** Resolves to the id of the meeting. */
  create(context: Context, meeting: MeetingSlot & { roomId: string }): Promise<string>;
  /** Resolves to the id of the meeting of the event: a new one if the old one cannot be moved. */
  move(tenantId: string, actor: Initiator, id: string, from: MeetingSlot, to: MeetingSlot): Promise<string>;
  /** A copy for an event that was split off; null if it is past. */
  copy(
    tenantId: string,
    actor: Initiator,
    id: string,
    from: MeetingSlot,
    to: MeetingSlot,
  ): Promise<string | null>;
  cancel(tenantId: string, actor: Initiator, id: string): Promise<void>;
  /** When a meeting is scheduled for, as the running transaction sees it. */
  timeOf(db: AnyDatabase, tenantId: string, id: string): Promise<string | null>;
  /** Meetings that exist here, by their ids in an archive. */
  locateImported(
    context: Pick<ImportContext<unknown>, "tenantId" | "refOf">,
    db: AnyDatabase,
    sourceIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly { id: string; roomId: string }[]>>;
};

export class EventMeetings {
  readonly #clock: Clock;
  readonly #meetings: Meetings | undefined;

  constructor(clock: Clock, meetings: Meetings | undefined) {
    this.#clock = clock;
    this.#meetings = meetings;
  }

  /** Schedules a meeting for a new event; resolves to its id. */
  async schedule(context: Context, event: EventAggregate, now: number): Promise<string> {
    const { room_id: roomId } = event.row;
    const meeting = meetingSlotOf(event, firstOccurrence(event).items[0]);
    if (this.#meetings === undefined) throw invalidField("/meeting", "meetings are not available");
    if (roomId === null) throw invalidField("/meeting", "an event with a meeting requires a room");
    if (meeting === undefined) throw invalidField("/meeting", "the event has no occurrences");
    if (Date.parse(meeting.scheduledFor) <= now) throw invalidField("/start", "a meeting must start in the future");
    return await this.#meetings.create(context, { roomId, ...meeting });
  }

  /** Applies a change of the event; resolves to the id of its meeting, which is cancelled if no occurrence is left. */
  async update(actor: Initiator, before: EventAggregate, after: EventAggregate): Promise<string | null> {
    const { meeting_id: id } = after.row;
    if (id === null || this.#meetings === undefined) return id;
    const now = this.#clock.now();
    const [current, next] = [currentOccurrence(before, now), currentOccurrence(after, now)];
    const [from, to] = [meetingSlotOf(before, current.items[0]), meetingSlotOf(after, next.items[0])];
    if (to === undefined && !next.truncated) await this.cancel(actor, after.row);
    if (from === undefined || to === undefined) return id;
    if (from.scheduledFor === to.scheduledFor && from.title === to.title) return id;
    return await this.#meetings.move(after.row.tenant_id, actor, id, from, to);
  }

  /** Resolves to the id of the meeting of the occurrence that takes place now, or is the next one. */
  async advance(db: AnyDatabase, event: EventAggregate): Promise<string | null> {
    const { tenant_id: tenantId, meeting_id: id } = event.row;
    const time = id === null ? null : await this.#meetings?.timeOf(db, tenantId, id) ?? null;
    if (id === null || time === null || this.#meetings === undefined) return id;
    const from = meetingSlotOf(event, currentOccurrence(event, Date.parse(time)).items[0]);
    const to = meetingSlotOf(event, currentOccurrence(event, this.#clock.now()).items[0]);
    if (from === undefined || to === undefined || to.scheduledFor <= from.scheduledFor) return id;
    return await this.#meetings.move(tenantId, undefined, id, from, to);
  }

  /** The meeting of an event that was split off another. */
  async copyForPart(actor: Initiator, whole: EventAggregate, part: EventAggregate): Promise<string | null> {
    const { meeting_id: id } = whole.row;
    const now = this.#clock.now();
    const from = meetingSlotOf(whole, currentOccurrence(whole, now).items[0]);
    const to = meetingSlotOf(part, currentOccurrence(part, now).items[0]);
    if (id === null || from === undefined || to === undefined) return null;
    return await this.#meetings?.copy(whole.row.tenant_id, actor, id, from, to) ?? null;
  }

  async cancel(actor: Initiator, row: EventRow): Promise<void> {
    if (row.meeting_id !== null) await this.#meetings?.cancel(row.tenant_id, actor, row.meeting_id);
  }
}

function meetingSlotOf({ row }: EventAggregate, occurrence: Occurrence | undefined): MeetingSlot | undefined {
  if (occurrence === undefined) return undefined;
  // All members of the room see the meeting, but not the title of such an event.
  const title = row.visibility === "room" ? occurrence.patch.title ?? row.title : null;
  return { title, scheduledFor: iso(occurrence.startAt) };
}
