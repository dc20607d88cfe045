// Access to meetings, one change at a time, with upkeep: expiry, and the end of participations whose access was lost.
import { isAtLeast, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import { roomOfStream, type StoredEvent } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess, RoomGrant } from "@/modules/room/mod.ts";
import { type Store, type Transaction, whenTaken } from "@/ports/store.ts";
import { LockedMeeting, type LockedMeetingDeps } from "./locked_meeting.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingRow, MeetingTables } from "./tables.ts";

type Tx = Transaction<MeetingTables>;
type Deps = LockedMeetingDeps & { store: Store<MeetingTables>; roomAccess: RoomAccess; identity: IdentityService };

/** Events after which participants may have lost access to the room. */
const ACCESS_EVENTS: ReadonlySet<string> = new Set(["member.left", "member.updated"]);
/** Events that end the meeting of a room. */
const CLOSE_EVENTS: ReadonlySet<string> = new Set(["room.archived", "room.deleted"]);

const log = logOf("meeting");

export class MeetingManager {
  readonly #deps: Deps;
  readonly #running = new Set<Promise<void>>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** A meeting in a room that the caller may use for the operation. Writers pass their `tx`. */
  async findAuthorized(context: Context, id: string, tx?: Tx): Promise<{ row: MeetingRow; grant: RoomGrant }> {
    const { db } = tx ?? this.#deps.store;
    return await this.#authorize(context, await new MeetingStore(db).find(context.actor.tenantId, id), tx);
  }

  /** A meeting without authorization, for jobs. */
  findUnchecked(tenantId: string, id: string): Promise<MeetingRow | undefined> {
    return new MeetingStore(this.#deps.store.db).find(tenantId, id);
  }

  /**
   * Runs `work` with the meeting locked for the caller, authorized under the lock. Takes a function because expiry is applied
   * before it and the next upkeep is enqueued after it.
   */
  withLock<Result>(
    context: Context,
    id: string,
    work: (meeting: LockedMeeting, grant: RoomGrant) => Promise<Result>,
  ): Promise<Result> {
    return this.write(async (tx) => {
      const locked = await new MeetingStore(tx.db).lock(context.actor.tenantId, id);
      const { row, grant } = await this.#authorize(context, locked, tx);
      return await this.#withUpkeep(tx, row, (meeting) => work(meeting, grant));
    });
  }

  /** The same for a meeting that has not ended. */
  withOpenLock<Result>(
    context: Context,
    id: string,
    work: (meeting: LockedMeeting, grant: RoomGrant) => Promise<Result>,
  ): Promise<Result> {
    return this.withLock(context, id, (meeting, grant) => {
      if (meeting.row.state === "ended") throw new Fault("gone", "The meeting has ended");
      return work(meeting, grant);
    });
  }

  /** The same without authorization, for jobs and committed events; does nothing if the meeting is deleted. */
  async withSystemLock(tenantId: string, id: string, work?: (meeting: LockedMeeting) => Promise<void>): Promise<void> {
    await this.write(async (tx) => {
      const row = await new MeetingStore(tx.db).lock(tenantId, id);
      if (row !== undefined) await this.#withUpkeep(tx, row, work ?? (() => Promise.resolve()));
    });
  }

  /** Runs `work` with a meeting that the transaction has just created. */
  async lockNew<Result>(tx: Tx, row: MeetingRow, work: (meeting: LockedMeeting) => Promise<Result>): Promise<Result> {
    return await this.#withUpkeep(tx, row, work);
  }

  /** As of the store; when two meetings of a room start at the same time, the later one fails. */
  write<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> {
    return this.#deps.store.write(work)
      .catch(whenTaken((cause) => new Fault("meeting_active", "The room already has an active meeting", { cause })));
  }

  /** Handles events committed on this node: a participant who lost access leaves at once, not when the lease expires. */
  onEvents(events: readonly StoredEvent[]): void {
    for (const { tenantId, stream, type } of events) {
      const id = stream.slice(stream.indexOf(":") + 1);
      if (type === "principal.disabled") this.#run(() => this.#revalidatePrincipal(tenantId, id));
      else if (roomOfStream(stream) === undefined) continue;
      else if (ACCESS_EVENTS.has(type)) this.#run(() => this.#removeUnauthorized(tenantId, id));
      else if (CLOSE_EVENTS.has(type)) this.#run(() => this.#close(tenantId, id));
    }
  }

  /** Resolves when all events received so far have been handled. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Ends the participations in the room's meeting of principals who lost access. */
  async #removeUnauthorized(tenantId: string, roomId: string): Promise<void> {
    await this.#withRoomMeeting(tenantId, roomId, async (meeting) => {
      for (const participant of [...meeting.participants]) {
        const role = await this.#roleOf(meeting.tx, tenantId, participant.principal_id, roomId);
        if (!isAtLeast(ROOM_ROLES, role, "member")) await meeting.leave(participant, "no_access");
      }
    });
  }

  async #close(tenantId: string, roomId: string): Promise<void> {
    await this.#withRoomMeeting(tenantId, roomId, async (meeting) => {
      if (meeting.row.state !== "ended") await meeting.end("room_closed");
    });
  }

  async #withRoomMeeting(
    tenantId: string,
    roomId: string,
    work: (meeting: LockedMeeting) => Promise<void>,
  ): Promise<void> {
    const open = await new MeetingStore(this.#deps.store.db).findOpen(tenantId, roomId);
    if (open !== undefined) await this.withSystemLock(tenantId, open.id, work);
  }

  async #revalidatePrincipal(tenantId: string, id: string): Promise<void> {
    const { store, identity } = this.#deps;
    const ids = [id, ...await identity.agentsOf(tenantId, id)];
    for (const roomId of await new MeetingStore(store.db).roomsWith(tenantId, ids)) {
      await this.#removeUnauthorized(tenantId, roomId);
    }
  }

  /** Never throws: a participation missed here ends with its lease, which cannot be renewed. */
  #run(work: () => Promise<void>): void {
    const running = work().catch((cause) => {
      log.warn("revalidation of meeting participants failed", { code: Fault.from(cause).code });
    }).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #authorize(
    context: Context,
    row: MeetingRow | undefined,
    tx?: Tx,
  ): Promise<{ row: MeetingRow; grant: RoomGrant }> {
    const { roomAccess } = this.#deps;
    if (row === undefined) throw notVisible("meeting");
    return { row, grant: await roomAccess.require(context, row.room_id, { tx, resource: { noun: "meeting" } }) };
  }

  async #withUpkeep<Result>(
    tx: Tx,
    row: MeetingRow,
    work: (meeting: LockedMeeting) => Promise<Result>,
  ): Promise<Result> {
    const meeting = await LockedMeeting.open(this.#deps, tx, row);
    await meeting.applyTimeouts();
    const result = await work(meeting);
    await meeting.scheduleUpkeep();
    return result;
  }

  /** The role of a principal in a room; `observer` also if it has no access. */
  async #roleOf({ db }: Tx, tenantId: string, principalId: string, roomId: string): Promise<RoomRole> {
    const row = (await this.#deps.identity.findEnabled(tenantId, [principalId], db)).get(principalId);
    if (row === undefined) return "observer";
    const subject = { tenantId, principalId, kind: row.kind, role: row.role, ownerId: row.owner_id };
    return (await this.#deps.roomAccess.find(subject, roomId, db))?.role ?? "observer";
  }
}
