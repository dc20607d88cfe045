// Taking part: joined under a lease, kept up by heartbeats, moderated by others, ended by leaving or by time.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Entry } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { agree, consent, openRecording, requireConsent } from "./consent.ts";
import type { HeldMeeting } from "./held.ts";
import type { MeetingKeeper } from "./keeper.ts";
import type { MediaBroker } from "./media.ts";
import { isPresent, presentParticipant } from "./presenter.ts";
import { type MeetingRole, requireGrant, requireModerator, requireRank, roleIn } from "./rights.ts";
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

/** A scheduled meeting lets people in this long before its time. */
const EARLY_MS = 900_000;

type Deps = {
  store: Store<MeetingTables>;
  clock: Clock;
  keeper: MeetingKeeper;
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

  /** Takes part from one device, or renews that; who has to wait joins again once let in, for the media. */
  async join(context: Context, input: MeetingJoin): Promise<Joined> {
    const { actor } = context;
    const { keeper, media } = this.#deps;
    const { person, meeting, people } = await keeper.holdOpen(context, input.id, async (held, entry) => {
      requireGrant(actor, held.row);
      const known = held.people.find((one) =>
        one.principal_id === actor.principalId && one.device_id === input.deviceId
      );
      const person = known === undefined
        ? await this.#enter(context, input, held, entry)
        : await this.#again(context, input, held, entry, known);
      return { person, meeting: held.present(), people: held.joined };
    });
    return {
      participantId: person.id,
      leaseSeconds: this.#leaseMs / 1000,
      heartbeatSeconds: heartbeatOf(this.#leaseMs / 1000),
      participant: presentParticipant(person),
      media: await media.of(meeting, presentParticipant(person)),
      participants: person.state === "joined" ? people.map(presentParticipant) : [],
      meeting,
    };
  }

  /** Prolongs a lease that still runs. */
  heartbeat(context: Context, { id, participantId }: ParticipantCall): Promise<Heartbeat> {
    const { store, clock, keeper } = this.#deps;
    return store.write(async (tx) => {
      const { row } = await keeper.find(context, id);
      if (row.state === "ended") throw new Fault("gone", "The meeting has ended");
      const now = clock.now();
      const until = iso(now + this.#leaseMs);
      const { tenantId, principalId } = context.actor;
      const renewed = await new MeetingStore(tx.db).renew(tenantId, id, participantId, principalId, {
        now: iso(now),
        until,
      });
      if (renewed === undefined) throw new Fault("not_found", "No such participation of the caller; join again");
      return { leaseSeconds: this.#leaseMs / 1000, expiresAt: until, participant: presentParticipant(renewed) };
    });
  }

  async leave(context: Context, { id, participantId }: ParticipantCall): Promise<void> {
    const { actor } = context;
    await this.#deps.keeper.holdOpen(context, id, async (held) => {
      const person = personIn(held, participantId);
      if (person.principal_id !== actor.principalId) throw absent();
      await held.part(person, "left", actor);
    });
  }

  async participants(context: Context, id: string): Promise<Participant[]> {
    const { store, clock, keeper } = this.#deps;
    const { row } = await keeper.find(context, id);
    const people = await new MeetingStore(store.db).live(row.tenant_id, row.id);
    return people.filter((person) => isPresent(person, clock.now())).map(presentParticipant);
  }

  /** Mutes, raises or lowers a hand, gives a role, or lets somebody in from the lobby. */
  update(context: Context, input: ParticipantUpdate): Promise<Participant> {
    const { id, participantId, muted, handRaised, role, admitted } = input;
    const { actor } = context;
    return this.#deps.keeper.holdOpen(context, id, async (held, entry) => {
      const own = roleIn(actor, held.row, entry, held.people);
      let person = personIn(held, participantId);
      const isSelf = person.principal_id === actor.principalId;
      if (admitted && person.state === "waiting") {
        requireModerator(own, "Letting somebody in");
        person = await letIn(held, person, actor);
      }
      if (handRaised !== undefined) checkHand(own, person, handRaised, isSelf);
      const hand = handRaised === undefined || handRaised === (person.hand_raised_at !== null) ? undefined : handRaised;
      if (muted === undefined && role === undefined && hand === undefined) return presentParticipant(person);
      if (muted !== undefined && !isSelf) {
        requireRank(own, person.role, "Muting somebody");
        if (!muted) throw new Fault("forbidden", "/muted: everybody unmutes only themselves");
      }
      const set: Partial<ParticipantRow> = {
        ...(muted === undefined ? {} : { is_muted: muted ? 1 : 0 }),
        ...(hand === undefined ? {} : { hand_raised_at: hand ? held.handTime : null }),
      };
      if (role !== undefined && role !== person.role) {
        requireRank(own, person.role, "Giving a role");
        requireRank(own, role, "Giving a role");
        if (role === "host") await this.#handOver(held, person);
        else if (person.role === "host") throw new Fault("conflict", "/role: hand the meeting over to somebody else");
        set.role = role;
      }
      person = await held.change(person, set);
      await held.emit("meeting.updated", actor, { participant: presentParticipant(person) });
      if (muted && !isSelf && this.#deps.media.hasSfu) await held.enqueueSfu({ action: "mute", participantId });
      return presentParticipant(person);
    });
  }

  /** Sends somebody out, or turns them away from the lobby; coming back takes being let in. */
  async remove(context: Context, { id, participantId }: ParticipantCall): Promise<void> {
    const { actor } = context;
    await this.#deps.keeper.holdOpen(context, id, async (held, entry) => {
      const person = personIn(held, participantId);
      requireRank(roleIn(actor, held.row, entry, held.people), person.role, "Removing somebody");
      await held.part(person, "removed", actor);
    });
  }

  /** Somebody who is not in the meeting yet comes in, or into its lobby. */
  async #enter(context: Context, input: MeetingJoin, held: HeldMeeting, entry: Entry): Promise<ParticipantRow> {
    const { actor } = context;
    if (held.row.state === "scheduled") await this.#open(context, held, entry);
    const role = roleIn(actor, held.row, entry, held.people);
    if (held.row.is_locked === 1 && role === "participant") throw new Fault("forbidden", "The meeting is locked");
    const recording = openRecording(held);
    if (recording !== undefined) {
      if (!input.recordingConsent) {
        throw new Fault("forbidden", "The meeting is recorded or about to be; join with recordingConsent: true");
      }
      await agree(held, recording, actor.principalId);
    }
    const { tenant_id, id: meeting_id, room_id } = held.row;
    const isWaiting = await mustWait(held, actor.principalId, role);
    if (!isWaiting) requireSeat(held);
    else if (held.people.length - held.joined.length >= WAITING_MAX) {
      throw new Fault("meeting_full", `The lobby holds at most ${WAITING_MAX}`);
    }
    const person: ParticipantRow = {
      tenant_id,
      id: newId("part"),
      meeting_id,
      room_id,
      principal_id: actor.principalId,
      principal_kind: actor.kind,
      display_name: actor.displayName,
      device_id: input.deviceId,
      role: role === "host" && held.row.host_id !== actor.principalId ? "moderator" : role,
      state: isWaiting ? "waiting" : "joined",
      is_muted: 0,
      hand_raised_at: null,
      capabilities_json: JSON.stringify(input.capabilities),
      lease_expires_at: held.leaseEnd,
      joined_at: isWaiting ? null : iso(held.now),
      left_at: null,
      left_reason: null,
      created_at: iso(held.now),
    };
    await held.add(person, actor);
    return person;
  }

  /** Somebody who is in the meeting or its lobby renews that; who has to wait no longer comes in. */
  async #again(
    { actor }: Context,
    { capabilities, recordingConsent }: MeetingJoin,
    held: HeldMeeting,
    entry: Entry,
    known: ParticipantRow,
  ): Promise<ParticipantRow> {
    const recording = openRecording(held);
    if (recordingConsent && recording !== undefined) await consent(held, recording, actor);
    const person = await held.change(known, {
      lease_expires_at: held.leaseEnd,
      capabilities_json: JSON.stringify(capabilities),
    });
    const role = roleIn(actor, held.row, entry, held.people);
    const isFree = person.state === "waiting" && hasSeat(held) && !await mustWait(held, actor.principalId, role);
    return isFree ? await letIn(held, person, actor) : person;
  }

  /** The first to come opens a scheduled meeting. */
  async #open({ actor }: Context, held: HeldMeeting, entry: Entry): Promise<void> {
    const opensAt = Date.parse(held.row.scheduled_for ?? iso(held.now)) - EARLY_MS;
    if (held.now < opensAt) throw new Fault("conflict", `The meeting opens at ${iso(opensAt)}`);
    if (actor.kind === "agent") throw new Fault("conflict", "The meeting has not begun; agents do not open one");
    await this.#deps.meetings.begin(held, actor, entry);
  }

  async #handOver(held: HeldMeeting, person: ParticipantRow): Promise<void> {
    if (person.principal_kind === "agent") throw new Fault("conflict", "/role: an agent is nobody's host");
    for (const host of held.people.filter((one) => one.role === "host")) await held.change(host, { role: "moderator" });
    await held.save({ host_id: person.principal_id });
  }
}

/** Throws unless somebody of this role may raise or lower the hand of this person. */
function checkHand(own: MeetingRole, person: ParticipantRow, isRaised: boolean, isSelf: boolean): void {
  if (!isSelf) {
    requireRank(own, person.role, "Lowering a hand");
    if (isRaised) throw new Fault("forbidden", "/handRaised: everybody raises only their own hand");
  }
  if (isRaised && person.state === "waiting") throw new Fault("conflict", "/handRaised: not before they are let in");
}

function hasSeat({ joined, row }: HeldMeeting): boolean {
  return joined.length < row.max_participants;
}

function requireSeat(held: HeldMeeting): void {
  if (!hasSeat(held)) throw new Fault("meeting_full", `The meeting holds at most ${held.row.max_participants}`);
}

/** Whether somebody who is not in the meeting has to be let in; who was sent out always has. */
async function mustWait(held: HeldMeeting, principalId: string, role: MeetingRole): Promise<boolean> {
  if (role !== "participant") return false;
  const { tenant_id, id, is_lobby } = held.row;
  return is_lobby === 1 || await held.meetings.wasRemoved(tenant_id, id, principalId);
}

async function letIn(held: HeldMeeting, person: ParticipantRow, actor: Context["actor"]): Promise<ParticipantRow> {
  requireSeat(held);
  requireConsent(held, person.principal_id);
  return await held.admit(person, actor);
}

function personIn(held: HeldMeeting, id: string): ParticipantRow {
  const person = held.people.find((one) => one.id === id);
  if (person === undefined) throw absent();
  return person;
}

function absent(): Fault {
  return new Fault("not_found", "No such participant in the meeting");
}
