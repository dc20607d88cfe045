// Meetings of something else, such as an event of the calendar: made with it, moved with it, called off with it.
import { type Actor, hasScope } from "@/core/actor.ts";
import { iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { type HeldMeeting, NOT_BEGUN } from "./held.ts";
import type { MeetingKeeper } from "./keeper.ts";
import type { MeetingService } from "./service.ts";
import type { MeetingRow } from "./tables.ts";

type Who = Pick<Actor, "tenantId" | "principalId" | "kind">;
type Deps = { meetings: MeetingService; keeper: MeetingKeeper };
/** What a meeting takes from what it belongs to. */
type Appointment = { title: string | null; scheduledFor: string };

/**
 * All take part in the running transaction. Whoever may change the thing changes its meeting with it, host or not: what
 * they may is for the thing to say, and was looked at there.
 */
export class LinkedMeetings {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Schedules one, in the transaction that makes the thing; resolves to its id. */
  async create(context: Context, { title, ...input }: Appointment & { roomId: string }): Promise<string> {
    if (!hasScope(context.actor, "meeting.write")) {
      throw new Fault("scope_missing", "Scheduling a meeting needs the scope meeting.write");
    }
    const { id } = await this.#deps.meetings.start(context, {
      ...input,
      title: title ?? undefined,
      kind: "video",
      lobby: false,
      agentIds: [],
      autoRecord: false,
    });
    return id;
  }

  /**
   * The thing has another time or name; resolves to the id of the meeting it has now. One that is still to come goes along.
   * One that has begun or ended stays what it is, and for a later time there is another like it.
   */
  async move(who: Who, id: string, from: Appointment, to: Appointment): Promise<string> {
    let linked = id;
    await this.#deps.keeper.tend(who.tenantId, id, async (held) => {
      const isMoved = from.scheduledFor !== to.scheduledFor;
      if (isMoved && held.row.state !== "scheduled") {
        const next = await this.#another(held, who, from, to);
        if (next === null) return;
        linked = next;
        return await release(held, who);
      }
      const title = titleAfter(held.row, from, to);
      if (held.row.state === "ended" || (!isMoved && title === held.row.title)) return;
      await held.save({ title, ...(isMoved ? { scheduled_for: to.scheduledFor } : {}) });
      await held.emit("meeting.updated", who);
    });
    return linked;
  }

  /** A meeting like it for a part of the thing that goes its own way; null when that is over, or the meeting was called off. */
  async copy(who: Who, id: string, from: Appointment, to: Appointment): Promise<string | null> {
    let copied: string | null = null;
    await this.#deps.keeper.tend(who.tenantId, id, async (held) => {
      copied = await this.#another(held, who, from, to);
    });
    return copied;
  }

  /** The thing is off. People who are in its meeting are not put out. */
  async cancel(who: Who, id: string): Promise<void> {
    await this.#deps.keeper.tend(who.tenantId, id, (held) => release(held, who));
  }

  async #another(
    { row, now, tx, meetings }: HeldMeeting,
    who: Who,
    from: Appointment,
    to: Appointment,
  ): Promise<string | null> {
    if (Date.parse(to.scheduledFor) <= now || row.end_reason === "cancelled") return null;
    const next: MeetingRow = {
      ...row,
      ...NOT_BEGUN,
      id: newId("mtg"),
      title: titleAfter(row, from, to),
      scheduled_for: to.scheduledFor,
      created_at: iso(now),
      updated_at: iso(now),
    };
    await meetings.add(next);
    await this.#deps.keeper.adopt(tx, next, (made) => made.emit("meeting.updated", who));
    return next.id;
  }
}

/** A name of its own is kept. */
function titleAfter({ title }: MeetingRow, from: Appointment, to: Appointment): string | null {
  return title === from.title ? to.title : title;
}

/** Ends a meeting that nobody is in; one that began before its time lasts as long as somebody is. */
async function release(held: HeldMeeting, who: Who): Promise<void> {
  const { state, scheduled_for: scheduledFor } = held.row;
  if (state === "ended") return;
  if (held.people.length === 0) return await held.end("cancelled", who);
  if (scheduledFor === null || Date.parse(scheduledFor) <= held.now) return;
  await held.save({ scheduled_for: null });
  await held.emit("meeting.updated", who);
}
