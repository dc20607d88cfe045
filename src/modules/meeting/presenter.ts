// Meetings, participants and transcripts as JSON.
import { iso } from "@/core/time/clock.ts";
import { shorten, type Shortened } from "@/core/event/event_data.ts";
import { LONG_FIELDS, type Meeting, type Participant, type Recording, type TranscriptSegment } from "./schema.ts";
import type { MeetingRow, ParticipantRow, SegmentRow } from "./tables.ts";

/** A recording as it is stored with its meeting. */
export type StoredRecording = Omit<Recording, "consentedIds" | "pendingIds"> & { id: string; egressId: string | null };

/** A meeting with counts of the participants `present` in it and its lobby. */
export function presentMeeting(
  row: MeetingRow,
  present: readonly ParticipantRow[],
  consentedIds: readonly string[],
): Meeting {
  const joined = present.filter((one) => one.state === "joined");
  return {
    id: row.id,
    roomId: row.room_id,
    title: row.title,
    kind: row.kind,
    state: row.state,
    hostId: row.host_id,
    scheduledFor: row.scheduled_for,
    maxParticipants: row.max_participants,
    lobby: row.is_lobby === 1,
    locked: row.is_locked === 1,
    agentIds: JSON.parse(row.agent_ids_json),
    participantCount: joined.length,
    waitingCount: present.length - joined.length,
    ringExpiresAt: row.ring_expires_at,
    recording: presentRecording(recordingOf(row), joined, consentedIds),
    startedAt: row.started_at,
    endedAt: row.ended_at,
    endReason: row.end_reason,
    version: row.version,
    createdBy: row.created_by,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

type BriefMeeting = Shortened<Meeting, (typeof LONG_FIELDS)[number]>;

/** A meeting as events carry it. */
export function meetingEventData(given: Meeting): { meeting: BriefMeeting["value"]; omitted: BriefMeeting["omitted"] } {
  const { value: meeting, omitted } = shorten(given, LONG_FIELDS);
  return { meeting, omitted };
}

export function presentParticipant(row: ParticipantRow): Participant {
  return {
    id: row.id,
    principalId: row.principal_id,
    kind: row.principal_kind,
    displayName: row.display_name,
    deviceId: row.device_id,
    role: row.role,
    state: row.state,
    muted: row.is_muted === 1,
    handRaisedAt: row.hand_raised_at,
    capabilities: JSON.parse(row.capabilities_json),
    joinedAt: row.joined_at,
    leftAt: row.left_at,
  };
}

export function presentSegment(row: SegmentRow): TranscriptSegment {
  return {
    id: row.id,
    startMs: row.start_ms,
    endMs: row.end_ms,
    speakerId: row.speaker_id,
    text: row.text,
    postedBy: row.posted_by,
    createdAt: row.created_at,
  };
}

/** Whether the lease has not expired; the row changes only with the next upkeep. */
export function isPresent(row: ParticipantRow, now: number): boolean {
  return row.state !== "left" && row.lease_expires_at > iso(now);
}

export function recordingOf(row: MeetingRow): StoredRecording | null {
  return row.recording_json === null ? null : JSON.parse(row.recording_json);
}

function presentRecording(
  stored: StoredRecording | null,
  joined: readonly ParticipantRow[],
  consentedIds: readonly string[],
): Recording | null {
  if (stored === null) return null;
  const { id: _id, egressId: _egressId, ...recording } = stored;
  const pendingIds = [...new Set(joined.map((one) => one.principal_id))].filter((id) => !consentedIds.includes(id));
  return { ...recording, consentedIds: [...consentedIds], pendingIds: stored.state === "requested" ? pendingIds : [] };
}
