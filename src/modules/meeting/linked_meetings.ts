// Meetings that belong to another resource, such as a calendar event: created, moved and cancelled with it.
import { hasScope } from "@/core/actor.ts";
import { iso } from "@/core/time/clock.ts";
import type { EventActor } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { AnyDatabase } from "@/core/migration.ts";
import type { Context } from "@/core/operation.ts";
import { locateImportedMeetings } from "./archive/import.ts";
import { INITIAL_STATE, type LockedMeeting } from "./locked_meeting.ts";
import type { MeetingManager } from "./meeting_manager.ts";
import type { MeetingService } from "./service.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingRow } from "./tables.ts";

type Deps = { meetings: MeetingService; manager: MeetingManager };
/** What a meeting takes from its resource. */
export type MeetingSlot = { title: string | null; scheduledFor: string };

/**
 * All methods take part in the running transaction. They do not authorize: the right to change the resource, which its module has
 * checked, includes the right to change its meeting.
 */
export class LinkedMeetings {
  readonly #deps: Deps;
  /** Meetings that exist here, by their ids in an archive. */
  readonly locateImported = locateImportedMeetings;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Schedules a meeting and resolves to its id. */
  async create(context: Context, { title, ...input }: MeetingSlot & { roomId: string }): Promise<string> {
    if (!hasScope(context.actor, "meeting.write")) {
      throw new Fault("scope_missing", "Scheduling a meeting requires the scope meeting.write");
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
   * Applies a new time or title of the resource; resolves to the id of its meeting. A scheduled meeting is moved; one that has started
   * or ended stays as it is, and a copy is scheduled for a later time.
   */
  async move(
    tenantId: string,
    actor: EventActor | undefined,
    id: string,
    from: MeetingSlot,
    to: MeetingSlot,
  ): Promise<string> {
    let linked = id;
    await this.#deps.manager.withSystemLock(tenantId, id, async (meeting) => {
      const isMoved = from.scheduledFor !== to.scheduledFor;
      if (isMoved && meeting.row.state !== "scheduled") {
        const next = await this.#createCopy(meeting, actor, from, to);
        if (next === null) return;
        linked = next;
        return await cancelOrUnschedule(meeting, actor);
      }
      const title = titleAfter(meeting.row, from, to);
      if (meeting.row.state === "ended" || (!isMoved && title === meeting.row.title)) return;
      await meeting.save({ title, ...(isMoved ? { scheduled_for: to.scheduledFor } : {}) });
      await meeting.emit("meeting.updated", actor);
    });
    return linked;
  }

  /** Copies the meeting for a part of the resource that is split off; null if that time is past or the meeting was cancelled. */
  async copy(
    tenantId: string,
    actor: EventActor | undefined,
    id: string,
    from: MeetingSlot,
    to: MeetingSlot,
  ): Promise<string | null> {
    let copied: string | null = null;
    await this.#deps.manager.withSystemLock(tenantId, id, async (meeting) => {
      copied = await this.#createCopy(meeting, actor, from, to);
    });
    return copied;
  }

  /** Cancels the meeting of a cancelled resource. Participants are not removed. */
  async cancel(tenantId: string, actor: EventActor | undefined, id: string): Promise<void> {
    await this.#deps.manager.withSystemLock(tenantId, id, (meeting) => cancelOrUnschedule(meeting, actor));
  }

  async timeOf(db: AnyDatabase, tenantId: string, id: string): Promise<string | null> {
    return (await new MeetingStore(db).find(tenantId, id))?.scheduled_for ?? null;
  }

  async #createCopy(
    { row, now, tx, store }: LockedMeeting,
    actor: EventActor | undefined,
    from: MeetingSlot,
    to: MeetingSlot,
  ): Promise<string | null> {
    if (Date.parse(to.scheduledFor) <= now || row.end_reason === "cancelled") return null;
    const next: MeetingRow = {
      ...row,
      ...INITIAL_STATE,
      id: newId("mtg"),
      title: titleAfter(row, from, to),
      scheduled_for: to.scheduledFor,
      created_at: iso(now),
      updated_at: iso(now),
    };
    await store.add(next);
    await this.#deps.manager.lockNew(tx, next, (copy) => copy.emit("meeting.updated", actor));
    return next.id;
  }
}

/** A title that was changed in the meeting itself remains. */
function titleAfter({ title }: MeetingRow, from: MeetingSlot, to: MeetingSlot): string | null {
  return title === from.title ? to.title : title;
}

/** Ends a meeting without participants; one that started before its time ends when the last participant leaves. */
async function cancelOrUnschedule(meeting: LockedMeeting, actor: EventActor | undefined): Promise<void> {
  const { state, scheduled_for: scheduledFor } = meeting.row;
  if (state === "ended") return;
  if (meeting.participants.length === 0) return await meeting.end("cancelled", actor);
  if (scheduledFor === null || Date.parse(scheduledFor) <= meeting.now) return;
  await meeting.save({ scheduled_for: null });
  await meeting.emit("meeting.updated", actor);
}
