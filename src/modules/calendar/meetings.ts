// The meeting of an event: scheduled for its first occurrence, and moved with it.
import type { Actor } from "@/core/actor.ts";
import type { ImportContext } from "@/core/archive.ts";
import { iso } from "@/core/clock.ts";
import { invalidField } from "@/core/fault.ts";
import type { AnyDatabase } from "@/core/migration.ts";
import type { Context } from "@/core/operation.ts";
import { firstOccurrence, type Occurrence } from "./occurrence.ts";
import type { EventAggregate, EventRow } from "./store.ts";

type Initiator = Pick<Actor, "principalId" | "kind">;
type TenantInitiator = Initiator & Pick<Actor, "tenantId">;
type MeetingSlot = { title: string | null; scheduledFor: string };

/** Meetings as the calendar uses them; all methods take part in the running transaction. */
export type Meetings = {
  /** Resolves to the id of the meeting. */
  create(context: Context, meeting: MeetingSlot & { roomId: string }): Promise<string>;
  /** Resolves to the id of the meeting of the event: a new one if the old one cannot be moved. */
  move(actor: TenantInitiator, id: string, from: MeetingSlot, to: MeetingSlot): Promise<string>;
  /** A copy for an event that was split off; null if it is past. */
  copy(actor: TenantInitiator, id: string, from: MeetingSlot, to: MeetingSlot): Promise<string | null>;
  cancel(actor: TenantInitiator, id: string): Promise<void>;
  /** Meetings that exist here, by their ids in an archive. */
  locateImported(
    context: Pick<ImportContext<unknown>, "tenantId" | "refOf">,
    db: AnyDatabase,
    sourceIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly { id: string; roomId: string }[]>>;
};

export class EventMeetings {
  readonly #meetings: Meetings | undefined;

  constructor(meetings: Meetings | undefined) {
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
    const [first, next] = [firstOccurrence(before), firstOccurrence(after)];
    const [from, to] = [meetingSlotOf(before, first.items[0]), meetingSlotOf(after, next.items[0])];
    if (to === undefined && !next.truncated) await this.cancel(actor, after.row);
    if (from === undefined || to === undefined) return id;
    if (from.scheduledFor === to.scheduledFor && from.title === to.title) return id;
    return await this.#meetings.move(inTenantOf(actor, after.row), id, from, to);
  }

  /** The meeting of an event that was split off another. */
  async copyForPart(actor: Initiator, whole: EventAggregate, part: EventAggregate): Promise<string | null> {
    const { meeting_id: id } = whole.row;
    const from = meetingSlotOf(whole, firstOccurrence(whole).items[0]);
    const to = meetingSlotOf(part, firstOccurrence(part).items[0]);
    if (id === null || from === undefined || to === undefined) return null;
    return await this.#meetings?.copy(inTenantOf(actor, whole.row), id, from, to) ?? null;
  }

  async cancel(actor: Initiator, row: EventRow): Promise<void> {
    if (row.meeting_id !== null) await this.#meetings?.cancel(inTenantOf(actor, row), row.meeting_id);
  }
}

function meetingSlotOf({ row }: EventAggregate, occurrence: Occurrence | undefined): MeetingSlot | undefined {
  if (occurrence === undefined) return undefined;
  // All members of the room see the meeting, but not the title of such an event.
  const title = row.visibility === "room" ? occurrence.patch.title ?? row.title : null;
  return { title, scheduledFor: iso(occurrence.startAt) };
}

function inTenantOf(actor: Initiator, row: EventRow): TenantInitiator {
  return { ...actor, tenantId: row.tenant_id };
}
