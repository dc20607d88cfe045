// The meeting of an event: scheduled for its first occurrence, moved with it, and followed by one for the next occurrence.
import { type Clock, iso } from "@/core/time/clock.ts";
import type { EventActor } from "@/core/event/event.ts";
import { invalidField } from "@/core/fault.ts";
import type { AnyDatabase } from "@/core/migration.ts";
import type { Context } from "@/core/operation.ts";
import type { LinkedMeetings, MeetingSlot } from "@/modules/meeting/mod.ts";
import { currentOccurrence, firstOccurrence, type Occurrence } from "./recurrence/occurrence.ts";
import type { EventAggregate, EventRow } from "./store.ts";

export class EventMeetings {
  readonly #clock: Clock;
  readonly #meetings: LinkedMeetings;

  constructor(clock: Clock, meetings: LinkedMeetings) {
    this.#clock = clock;
    this.#meetings = meetings;
  }

  /** Schedules a meeting for a new event; resolves to its id. */
  async schedule(context: Context, event: EventAggregate, now: number): Promise<string> {
    const { room_id: roomId } = event.row;
    const meeting = meetingSlotOf(event, firstOccurrence(event).items[0]);
    if (roomId === null) throw invalidField("/meeting", "an event with a meeting requires a room");
    if (meeting === undefined) throw invalidField("/meeting", "the event has no occurrences");
    if (Date.parse(meeting.scheduledFor) <= now) throw invalidField("/start", "a meeting must start in the future");
    return await this.#meetings.create(context, { roomId, ...meeting });
  }

  /** Applies a change of the event; resolves to the id of its meeting, which is cancelled if no occurrence is left. */
  async update(actor: EventActor | undefined, before: EventAggregate, after: EventAggregate): Promise<string | null> {
    const { meeting_id: id } = after.row;
    if (id === null) return id;
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
    const time = id === null ? null : await this.#meetings.timeOf(db, tenantId, id);
    if (id === null || time === null) return id;
    const from = meetingSlotOf(event, currentOccurrence(event, Date.parse(time)).items[0]);
    const to = meetingSlotOf(event, currentOccurrence(event, this.#clock.now()).items[0]);
    if (from === undefined || to === undefined || to.scheduledFor <= from.scheduledFor) return id;
    return await this.#meetings.move(tenantId, undefined, id, from, to);
  }

  /** The meeting of an event that was split off another. */
  async copyForPart(
    actor: EventActor | undefined,
    whole: EventAggregate,
    part: EventAggregate,
  ): Promise<string | null> {
    const { meeting_id: id } = whole.row;
    const now = this.#clock.now();
    const from = meetingSlotOf(whole, currentOccurrence(whole, now).items[0]);
    const to = meetingSlotOf(part, currentOccurrence(part, now).items[0]);
    if (id === null || from === undefined || to === undefined) return null;
    return await this.#meetings.copy(whole.row.tenant_id, actor, id, from, to);
  }

  async cancel(actor: EventActor | undefined, row: EventRow): Promise<void> {
    if (row.meeting_id !== null) await this.#meetings.cancel(row.tenant_id, actor, row.meeting_id);
  }
}

function meetingSlotOf({ row }: EventAggregate, occurrence: Occurrence | undefined): MeetingSlot | undefined {
  if (occurrence === undefined) return undefined;
  // All members of the room see the meeting, but not the title of such an event.
  const title = row.visibility === "room" ? occurrence.patch.title ?? row.title : null;
  return { title, scheduledFor: iso(occurrence.startAt) };
}
