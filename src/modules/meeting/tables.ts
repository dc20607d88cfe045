// The rows of meetings.
import type { PrincipalKind } from "@/core/actor.ts";
import type { RoomTables } from "@/modules/room/mod.ts";
import type { END_REASONS, LEAVE_REASONS, MEETING_KINDS, MEETING_ROLES, MEETING_STATES } from "./schema.ts";

export type MeetingRow = {
  tenant_id: string;
  id: string;
  room_id: string;
  title: string | null;
  kind: (typeof MEETING_KINDS)[number];
  state: (typeof MEETING_STATES)[number];
  /** 1 while it rings or is active; unique in a room. */
  is_open: number;
  host_id: string;
  scheduled_for: string | null;
  max_participants: number;
  is_lobby: number;
  is_locked: number;
  agent_ids_json: string;
  /** Principals it rings for; null if it never rang. */
  ring_ids_json: string | null;
  ring_expires_at: string | null;
  /** When it ends without participants; null while it has any. */
  close_at: string | null;
  recording_json: string | null;
  started_at: string | null;
  ended_at: string | null;
  end_reason: (typeof END_REASONS)[number] | null;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
};

export type ParticipantRow = {
  tenant_id: string;
  id: string;
  meeting_id: string;
  room_id: string;
  principal_id: string;
  principal_kind: PrincipalKind;
  display_name: string;
  device_id: string;
  role: (typeof MEETING_ROLES)[number];
  state: "waiting" | "joined" | "left";
  is_muted: number;
  /** Null while it is lowered. Distinct in a meeting, in the order of raising. */
  hand_raised_at: string | null;
  capabilities_json: string;
  lease_expires_at: string;
  joined_at: string | null;
  left_at: string | null;
  left_reason: (typeof LEAVE_REASONS)[number] | null;
  created_at: string;
};

/** The consent of a principal to one recording. */
export type ConsentRow = {
  tenant_id: string;
  meeting_id: string;
  recording_id: string;
  principal_id: string;
  given_at: string;
};

export type SegmentRow = {
  tenant_id: string;
  id: string;
  meeting_id: string;
  start_ms: number;
  end_ms: number;
  speaker_id: string;
  text: string;
  posted_by: string;
  created_at: string;
};

export type MeetingTables = RoomTables & {
  meeting: MeetingRow;
  meeting_participant: ParticipantRow;
  meeting_consent: ConsentRow;
  meeting_segment: SegmentRow;
};
