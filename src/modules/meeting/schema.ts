// Meetings as seen from outside, and the events they cause.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS } from "@/core/actor.ts";
import type { EventType } from "@/core/event.ts";
import { Json } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const MEETING_STATES = ["scheduled", "ringing", "active", "ended"] as const;
export const MEETING_KINDS = ["audio", "video"] as const;
/** From least to most: what may be done to others grows with it. */
export const MEETING_ROLES = ["participant", "moderator", "host"] as const;
export const END_REASONS = ["ended", "empty", "unanswered", "declined", "missed", "cancelled", "room_closed"] as const;
export const LEAVE_REASONS = ["left", "removed", "expired", "no_access", "ended"] as const;
const RECORDING_STATES = ["requested", "starting", "recording", "stopping", "stopped", "failed"] as const;

const HEARTBEAT_SECONDS = 15;
/** Peers of a call that send to each other directly; beyond that their uplinks give out. */
export const RELAY_MAX = 8;
export const SFU_MAX = 100;
export const WAITING_MAX = 100;
export const TITLE_MAX = 255;
export const CONSENT_TEXT_MAX = 2000;
export const SIGNAL_MAX_BYTES = 16 * 1024;
const SEGMENTS_PER_CALL_MAX = 100;
export const SEGMENTS_MAX = 20_000;
export const SEGMENT_TEXT_MAX = 4000;
export const TRANSCRIPT_BODY_MAX_BYTES = 256 * 1024;
const AGENTS_MAX = 20;
const MEETING_MS_MAX = 7 * 86_400_000;

export const MeetingId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");
export const ParticipantId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");
const Title = z.string().trim().min(1).max(TITLE_MAX);
const Time = z.iso.datetime();
const AgentIds = z.array(PrincipalId).max(AGENTS_MAX).describe("Agents that may take part; nobody else lets one in");
const ConsentText = z.string().trim().min(1).max(CONSENT_TEXT_MAX).describe("What everybody is asked to agree to");
const version = z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)");

export const Recording = z.object({
  state: z.enum(RECORDING_STATES),
  consentText: z.string(),
  requestedBy: PrincipalId,
  requestedAt: Time,
  startedAt: Time.nullable().describe("When everybody had agreed and the recorder ran"),
  endedAt: Time.nullable(),
  consentedIds: z.array(PrincipalId).describe("Participants who agreed"),
  pendingIds: z.array(PrincipalId).describe("Participants who have not answered; nothing is recorded before they do"),
}).meta({ id: "MeetingRecording" });
export type Recording = z.output<typeof Recording>;

export const Meeting = z.object({
  id: MeetingId,
  roomId: RoomId,
  title: z.string().nullable(),
  kind: z.enum(MEETING_KINDS),
  state: z.enum(MEETING_STATES),
  hostId: PrincipalId,
  scheduledFor: Time.nullable(),
  maxParticipants: z.int(),
  lobby: z.boolean().describe("Who is neither host nor moderator waits until let in"),
  locked: z.boolean().describe("Nobody else gets in, moderators excepted"),
  agentIds: z.array(PrincipalId),
  participantCount: z.int().describe("Counted from leases that run, never incremented"),
  waitingCount: z.int(),
  ringExpiresAt: Time.nullable(),
  recording: Recording.nullable(),
  startedAt: Time.nullable(),
  endedAt: Time.nullable(),
  endReason: z.enum(END_REASONS).nullable(),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
}).meta({ id: "Meeting" });
export type Meeting = z.output<typeof Meeting>;

export const Capabilities = z.strictObject({
  audio: z.boolean().default(true),
  video: z.boolean().default(true),
  screen: z.boolean().default(false),
}).meta({ id: "MeetingCapabilities" });
export type Capabilities = z.output<typeof Capabilities>;

export const Participant = z.object({
  id: ParticipantId,
  principalId: PrincipalId,
  kind: z.enum(PRINCIPAL_KINDS),
  displayName: z.string(),
  deviceId: z.string(),
  role: z.enum(MEETING_ROLES),
  state: z.enum(["waiting", "joined", "left"]).describe("waiting: in the lobby"),
  muted: z.boolean(),
  handRaisedAt: Time.nullable().describe(
    "null: the hand is down. No two in a meeting are alike; the first comes first",
  ),
  capabilities: Capabilities,
  joinedAt: Time.nullable(),
  leftAt: Time.nullable(),
}).meta({ id: "MeetingParticipant" });
export type Participant = z.output<typeof Participant>;

export const IceServer = z.object({
  urls: z.array(z.string()),
  username: z.string().optional(),
  credential: z.string().optional(),
}).meta({ id: "IceServer", description: "As RTCPeerConnection takes it" });

export const Media = z.object({
  mode: z.enum(["relay", "livekit", "none"])
    .describe("relay: peers connect to each other, signalled on `meeting:<id>`; none: waiting in the lobby"),
  url: z.string().optional().describe("Where the media server is"),
  token: z.string().optional().describe("For the media server; good for a minute, join again for another"),
  iceServers: z.array(IceServer),
  expiresAt: Time.nullable().describe("When token and credentials end for new connections"),
}).meta({ id: "MeetingMedia" });
export type Media = z.output<typeof Media>;

export const MeetingStart = z.strictObject({
  roomId: RoomId,
  title: Title.optional(),
  kind: z.enum(MEETING_KINDS).default("video"),
  scheduledFor: Time.optional().describe("In the future; absent = now"),
  maxParticipants: z.int().min(2).max(SFU_MAX).optional()
    .describe(`Default and most: ${RELAY_MAX}, or ${SFU_MAX} with a media server`),
  lobby: z.boolean().default(false),
  agentIds: AgentIds.default([]),
  autoRecord: z.literal(false).default(false).describe("A recording always begins by asking; see meeting.record"),
});
export type MeetingStart = z.output<typeof MeetingStart>;

export const MeetingList = z.strictObject({
  ...pageInput,
  roomId: RoomId.optional().describe("Default: all rooms the caller is a member of"),
  state: z.array(z.enum(MEETING_STATES)).max(4).optional(),
});
export type MeetingList = z.output<typeof MeetingList>;

export const MeetingUpdate = z.strictObject({
  id: MeetingId,
  title: Title.nullable().optional(),
  locked: z.boolean().optional(),
  lobby: z.boolean().optional(),
  agentIds: AgentIds.optional(),
  scheduledFor: Time.optional().describe("Only while it is scheduled"),
  version,
});
export type MeetingUpdate = z.output<typeof MeetingUpdate>;

export const MeetingJoin = z.strictObject({
  id: MeetingId,
  deviceId: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 . _ -").default("default")
    .describe("A principal takes part once per device; joining again renews that"),
  capabilities: Capabilities.default({ audio: true, video: true, screen: false }),
  recordingConsent: z.boolean().default(false).describe("Needed while the meeting is recorded or asks to be"),
});
export type MeetingJoin = z.output<typeof MeetingJoin>;

export const Joined = z.object({
  participantId: ParticipantId,
  leaseSeconds: z.int().describe("Taking part ends this long after the last heartbeat"),
  heartbeatSeconds: z.int(),
  participant: Participant,
  media: Media,
  participants: z.array(Participant).describe("Everybody in the meeting, oneself included"),
  meeting: Meeting,
}).meta({ id: "MeetingJoined" });
export type Joined = z.output<typeof Joined>;

export const ParticipantCall = z.strictObject({ id: MeetingId, participantId: ParticipantId });
export type ParticipantCall = z.output<typeof ParticipantCall>;

/** How often a participant is heard of: of three heartbeats of a lease two may get lost. */
export function heartbeatOf(leaseSeconds: number): number {
  return Math.min(HEARTBEAT_SECONDS, Math.floor(leaseSeconds / 3));
}

export const Heartbeat = z.object({
  leaseSeconds: z.int(),
  expiresAt: Time,
  participant: Participant,
}).meta({ id: "MeetingHeartbeat" });
export type Heartbeat = z.output<typeof Heartbeat>;

export const ParticipantUpdate = z.strictObject({
  id: MeetingId,
  participantId: ParticipantId,
  muted: z.boolean().optional().describe("Moderators mute others; only oneself unmutes"),
  handRaised: z.boolean().optional().describe("Everybody raises their own hand; moderators lower those of others"),
  role: z.enum(MEETING_ROLES).optional().describe("host: hands the meeting over"),
  admitted: z.literal(true).optional().describe("Lets somebody in from the lobby"),
});
export type ParticipantUpdate = z.output<typeof ParticipantUpdate>;

export const Record = z.strictObject({ id: MeetingId, consentText: ConsentText });
export const Consent = z.strictObject({ id: MeetingId, consent: z.boolean().describe("false ends the recording") });
export type Consent = z.output<typeof Consent>;

/** What a client publishes on `meeting:<id>`; only the addressed participant's principal gets it. */
export const Signal = z.strictObject({
  to: ParticipantId.describe("Participant it is for"),
  from: ParticipantId.optional().describe("The sender's own participant; tells devices of one principal apart"),
  kind: z.enum(["offer", "answer", "candidate", "bye"]),
  payload: Json.optional().describe("Session description, or one candidate or many"),
}).meta({ id: "MeetingSignal" });
export type Signal = z.output<typeof Signal>;

const Offset = z.int().min(0).max(MEETING_MS_MAX);
const segment = { startMs: Offset.describe("Since the meeting started"), endMs: Offset, speakerId: PrincipalId };

export const TranscriptSegment = z.object({
  id: z.string(),
  ...segment,
  text: z.string(),
  postedBy: PrincipalId,
  createdAt: Time,
}).meta({ id: "TranscriptSegment" });
export type TranscriptSegment = z.output<typeof TranscriptSegment>;

export const TranscriptAppend = z.strictObject({
  id: MeetingId,
  segments: z.array(
    z.strictObject({ ...segment, text: z.string().trim().min(1).max(SEGMENT_TEXT_MAX) })
      .refine(({ startMs, endMs }) => startMs <= endMs, "endMs before startMs"),
  ).min(1).max(SEGMENTS_PER_CALL_MAX),
});
export type TranscriptAppend = z.output<typeof TranscriptAppend>;

export const TranscriptList = z.strictObject({ ...pageInput, id: MeetingId });
export type TranscriptList = z.output<typeof TranscriptList>;

const Ring = z.object({ callerId: PrincipalId, expiresAt: Time }).nullable()
  .describe("Set in direct rooms: the others should be rung until then");
const meeting = Meeting.describe("After the change, with its full counts");

/** Durable events of meetings, on the stream of their room; those marked (principal) also reach those who are rung. */
export const MEETING_EVENTS: readonly EventType[] = [
  {
    type: "meeting.started",
    streams: ["room", "principal"],
    summary: "A meeting began, or rings (principal)",
    data: z.object({ meeting, ring: Ring }),
  },
  {
    type: "meeting.updated",
    summary: "A meeting was scheduled or changed, somebody waits, was muted or given a role, raised or lowered a hand",
    data: z.object({ meeting, participant: Participant.optional() }),
  },
  {
    type: "meeting.participant_joined",
    streams: ["room", "principal"],
    summary: "Somebody takes part; the first to answer ends the ringing (principal)",
    data: z.object({ meeting, participant: Participant }),
  },
  {
    type: "meeting.participant_left",
    summary: "Somebody takes part no longer",
    data: z.object({ meeting, participant: Participant, reason: z.enum(LEAVE_REASONS) }),
  },
  {
    type: "meeting.ended",
    streams: ["room", "principal"],
    summary: "The meeting is over for everybody (principal while it rang)",
    data: z.object({ meeting, reason: z.enum(END_REASONS) }),
  },
  {
    type: "meeting.recording_changed",
    summary: "A recording was asked for, agreed to, began, ended or failed",
    data: z.object({ meeting }),
  },
];
