// Writes imported meetings with their participants, consents and transcripts. None of them is active.
import { roomEvent } from "@/core/event/event.ts";
import type { Transaction } from "@/ports/store.ts";
import { INITIAL_STATE, MISSED_MS } from "../locked_meeting.ts";
import { meetingEventData, presentMeeting, type StoredRecording } from "../presenter.ts";
import { RELAY_MAX, SEGMENTS_MAX, SFU_MAX } from "../schema.ts";
import { MeetingStore } from "../store.ts";
import type { MeetingRow, MeetingTables, ParticipantRow } from "../tables.ts";
import type { ArchivedConsent, ArchivedMeeting, ArchivedParticipant, ArchivedSegment } from "./records.ts";
import { MeetingArchiveStore } from "./store.ts";

type Tx = Transaction<MeetingTables>;

export class ImportedMeetingWriter {
  readonly #hasSfu: boolean;

  /** `hasSfu`: media is sent through a server. */
  constructor(hasSfu: boolean) {
    this.#hasSfu = hasSfu;
  }

  /** Adds meetings, whose ids are free, to a room, and publishes them. Scheduled ones get their job. */
  async importMeetings(tx: Tx, tenantId: string, roomId: string, drafts: readonly ArchivedMeeting[]): Promise<void> {
    const rows = drafts.map((draft) => this.#row(tenantId, roomId, draft));
    await tx.insertMany("meeting", rows);
    await tx.emit(
      ...rows.map((row) =>
        roomEvent({ tenantId }, roomId, "meeting.updated", meetingEventData(presentMeeting(row, [], [])))
      ),
    );
    await tx.enqueue(
      ...rows.filter(({ state }) => state === "scheduled").map((row) => ({
        tenantId,
        kind: "meeting.upkeep",
        payload: { meetingId: row.id },
        key: row.id,
        runAt: Date.parse(row.scheduled_for ?? row.created_at) + MISSED_MS,
      })),
    );
  }

  /** Locks those of these meetings that are in the room until the commit; resolves to their ids. */
  async lockMeetings(tx: Tx, tenantId: string, roomId: string, ids: readonly string[]): Promise<Set<string>> {
    const locked = new Set<string>();
    for (const id of [...new Set(ids)].sort()) {
      const row = await new MeetingStore(tx.db).lock(tenantId, id);
      if (row?.room_id === roomId) locked.add(id);
    }
    return locked;
  }

  /** Adds participants, whose ids are free, to locked meetings; all of them have left. */
  async importParticipants(
    tx: Tx,
    tenantId: string,
    roomId: string,
    participants: readonly ArchivedParticipant[],
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

  /** Adds those of these consents that locked meetings do not have. */
  async importConsents(tx: Tx, tenantId: string, consents: readonly ArchivedConsent[]): Promise<void> {
    await new MeetingArchiveStore(tx.db).addConsents(consents.map((one) => ({
      tenant_id: tenantId,
      meeting_id: one.meetingId,
      recording_id: one.recordingId,
      principal_id: one.principalId,
      given_at: one.givenAt,
    })));
  }

  /** Adds segments, whose ids are free, to locked meetings up to their limit; resolves to the ids of the rest. */
  async importSegments(tx: Tx, tenantId: string, segments: readonly ArchivedSegment[]): Promise<Set<string>> {
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

  #row(tenantId: string, roomId: string, meeting: ArchivedMeeting): MeetingRow {
    const isEnded = meeting.state === "ended";
    const { recording } = meeting;
    const stored: StoredRecording | null = recording === null ? null : { ...recording, egressId: null };
    const mostParticipants = this.#hasSfu || isEnded ? SFU_MAX : RELAY_MAX;
    return {
      ...INITIAL_STATE,
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
      recording_json: stored === null ? null : JSON.stringify(stored),
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
