// The records of meetings in archives. Unknown fields are those of a later version, and ignored.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS } from "@/core/actor.ts";
import { Counter } from "@/core/archive/fields.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import {
  AGENTS_MAX,
  Capabilities,
  CONSENT_TEXT_MAX,
  END_REASONS,
  LEAVE_REASONS,
  MEETING_KINDS,
  MEETING_MS_MAX,
  MEETING_ROLES,
  MeetingId,
  ParticipantId,
  SEGMENT_TEXT_MAX,
  SFU_MAX,
  TITLE_MAX,
} from "../schema.ts";

const RecordingId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected the id of a recording");
const Offset = z.int().min(0).max(MEETING_MS_MAX);

export const MeetingRecord = z.object({
  id: MeetingId,
  roomId: RoomId,
  title: z.string().overwrite(sanitizeName).min(1).max(TITLE_MAX).nullable(),
  kind: z.enum(MEETING_KINDS),
  state: z.enum(["scheduled", "ended"]),
  hostId: PrincipalId,
  scheduledFor: TimeInput.nullable(),
  maxParticipants: z.int().min(2).max(SFU_MAX),
  lobby: z.boolean(),
  locked: z.boolean(),
  agentIds: z.array(PrincipalId).max(AGENTS_MAX).transform((ids) => [...new Set(ids)]),
  recording: z.object({
    id: RecordingId,
    state: z.enum(["stopped", "failed"]),
    consentText: z.string().min(1).max(CONSENT_TEXT_MAX),
    requestedBy: PrincipalId,
    requestedAt: TimeInput,
    startedAt: TimeInput.nullable(),
    endedAt: TimeInput.nullable(),
  }).nullable(),
  startedAt: TimeInput.nullable(),
  endedAt: TimeInput.nullable(),
  endReason: z.enum(END_REASONS).nullable(),
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: TimeInput,
  updatedAt: TimeInput,
}).refine(
  ({ state, endedAt, endReason }) => (state === "ended") === (endedAt !== null && endReason !== null),
  "endedAt must be set if the meeting ended, and only then",
).refine(
  ({ state, scheduledFor }) => state === "ended" || scheduledFor !== null,
  "scheduledFor is required for a scheduled meeting",
);
export const ParticipantRecord = z.object({
  roomId: RoomId,
  meetingId: MeetingId,
  id: ParticipantId,
  principalId: PrincipalId,
  kind: z.enum(PRINCIPAL_KINDS),
  displayName: z.string().overwrite(sanitizeName).max(200),
  deviceId: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, "expected the id of a device"),
  role: z.enum(MEETING_ROLES),
  muted: z.boolean(),
  capabilities: Capabilities,
  joinedAt: TimeInput.nullable(),
  leftAt: TimeInput.nullable(),
  leftReason: z.enum(LEAVE_REASONS).nullable(),
  createdAt: TimeInput,
});
export const ConsentRecord = z.object({
  roomId: RoomId,
  meetingId: MeetingId,
  recordingId: RecordingId,
  principalId: PrincipalId,
  givenAt: TimeInput,
});
export const SegmentRecord = z.object({
  roomId: RoomId,
  meetingId: MeetingId,
  id: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected the id of a segment"),
  startMs: Offset,
  endMs: Offset,
  speakerId: PrincipalId,
  text: z.string().min(1).max(SEGMENT_TEXT_MAX),
  postedBy: PrincipalId,
  createdAt: TimeInput,
}).refine(({ startMs, endMs }) => startMs <= endMs, "ends before it starts");

/** What was active when it was exported has ended. */
export type ArchivedMeeting = z.output<typeof MeetingRecord>;
export type ArchivedParticipant = z.output<typeof ParticipantRecord>;
export type ArchivedConsent = z.output<typeof ConsentRecord>;
export type ArchivedSegment = z.output<typeof SegmentRecord>;
