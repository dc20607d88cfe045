// Meetings on their way out of a gateway and into one: who came, who agreed to be recorded, and what was said. What goes on
// when they go out has ended where they come in.
import { type Clock, iso } from "@/core/clock.ts";
import { roomStream } from "@/core/event.ts";
import { byPages } from "@/core/page.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { MISSED_MS, NOT_BEGUN } from "../held.ts";
import { type KeptRecording, presentMeeting, presentParticipant, presentSegment, recordingOf } from "../presenter.ts";
import {
  type Meeting,
  type Participant,
  type Recording,
  RELAY_MAX,
  SEGMENTS_MAX,
  SFU_MAX,
  type TranscriptSegment,
} from "../schema.ts";
import { MeetingStore } from "../store.ts";
import type { ConsentRow, MeetingRow, MeetingTables, ParticipantRow, SegmentRow } from "../tables.ts";
import { MeetingCarryStore } from "./store.ts";

const BATCH = 200;

type Passing = "participantCount" | "waitingCount" | "ringExpiresAt" | "recording" | "state";
export type CarriedMeeting = Omit<Meeting, Passing> & {
  state: "scheduled" | "ended";
  /** The last one; what the recorder made of it is not the gateway's. */
  recording:
    | (Omit<Recording, "consentedIds" | "pendingIds" | "state"> & { id: string; state: "stopped" | "failed" })
    | null;
};
export type CarriedParticipant = Omit<Participant, "state" | "handRaisedAt"> & {
  meetingId: string;
  leftReason: ParticipantRow["left_reason"];
  createdAt: string;
};
export type CarriedConsent = { meetingId: string; recordingId: string; principalId: string; givenAt: string };
export type CarriedSegment = TranscriptSegment & { meetingId: string };
export type MeetingPage =
  | { meetings: CarriedMeeting[] }
  | { participants: CarriedParticipant[] }
  | { consents: CarriedConsent[] }
  | { segments: CarriedSegment[] };

type Tx = Transaction<MeetingTables>;
type Deps = {
  store: Store<MeetingTables>;
  clock: Clock;
  /** Media goes through a server. */
  hasSfu: boolean;
};

export class MeetingCarrier {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Meetings of a room, each followed by who came, who agreed to be recorded, and what was said. */
  async *meetings(tenantId: string, roomId: string): AsyncGenerator<MeetingPage> {
    const { store, clock } = this.#deps;
    const carry = new MeetingCarryStore(store.db);
    const read = (last?: MeetingRow) => carry.meetings(tenantId, roomId, last?.id ?? "", BATCH);
    for await (const rows of byPages(BATCH, read)) {
      for (const row of rows) {
        const now = iso(clock.now());
        yield { meetings: [carried(row, now)] };
        yield* this.#parts(row, now);
      }
    }
  }

  /** Adds meetings, whose ids are free, to a room, and tells of them. One that is to come is looked after from now on. */
  async put(tx: Tx, tenantId: string, roomId: string, drafts: readonly CarriedMeeting[]): Promise<void> {
    const rows = drafts.map((draft) => this.#row(tenantId, roomId, draft));
    await tx.insertMany("meeting", rows);
    await tx.emit(...rows.map((row) => ({
      tenantId,
      stream: roomStream(roomId),
      type: "meeting.updated",
      data: { meeting: presentMeeting(row, [], []) },
    })));
    await tx.enqueue(
      ...rows.filter(({ state }) => state === "scheduled").map((row) => ({
        tenantId,
        kind: "meeting.tend",
        payload: { meetingId: row.id },
        key: row.id,
        runAt: Date.parse(row.scheduled_for ?? row.created_at) + MISSED_MS,
      })),
    );
  }

  /** Of these ids those of the room's meetings, kept from other writers until the transaction ends. */
  async hold(tx: Tx, tenantId: string, roomId: string, ids: readonly string[]): Promise<Set<string>> {
    const held = new Set<string>();
    for (const id of [...new Set(ids)].sort()) {
      const row = await new MeetingStore(tx.db).lock(tenantId, id);
      if (row?.room_id === roomId) held.add(id);
    }
    return held;
  }

  /** Adds people who came to held meetings, and have left; their ids are free. */
  async addParticipants(
    tx: Tx,
    tenantId: string,
    roomId: string,
    participants: readonly CarriedParticipant[],
  ): Promise<void> {
    if (participants.length === 0) return;
    await tx.insertMany(
      "meeting_participant",
      participants.map((one): ParticipantRow => {
        const leftAt = one.leftAt ?? one.joinedAt ?? one.createdAt;
        return {
          tenant_id: tenantId,
          id: one.id,
          meeting_id: one.meetingId,
          room_id: roomId,
          principal_id: one.principalId,
          principal_kind: one.kind,
          display_name: one.displayName,
          device_id: one.deviceId,
          role: one.role,
          state: "left",
          is_muted: one.muted ? 1 : 0,
          hand_raised_at: null,
          capabilities_json: JSON.stringify(one.capabilities),
          lease_expires_at: leftAt,
          joined_at: one.joinedAt,
          left_at: leftAt,
          left_reason: one.leftReason ?? "ended",
          created_at: one.createdAt,
        };
      }),
    );
  }

  /** Adds those of these consents that held meetings do not have. */
  async addConsents(tx: Tx, tenantId: string, consents: readonly CarriedConsent[]): Promise<void> {
    await new MeetingCarryStore(tx.db).addConsents(consents.map((one) => ({
      tenant_id: tenantId,
      meeting_id: one.meetingId,
      recording_id: one.recordingId,
      principal_id: one.principalId,
      given_at: one.givenAt,
    })));
  }

  /** Adds what was said in held meetings, whose ids are free, as far as there is room; resolves to the ids of the rest. */
  async addSegments(tx: Tx, tenantId: string, segments: readonly CarriedSegment[]): Promise<Set<string>> {
    const rest = new Set<string>();
    const meetings = new MeetingStore(tx.db);
    for (const [meetingId, all] of Map.groupBy(segments, (segment) => segment.meetingId)) {
      const free = Math.max(0, SEGMENTS_MAX - await meetings.segmentCount(tenantId, meetingId));
      for (const { id } of all.slice(free)) rest.add(id);
    }
    const fresh = segments.filter(({ id }) => !rest.has(id));
    if (fresh.length === 0) return rest;
    await tx.insertMany(
      "meeting_segment",
      fresh.map((segment) => ({
        tenant_id: tenantId,
        id: segment.id,
        meeting_id: segment.meetingId,
        start_ms: segment.startMs,
        end_ms: segment.endMs,
        speaker_id: segment.speakerId,
        text: segment.text,
        posted_by: segment.postedBy,
        created_at: segment.createdAt,
      })),
    );
    return rest;
  }

  async *#parts(row: MeetingRow, now: string): AsyncGenerator<MeetingPage> {
    const { tenant_id: tenantId, id: meetingId } = row;
    const { db } = this.#deps.store;
    const carry = new MeetingCarryStore(db);
    const people = (last?: ParticipantRow) => carry.participants(tenantId, meetingId, last?.id ?? "", BATCH);
    for await (const page of byPages(BATCH, people)) {
      yield { participants: page.map((person) => participantOf(person, now)) };
    }
    const given = (last?: ConsentRow) => carry.consents(tenantId, meetingId, last, BATCH);
    for await (const consents of byPages(BATCH, given)) {
      yield {
        consents: consents.map((one) => ({
          meetingId,
          recordingId: one.recording_id,
          principalId: one.principal_id,
          givenAt: one.given_at,
        })),
      };
    }
    const said = (last?: SegmentRow) =>
      new MeetingStore(db).segments(tenantId, meetingId, last && { startMs: last.start_ms, id: last.id }, BATCH);
    for await (const segments of byPages(BATCH, said)) {
      yield { segments: segments.map((segment) => ({ meetingId, ...presentSegment(segment) })) };
    }
  }

  #row(tenantId: string, roomId: string, meeting: CarriedMeeting): MeetingRow {
    const isEnded = meeting.state === "ended";
    const { recording } = meeting;
    const kept: KeptRecording | null = recording === null ? null : { ...recording, egressId: null };
    const mostParticipants = this.#deps.hasSfu || isEnded ? SFU_MAX : RELAY_MAX;
    return {
      ...NOT_BEGUN,
      tenant_id: tenantId,
      id: meeting.id,
      room_id: roomId,
      title: meeting.title,
      kind: meeting.kind,
      state: meeting.state,
      host_id: meeting.hostId,
      scheduled_for: meeting.scheduledFor,
      max_participants: Math.min(meeting.maxParticipants, mostParticipants),
      is_lobby: meeting.lobby ? 1 : 0,
      is_locked: meeting.locked ? 1 : 0,
      agent_ids_json: JSON.stringify(meeting.agentIds),
      recording_json: kept === null ? null : JSON.stringify(kept),
      started_at: isEnded ? meeting.startedAt : null,
      ended_at: isEnded ? meeting.endedAt : null,
      end_reason: isEnded ? meeting.endReason : null,
      version: meeting.version,
      created_by: meeting.createdBy,
      created_at: meeting.createdAt,
      updated_at: meeting.updatedAt,
    };
  }
}

function carried(row: MeetingRow, now: string): CarriedMeeting {
  const { participantCount: _count, waitingCount: _waiting, ringExpiresAt: _ring, ...meeting } = presentMeeting(
    row,
    [],
    [],
  );
  const recording = recordingOf(row);
  const isOn = row.state === "ringing" || row.state === "active";
  return {
    ...meeting,
    state: row.state === "scheduled" ? "scheduled" : "ended",
    ...isOn ? { endedAt: now, endReason: "ended" as const } : {},
    recording: recording === null ? null : recordingNow(recording, now),
  };
}

function recordingNow({ egressId: _egressId, ...recording }: KeptRecording, now: string): CarriedMeeting["recording"] {
  const { state } = recording;
  if (state === "stopped" || state === "failed") return { ...recording, state };
  return { ...recording, state: "stopped", endedAt: now };
}

function participantOf(row: ParticipantRow, now: string): CarriedParticipant {
  const { state, handRaisedAt: _hand, ...participant } = presentParticipant(row);
  const shared = { meetingId: row.meeting_id, createdAt: row.created_at };
  return state === "left"
    ? { ...participant, ...shared, leftReason: row.left_reason }
    : { ...participant, ...shared, leftAt: now, leftReason: "ended" };
}
