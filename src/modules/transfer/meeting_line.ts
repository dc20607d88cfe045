// The lines of our own NDJSON export that tell of meetings.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS } from "@/core/actor.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import {
  Capabilities,
  CONSENT_TEXT_MAX,
  END_REASONS,
  LEAVE_REASONS,
  MEETING_KINDS,
  MEETING_ROLES,
  MEETING_TITLE_MAX,
  MeetingId,
  ParticipantId,
  SEGMENT_TEXT_MAX,
  SFU_MAX,
} from "@/modules/meeting/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { Counter, Time } from "./line_value.ts";

const AGENTS_MAX = 20;
const MEETING_MS_MAX = 7 * 86_400_000;
const RecordingId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "no id of a recording");
const Offset = z.int().min(0).max(MEETING_MS_MAX);

export const MeetingLine = z.object({
  id: MeetingId,
  roomId: RoomId,
  title: z.string().trim().min(1).max(MEETING_TITLE_MAX).nullable(),
  kind: z.enum(MEETING_KINDS),
  state: z.enum(["scheduled", "ended"]),
  hostId: PrincipalId,
  scheduledFor: Time.nullable(),
  maxParticipants: z.int().min(2).max(SFU_MAX),
  lobby: z.boolean(),
  locked: z.boolean(),
  agentIds: z.array(PrincipalId).max(AGENTS_MAX).transform((ids) => [...new Set(ids)]),
  recording: z.object({
    id: RecordingId,
    state: z.enum(["stopped", "failed"]),
    consentText: z.string().min(1).max(CONSENT_TEXT_MAX),
    requestedBy: PrincipalId,
    requestedAt: Time,
    startedAt: Time.nullable(),
    endedAt: Time.nullable(),
  }).nullable(),
  startedAt: Time.nullable(),
  endedAt: Time.nullable(),
  endReason: z.enum(END_REASONS).nullable(),
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
}).refine(
  ({ state, endedAt, endReason }) => (state === "ended") === (endedAt !== null && endReason !== null),
  "Ended at no time, or before it was over",
).refine(({ state, scheduledFor }) => state === "ended" || scheduledFor !== null, "Scheduled for no time");
export const ParticipantLine = z.object({
  roomId: RoomId,
  meetingId: MeetingId,
  id: ParticipantId,
  principalId: PrincipalId,
  kind: z.enum(PRINCIPAL_KINDS),
  displayName: z.string().max(200),
  deviceId: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, "no id of a device"),
  role: z.enum(MEETING_ROLES),
  muted: z.boolean(),
  capabilities: Capabilities,
  joinedAt: Time.nullable(),
  leftAt: Time.nullable(),
  leftReason: z.enum(LEAVE_REASONS).nullable(),
  createdAt: Time,
});
export const ConsentLine = z.object({
  roomId: RoomId,
  meetingId: MeetingId,
  recordingId: RecordingId,
  principalId: PrincipalId,
  givenAt: Time,
});
export const SegmentLine = z.object({
  roomId: RoomId,
  meetingId: MeetingId,
  id: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "no id of a segment"),
  startMs: Offset,
  endMs: Offset,
  speakerId: PrincipalId,
  text: z.string().min(1).max(SEGMENT_TEXT_MAX),
  postedBy: PrincipalId,
  createdAt: Time,
}).refine(({ startMs, endMs }) => startMs <= endMs, "It ends before it starts");
