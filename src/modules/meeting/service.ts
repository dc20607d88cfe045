// Meetings: created for now or later, listed, read, updated and ended.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { assertVersion, flagOf, jsonOf, withoutUndefined } from "@/core/patch.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { readerOf, type RoomAccess, type RoomGrant, RoomStore } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { INITIAL_STATE, type LockedMeeting } from "./locked_meeting.ts";
import type { MeetingManager } from "./meeting_manager.ts";
import { isPresent, presentMeeting, recordingOf } from "./presenter.ts";
import { assertModerator, roleIn } from "./roles.ts";
import { type Meeting, type MeetingList, type MeetingStart, type MeetingUpdate, RELAY_MAX, SFU_MAX } from "./schema.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingRow, MeetingTables, ParticipantRow } from "./tables.ts";

const PURGE_BATCH = 100;

type Deps = {
  store: Store<MeetingTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  identity: IdentityService;
  manager: MeetingManager;
  hasSfu: boolean;
};

export class MeetingService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  start(context: Context, { scheduledFor, maxParticipants, ...input }: MeetingStart): Promise<Meeting> {
    const { actor } = context;
    const { clock, roomAccess, manager } = this.#deps;
    const participantsMax = this.#deps.hasSfu ? SFU_MAX : RELAY_MAX;
    if ((maxParticipants ?? 0) > participantsMax) {
      throw invalidField("/maxParticipants", `at most ${participantsMax} without a media server`);
    }
    return manager.write(async (tx) => {
      const grant = await roomAccess.require(context, input.roomId, { tx, least: "member" });
      if (actor.kind === "agent") {
        throw new Fault("forbidden", "Agents can participate in meetings but not create them");
      }
      await this.#deps.identity.assertVisible(actor, input.agentIds, "/agentIds", tx.db);
      const now = clock.now();
      const row: MeetingRow = {
        ...INITIAL_STATE,
        tenant_id: actor.tenantId,
        id: newId("mtg"),
        room_id: input.roomId,
        title: input.title ?? null,
        kind: input.kind,
        host_id: actor.principalId,
        scheduled_for: scheduledFor === undefined ? null : inFuture(scheduledFor, now),
        max_participants: maxParticipants ?? participantsMax,
        is_lobby: input.lobby ? 1 : 0,
        agent_ids_json: JSON.stringify(input.agentIds),
        created_by: actor.principalId,
        created_at: iso(now),
        updated_at: iso(now),
      };
      await new MeetingStore(tx.db).add(row);
      return await manager.lockNew(tx, row, async (meeting) => {
        if (scheduledFor === undefined) await this.startLocked(meeting, actor, grant);
        else await meeting.emit("meeting.updated", actor);
        return meeting.present();
      });
    });
  }

  /** Starts a meeting; in a direct room it rings for the others, unless it was scheduled. */
  async startLocked(meeting: LockedMeeting, actor: Actor, { room }: RoomGrant): Promise<void> {
    const { tx: { db } } = meeting;
    await this.#assertNoneActive(meeting.tx, actor.tenantId, room.id);
    if (room.kind !== "direct" || meeting.row.scheduled_for !== null) return await meeting.start(actor, undefined);
    const memberIds = await new RoomStore(db).memberIds(actor.tenantId, room.id);
    const members = [...(await this.#deps.identity.findEnabled(actor.tenantId, memberIds, db)).values()];
    const called = members.filter(({ id, kind }) => kind !== "agent" && id !== actor.principalId);
    await meeting.start(actor, called.map(({ id }) => id));
  }

  async list(context: Context, { limit, cursor, ...filter }: MeetingList): Promise<Page<Meeting>> {
    const { actor } = context;
    const { store, cursors, roomAccess } = this.#deps;
    if (filter.roomId !== undefined) await roomAccess.require(context, filter.roomId, { least: "observer" });
    const bind = ["meeting.list", actor.tenantId, actor.principalId, filter];
    const before = cursors.decodeId(cursor, bind);
    const meetings = new MeetingStore(store.db);
    const rows = await meetings.list(actor.tenantId, readerOf(actor), filter, before, limit + 1);
    const present = Map.groupBy(
      await meetings.currentParticipantsOf(actor.tenantId, rows.map((row) => row.id)),
      (participant) => participant.meeting_id,
    );
    const page = cursors.page(rows, limit, bind, (row) => [row.id], (row) => row);
    return {
      ...page,
      items: await Promise.all(page.items.map((row) => this.#present(row, present.get(row.id) ?? []))),
    };
  }

  async read(context: Context, id: string): Promise<Meeting> {
    const { row } = await this.#deps.manager.findAuthorized(context, id);
    return await this.#present(
      row,
      await new MeetingStore(this.#deps.store.db).currentParticipants(row.tenant_id, row.id),
    );
  }

  update(context: Context, { id, version, scheduledFor, agentIds, ...input }: MeetingUpdate): Promise<Meeting> {
    const { actor } = context;
    return this.#deps.manager.withOpenLock(context, id, async (meeting, grant) => {
      assertModerator(roleIn(actor, meeting.row, grant, meeting.participants), "Updating a meeting");
      assertVersion("meeting", meeting.row.version, version);
      if (agentIds !== undefined && actor.kind === "agent") {
        throw new Fault("forbidden", "/agentIds: agents cannot admit agents");
      }
      await this.#deps.identity.assertVisible(actor, agentIds ?? [], "/agentIds", meeting.tx.db);
      if (scheduledFor !== undefined && meeting.row.state !== "scheduled") {
        throw new Fault("conflict", "/scheduledFor: the meeting has already started");
      }
      await meeting.save(withoutUndefined({
        title: input.title,
        is_locked: flagOf(input.locked),
        is_lobby: flagOf(input.lobby),
        agent_ids_json: jsonOf(agentIds),
        scheduled_for: scheduledFor === undefined ? undefined : inFuture(scheduledFor, meeting.now),
      }));
      await meeting.emit("meeting.updated", actor);
      for (const participant of meeting.participants.filter((one) => isUngranted(one, agentIds))) {
        await meeting.leave(participant, "removed", actor);
      }
      return meeting.present();
    });
  }

  /** Ends a meeting for all participants; in a call of two the callee may decline it while it rings. */
  end(context: Context, id: string): Promise<Meeting> {
    const { actor } = context;
    return this.#deps.manager.withOpenLock(context, id, async (meeting, grant) => {
      const { row } = meeting;
      const ringingIds: string[] = JSON.parse(row.ring_ids_json ?? "[]");
      const isDeclined = row.state === "ringing" && ringingIds.length === 1 && ringingIds[0] === actor.principalId;
      if (!isDeclined) assertModerator(roleIn(actor, row, grant, meeting.participants), "Ending a meeting");
      await meeting.end(isDeclined ? "declined" : row.state === "active" ? "ended" : "cancelled", actor);
      return meeting.present();
    });
  }

  /** Deletes the meetings of a purged room in batches. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    for (let ids = [""]; ids.length > 0;) {
      ids = await this.#deps.store.write(async (tx) => {
        const meetings = new MeetingStore(tx.db);
        const found = await meetings.idsIn(tenantId, roomId, PURGE_BATCH);
        if (!await meetings.removeSegments(tenantId, found)) await meetings.purge(tenantId, found);
        return found;
      });
    }
  }

  /** A room has one active meeting; one whose time has expired is ended first. */
  async #assertNoneActive({ db }: Transaction<MeetingTables>, tenantId: string, roomId: string): Promise<void> {
    const meetings = new MeetingStore(db);
    const stale = await meetings.findOpen(tenantId, roomId);
    if (stale === undefined) return;
    await this.#deps.manager.withSystemLock(tenantId, stale.id);
    const open = await meetings.findOpen(tenantId, roomId);
    if (open !== undefined) {
      throw new Fault("meeting_active", `The room already has the active meeting ${open.id}; join it`);
    }
  }

  async #present(row: MeetingRow, participants: readonly ParticipantRow[]): Promise<Meeting> {
    const { store, clock } = this.#deps;
    const recording = recordingOf(row);
    const consented = recording === null
      ? []
      : await new MeetingStore(store.db).consentedIds(row.tenant_id, row.id, recording.id);
    return presentMeeting(row, participants.filter((participant) => isPresent(participant, clock.now())), consented);
  }
}

function inFuture(time: string, now: number): string {
  if (Date.parse(time) <= now) throw invalidField("/scheduledFor", "must be in the future");
  return time;
}

function isUngranted(participant: ParticipantRow, agentIds: readonly string[] | undefined): boolean {
  return agentIds !== undefined && participant.principal_kind === "agent" &&
    !agentIds.includes(participant.principal_id);
}
