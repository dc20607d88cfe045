// Participation: joined under a lease, renewed by heartbeats, moderated by others, ended by leaving or by expiry.
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { flagOf, withoutUndefined } from "@/core/patch.ts";
import type { RoomGrant } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { LockedMeeting } from "./locked_meeting.ts";
import type { MeetingManager } from "./meeting_manager.ts";
import type { MediaBroker } from "./media.ts";
import { isPresent, presentParticipant } from "./presenter.ts";
import { assertGrant, assertModerator, assertRank, type MeetingRole, roleIn } from "./roles.ts";
import {
  type Heartbeat,
  heartbeatOf,
  type Joined,
  type MeetingJoin,
  type Participant,
  type ParticipantCall,
  type ParticipantUpdate,
  WAITING_MAX,
} from "./schema.ts";
import type { MeetingService } from "./service.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingTables, ParticipantRow } from "./tables.ts";

/** How long before its time a scheduled meeting can be joined. */
const EARLY_MS = 900_000;

type Deps = {
  store: Store<MeetingTables>;
  clock: Clock;
  manager: MeetingManager;
  meetings: MeetingService;
  media: MediaBroker;
};

export class MeetingAttendance {
  readonly #deps: Deps;
  readonly #leaseMs: number;

  constructor(deps: Deps, leaseMs: number) {
    this.#deps = deps;
    this.#leaseMs = leaseMs;
  }

  /** Joins from one device, or renews that; a participant in the lobby joins again once admitted, to get the media. */
  async join(context: Context, input: MeetingJoin): Promise<Joined> {
    const { actor } = context;
    const { manager, media } = this.#deps;
    const joined = await manager.withOpenLock(context, input.id, async (meeting, grant) => {
      assertGrant(actor, meeting.row);
      const before = meeting.participants.find((one) =>
        one.principal_id === actor.principalId && one.device_id === input.deviceId
      );
      const row = before === undefined
        ? await this.#join(context, input, meeting, grant)
        : await this.#renew(context, input, meeting, grant, before);
      const participants = row.state === "joined" ? meeting.joined.map(presentParticipant) : [];
      return { participant: presentParticipant(row), meeting: meeting.present(), participants };
    });
    const { participant, meeting, participants } = joined;
    return {
      participantId: participant.id,
      leaseSeconds: this.#leaseMs / 1000,
      heartbeatSeconds: heartbeatOf(this.#leaseMs / 1000),
      participant,
      media: await media.connectionFor(meeting, participant),
      participants,
      meeting,
    };
  }

  /** Renews a lease that has not expired. */
  heartbeat(context: Context, { id, participantId }: ParticipantCall): Promise<Heartbeat> {
    const { store, clock, manager } = this.#deps;
    return store.write(async (tx) => {
      const { row } = await manager.findAuthorized(context, id, tx);
      if (row.state === "ended") throw new Fault("gone", "The meeting has ended");
      const now = clock.now();
      const until = iso(now + this.#leaseMs);
      const { tenantId, principalId } = context.actor;
      const renewed = await new MeetingStore(tx.db).renew(tenantId, id, participantId, principalId, {
        now: iso(now),
        until,
      });
      if (renewed === undefined) throw notFound("participation of the caller; join the meeting again");
      return { leaseSeconds: this.#leaseMs / 1000, expiresAt: until, participant: presentParticipant(renewed) };
    });
  }

  async leave(context: Context, { id, participantId }: ParticipantCall): Promise<void> {
    const { actor } = context;
    await this.#deps.manager.withOpenLock(context, id, async (meeting) => {
      const participant = requireParticipant(meeting, participantId);
      if (participant.principal_id !== actor.principalId) throw notFound("participant in the meeting");
      await meeting.leave(participant, "left", actor);
    });
  }

  async participants(context: Context, id: string): Promise<Participant[]> {
    const { store, clock, manager } = this.#deps;
    const { row } = await manager.findAuthorized(context, id);
    const participants = await new MeetingStore(store.db).currentParticipants(row.tenant_id, row.id);
    return participants.filter((participant) => isPresent(participant, clock.now())).map(presentParticipant);
  }

  /** Mutes, raises or lowers a hand, changes a role, or admits from the lobby. */
  update(context: Context, input: ParticipantUpdate): Promise<Participant> {
    const { id, participantId, muted, handRaised, admitted } = input;
    const { actor } = context;
    return this.#deps.manager.withOpenLock(context, id, async (meeting, grant) => {
      const own = roleIn(actor, meeting.row, grant, meeting.participants);
      let participant = requireParticipant(meeting, participantId);
      const isSelf = participant.principal_id === actor.principalId;
      if (admitted && participant.state === "waiting") {
        assertModerator(own, "Admitting a participant");
        participant = await admitFromLobby(meeting, participant, actor);
      }
      if (handRaised !== undefined) assertMaySetHand(own, participant, handRaised, isSelf);
      const hand = handRaised === undefined || handRaised === (participant.hand_raised_at !== null)
        ? undefined
        : handRaised;
      const role = input.role === participant.role ? undefined : input.role;
      if (muted === undefined && role === undefined && hand === undefined) return presentParticipant(participant);
      if (muted !== undefined && !isSelf) {
        assertRank(own, participant.role, "Muting a participant");
        if (!muted) throw new Fault("forbidden", "/muted: only participants themselves can unmute");
      }
      const set: Partial<ParticipantRow> = withoutUndefined({
        is_muted: flagOf(muted),
        hand_raised_at: hand === undefined ? undefined : hand ? meeting.handTime : null,
      });
      if (role !== undefined) {
        assertRank(own, participant.role, "Changing a role");
        assertRank(own, role, "Changing a role");
        if (role === "host") await this.#transferHost(meeting, participant);
        else if (participant.role === "host") {
          throw new Fault("conflict", "/role: the host must hand over to another participant");
        }
        set.role = role;
      }
      participant = await meeting.updateParticipant(participant, set);
      await meeting.emit("meeting.updated", actor, { participant: presentParticipant(participant) });
      if (muted && !isSelf && this.#deps.media.hasSfu) await meeting.enqueueSfu({ action: "mute", participantId });
      return presentParticipant(participant);
    });
  }

  /** Removes a participant from the meeting or its lobby; to join again they must be admitted. */
  async remove(context: Context, { id, participantId }: ParticipantCall): Promise<void> {
    const { actor } = context;
    await this.#deps.manager.withOpenLock(context, id, async (meeting, grant) => {
      const participant = requireParticipant(meeting, participantId);
      assertRank(roleIn(actor, meeting.row, grant, meeting.participants), participant.role, "Removing a participant");
      await meeting.leave(participant, "removed", actor);
    });
  }

  /** Adds a participant to the meeting or its lobby. */
  async #join(context: Context, input: MeetingJoin, meeting: LockedMeeting, grant: RoomGrant): Promise<ParticipantRow> {
    const { actor } = context;
    if (meeting.row.state === "scheduled") await this.#startScheduled(context, meeting, grant);
    const role = roleIn(actor, meeting.row, grant, meeting.participants);
    if (meeting.row.is_locked === 1 && role === "participant") throw new Fault("forbidden", "The meeting is locked");
    const recording = meeting.openRecording;
    if (recording !== undefined) {
      if (!input.recordingConsent) {
        throw new Fault(
          "forbidden",
          "The meeting is recorded, or a recording was requested; join with recordingConsent: true",
        );
      }
      await meeting.addConsent(recording, actor.principalId);
    }
    const { tenant_id, id: meeting_id, room_id } = meeting.row;
    const isWaiting = await mustWait(meeting, actor.principalId, role);
    if (!isWaiting) assertSeat(meeting);
    else if (meeting.participants.length - meeting.joined.length >= WAITING_MAX) {
      throw new Fault("meeting_full", `The lobby is full; at most ${WAITING_MAX} can wait`);
    }
    const participant: ParticipantRow = {
      tenant_id,
      id: newId("part"),
      meeting_id,
      room_id,
      principal_id: actor.principalId,
      principal_kind: actor.kind,
      display_name: actor.displayName,
      device_id: input.deviceId,
      role: role === "host" && meeting.row.host_id !== actor.principalId ? "moderator" : role,
      state: isWaiting ? "waiting" : "joined",
      is_muted: 0,
      hand_raised_at: null,
      capabilities_json: JSON.stringify(input.capabilities),
      lease_expires_at: meeting.leaseEnd,
      joined_at: isWaiting ? null : iso(meeting.now),
      left_at: null,
      left_reason: null,
      created_at: iso(meeting.now),
    };
    await meeting.addParticipant(participant, actor);
    return participant;
  }

  /** Renews a participation; one in the lobby that no longer has to wait is admitted. */
  async #renew(
    { actor }: Context,
    { capabilities, recordingConsent }: MeetingJoin,
    meeting: LockedMeeting,
    grant: RoomGrant,
    before: ParticipantRow,
  ): Promise<ParticipantRow> {
    const recording = meeting.openRecording;
    if (recordingConsent && recording !== undefined) await meeting.giveConsent(recording, actor);
    const participant = await meeting.updateParticipant(before, {
      lease_expires_at: meeting.leaseEnd,
      capabilities_json: JSON.stringify(capabilities),
    });
    const role = roleIn(actor, meeting.row, grant, meeting.participants);
    const isFree = participant.state === "waiting" && hasSeat(meeting) &&
      !await mustWait(meeting, actor.principalId, role);
    return isFree ? await admitFromLobby(meeting, participant, actor) : participant;
  }

  /** The first participant starts a scheduled meeting. */
  async #startScheduled({ actor }: Context, meeting: LockedMeeting, grant: RoomGrant): Promise<void> {
    const opensAt = Date.parse(meeting.row.scheduled_for ?? iso(meeting.now)) - EARLY_MS;
    if (meeting.now < opensAt) throw new Fault("conflict", `The meeting opens at ${iso(opensAt)}`);
    if (actor.kind === "agent") throw new Fault("conflict", "The meeting has not started; agents cannot start one");
    await this.#deps.meetings.startLocked(meeting, actor, grant);
  }

  async #transferHost(meeting: LockedMeeting, participant: ParticipantRow): Promise<void> {
    if (participant.principal_kind === "agent") throw new Fault("conflict", "/role: an agent cannot be host");
    for (const host of meeting.participants.filter((one) => one.role === "host")) {
      await meeting.updateParticipant(host, { role: "moderator" });
    }
    await meeting.save({ host_id: participant.principal_id });
  }
}

/** Throws unless a principal of this role may raise or lower the hand of the participant. */
function assertMaySetHand(own: MeetingRole, participant: ParticipantRow, isRaised: boolean, isSelf: boolean): void {
  if (!isSelf) {
    assertRank(own, participant.role, "Lowering a hand");
    if (isRaised) throw new Fault("forbidden", "/handRaised: participants can raise only their own hand");
  }
  if (isRaised && participant.state === "waiting") {
    throw new Fault("conflict", "/handRaised: not possible in the lobby");
  }
}

function hasSeat({ joined, row }: LockedMeeting): boolean {
  return joined.length < row.max_participants;
}

function assertSeat(meeting: LockedMeeting): void {
  if (!hasSeat(meeting)) {
    throw new Fault("meeting_full", `The meeting is full; at most ${meeting.row.max_participants} can participate`);
  }
}

/** Whether a principal who joins has to be admitted; one who was removed always has. */
async function mustWait(meeting: LockedMeeting, principalId: string, role: MeetingRole): Promise<boolean> {
  if (role !== "participant") return false;
  const { tenant_id, id, is_lobby } = meeting.row;
  return is_lobby === 1 || await meeting.store.wasRemoved(tenant_id, id, principalId);
}

async function admitFromLobby(
  meeting: LockedMeeting,
  participant: ParticipantRow,
  actor: Context["actor"],
): Promise<ParticipantRow> {
  assertSeat(meeting);
  meeting.assertConsent(participant.principal_id);
  return await meeting.admit(participant, actor);
}

function requireParticipant(meeting: LockedMeeting, id: string): ParticipantRow {
  const participant = meeting.participants.find((one) => one.id === id);
  if (participant === undefined) throw notFound("participant in the meeting");
  return participant;
}
