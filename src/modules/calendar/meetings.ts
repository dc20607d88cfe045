// The meeting of an event: scheduled for its first occurrence, and kept in step with it.
import type { Actor } from "@/core/actor.ts";
import { iso } from "@/core/clock.ts";
import type { Context } from "@/core/operation.ts";
import { misfit } from "./draft.ts";
import { firstOccurrence, type Occurrence } from "./occurrence.ts";
import type { EventRow, WholeEvent } from "./store.ts";

type Who = Pick<Actor, "tenantId" | "principalId" | "kind">;
type Appointment = { title: string | null; scheduledFor: string };

/** What the calendar asks of meetings; all take part in the running transaction. */
export type Meetings = {
  /** Resolves to the id of the meeting. */
  create(context: Context, meeting: Appointment & { roomId: string }): Promise<string>;
  /** Resolves to the meeting the event has now: another, when the one it had cannot move. */
  move(who: Who, id: string, from: Appointment, to: Appointment): Promise<string>;
  /** Another for an event that goes its own way; null when that is over already. */
  copy(who: Who, id: string, from: Appointment, to: Appointment): Promise<string | null>;
  cancel(who: Who, id: string): Promise<void>;
};

type Actors = Pick<Actor, "principalId" | "kind">;

export class EventMeetings {
  readonly #meetings: Meetings | undefined;

  constructor(meetings: Meetings | undefined) {
    this.#meetings = meetings;
  }

  /** Schedules one for an event that is being made; resolves to its id. */
  async schedule(context: Context, event: WholeEvent, now: number): Promise<string> {
    const { room_id: roomId } = event.row;
    const meeting = appointmentOf(event, firstOccurrence(event).items[0]);
    if (this.#meetings === undefined) throw misfit("/meeting", "meetings are not available here");
    if (roomId === null) throw misfit("/meeting", "a meeting is held in a room, so the event needs one");
    if (meeting === undefined) throw misfit("/meeting", "the event never takes place");
    if (Date.parse(meeting.scheduledFor) <= now) throw misfit("/start", "a meeting is scheduled for a time to come");
    return await this.#meetings.create(context, { roomId, ...meeting });
  }

  /** The event has changed; resolves to its meeting now. An event of which nothing is left has its meeting cancelled. */
  async follow(actor: Actors, before: WholeEvent, after: WholeEvent): Promise<string | null> {
    const { meeting_id: id } = after.row;
    if (id === null || this.#meetings === undefined) return id;
    const [was, is] = [firstOccurrence(before), firstOccurrence(after)];
    const [from, to] = [appointmentOf(before, was.items[0]), appointmentOf(after, is.items[0])];
    if (to === undefined && !is.truncated) await this.cancel(actor, after.row);
    if (from === undefined || to === undefined) return id;
    if (from.scheduledFor === to.scheduledFor && from.title === to.title) return id;
    return await this.#meetings.move(whoOf(actor, after.row), id, from, to);
  }

  /** The meeting of an event that was part of another. */
  async ofPart(actor: Actors, whole: WholeEvent, part: WholeEvent): Promise<string | null> {
    const { meeting_id: id } = whole.row;
    const from = appointmentOf(whole, firstOccurrence(whole).items[0]);
    const to = appointmentOf(part, firstOccurrence(part).items[0]);
    if (id === null || from === undefined || to === undefined) return null;
    return await this.#meetings?.copy(whoOf(actor, whole.row), id, from, to) ?? null;
  }

  async cancel(actor: Actors, row: EventRow): Promise<void> {
    if (row.meeting_id !== null) await this.#meetings?.cancel(whoOf(actor, row), row.meeting_id);
  }
}

function appointmentOf({ row }: WholeEvent, occurrence: Occurrence | undefined): Appointment | undefined {
  if (occurrence === undefined) return undefined;
  // All of the room sees the meeting, but not what other events are.
  const title = row.visibility === "room" ? occurrence.patch.title ?? row.title : null;
  return { title, scheduledFor: iso(occurrence.startAt) };
}

function whoOf(actor: Actors, row: EventRow): Who {
  return { ...actor, tenantId: row.tenant_id };
}
