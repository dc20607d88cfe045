// Schemas of meetings and their events.
import { z } from "@zod/zod";
import { PrincipalKind } from "@/core/actor.ts";
import { DAY_MS } from "@/core/time/clock.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { OmittedFields, shortenedSchema } from "@/core/event/event_data.ts";
import { Json } from "@/core/json.ts";
import { nameSchema } from "@/core/text/name.ts";
import { pageInput } from "@/core/page.ts";
import { BaseVersion } from "@/core/patch.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const MEETING_STATES = ["scheduled", "ringing", "active", "ended"] as const;
const MeetingState = z.enum(MEETING_STATES).meta({ id: "MeetingState" });
export const MEETING_KINDS = ["audio", "video"] as const;
const MeetingKind = z.enum(MEETING_KINDS).meta({ id: "MeetingKind" });
/** From lowest to highest. */
export const MEETING_ROLES = ["participant", "moderator", "host"] as const;
const MeetingRole = z.enum(MEETING_ROLES).meta({ id: "MeetingRole" });
export const END_REASONS = ["ended", "empty", "unanswered", "declined", "missed", "cancelled", "room_closed"] as const;
const EndReason = z.enum(END_REASONS).meta({ id: "MeetingEndReason" });
export const LEAVE_REASONS = ["left", "removed", "expired", "no_access", "ended"] as const;
const RECORDING_STATES = ["requested", "starting", "recording", "stopping", "stopped", "failed"] as const;

const HEARTBEAT_SECONDS = 15;
/** Participants who send to each other directly; more would exceed their uplinks. */
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
export const AGENTS_MAX = 20;
export const MEETING_MS_MAX = 7 * DAY_MS;

export const MeetingId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");
export const ParticipantId = z.string().regex(
  /^[A-Za-z0-9_-]{1,64}$/,
  "expected 1 to 64 characters of A-Z a-z 0-9 _ -",
);
const Title = nameSchema(TITLE_MAX).describe("Title of the meeting");
const Time = z.iso.datetime();
const AgentIds = z.array(PrincipalId).max(AGENTS_MAX).describe(
  "Agents that may participate; others cannot be admitted",
);
const ConsentText = z.string().trim().min(1).max(CONSENT_TEXT_MAX).describe(
  "Purpose of the recording, shown in the request for consent",
);

export const Recording = z.object({
  state: z.enum(RECORDING_STATES),
  consentText: z.string().describe("Purpose of the recording, shown in the request for consent"),
  requestedBy: PrincipalId,
  requestedAt: Time.describe("When the recording was requested"),
  startedAt: Time.nullable().describe("When the recording started, after everybody had consented"),
  endedAt: Time.nullable().describe("When the recording ended; null before"),
  consentedIds: z.array(PrincipalId).describe("Participants who have consented"),
  pendingIds: z.array(PrincipalId).describe("Participants who have not responded; recording starts after they consent"),
}).meta({ id: "MeetingRecording" });
export type Recording = z.output<typeof Recording>;

export const Meeting = z.object({
  id: MeetingId,
  roomId: RoomId,
  title: z.string().nullable().describe("Title of the meeting; null if it has none"),
  kind: MeetingKind,
  state: MeetingState,
  hostId: PrincipalId.describe("Principal that hosts the meeting"),
  scheduledFor: Time.nullable().describe("Scheduled start"),
  maxParticipants: z.int().describe("Maximum number of participants"),
  lobby: z.boolean().describe("Whether participants who are not host or moderator wait in the lobby until admitted"),
  locked: z.boolean().describe("Whether only moderators can join"),
  agentIds: z.array(PrincipalId).describe("Agents that may participate"),
  participantCount: z.int().describe("Number of participants with an active lease"),
  waitingCount: z.int().describe("Participants waiting in the lobby"),
  ringExpiresAt: Time.nullable().describe("When ringing ends; null if it does not ring"),
  recording: Recording.nullable().describe("The recording; null if none was requested"),
  startedAt: Time.nullable(),
  endedAt: Time.nullable().describe("When the meeting ended; null before"),
  endReason: EndReason.nullable().describe("Why the meeting ended; null before"),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
}).meta({ id: "Meeting" });
export type Meeting = z.output<typeof Meeting>;

export const Capabilities = z.strictObject({
  audio: z.boolean().default(true).describe("Sends audio"),
  video: z.boolean().default(true).describe("Sends video"),
  screen: z.boolean().default(false).describe("Shares a screen"),
}).meta({ id: "MeetingCapabilities" });
export type Capabilities = z.output<typeof Capabilities>;

export const Participant = z.object({
  id: ParticipantId,
  principalId: PrincipalId,
  kind: PrincipalKind,
  displayName: z.string(),
  deviceId: z.string().describe("Device of the principal, as given when joining"),
  role: MeetingRole,
  state: z.enum(["waiting", "joined", "left"]).describe("waiting: in the lobby"),
  muted: z.boolean().describe("Whether the participant is muted"),
  handRaisedAt: Time.nullable().describe(
    "Position in the queue of raised hands, lowest first, unique within the meeting; null if the hand is not raised",
  ),
  capabilities: Capabilities,
  joinedAt: Time.nullable(),
  leftAt: Time.nullable().describe("When the participant left; null before"),
}).meta({ id: "MeetingParticipant" });
export type Participant = z.output<typeof Participant>;

const IceServer = z.object({
  urls: z.array(z.string()).describe("URLs of the STUN or TURN server"),
  username: z.string().optional().describe("User name for the TURN server"),
  credential: z.string().optional().describe("Password for the TURN server"),
}).meta({ id: "IceServer", description: "In the format of RTCPeerConnection" });

export const Media = z.object({
  mode: z.enum(["relay", "livekit", "none"])
    .describe("relay: peer connections, with signaling on `meeting:<id>`; none: waiting in the lobby"),
  url: z.string().optional().describe("URL of the media server"),
  token: z.string().optional().describe("Token for the media server, valid for one minute; join again to get another"),
  iceServers: z.array(IceServer).describe("STUN and TURN servers for peer connections"),
  expiresAt: Time.nullable().describe("When token and credentials expire for new connections"),
}).meta({ id: "MeetingMedia" });
export type Media = z.output<typeof Media>;

export const MeetingStart = z.strictObject({
  roomId: RoomId,
  title: Title.optional(),
  kind: MeetingKind.default("video"),
  scheduledFor: TimeInput.optional().describe("Scheduled start, in the future. Default: now"),
  maxParticipants: z.int().min(2).max(SFU_MAX).optional()
    .describe(`Default and maximum: ${RELAY_MAX}, or ${SFU_MAX} with a media server`),
  lobby: z.boolean().default(false).describe("Whether participants wait in a lobby until admitted"),
  agentIds: AgentIds.default([]),
  autoRecord: z.literal(false).default(false).describe(
    "A recording starts with a request for consent; see meeting.record",
  ),
});
export type MeetingStart = z.output<typeof MeetingStart>;

export const MeetingList = z.strictObject({
  ...pageInput,
  roomId: RoomId.optional().describe("Default: all rooms of the caller"),
  state: z.array(MeetingState).max(4).optional(),
});
export type MeetingList = z.output<typeof MeetingList>;

export const MeetingUpdate = z.strictObject({
  id: MeetingId,
  title: Title.nullable().optional(),
  locked: z.boolean().optional().describe("Whether only moderators can join"),
  lobby: z.boolean().optional().describe("Whether participants wait in a lobby until admitted"),
  agentIds: AgentIds.optional(),
  scheduledFor: TimeInput.optional().describe("Only for a scheduled meeting"),
  version: BaseVersion,
});
export type MeetingUpdate = z.output<typeof MeetingUpdate>;

export const MeetingJoin = z.strictObject({
  id: MeetingId,
  deviceId: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 . _ -").default(
    "default",
  )
    .describe("Identifies the device; joining again from the same device renews the participation"),
  capabilities: Capabilities.default({ audio: true, video: true, screen: false }),
  recordingConsent: z.boolean().default(false).describe(
    "Required while the meeting is recorded or a recording is requested",
  ),
});
export type MeetingJoin = z.output<typeof MeetingJoin>;

export const Joined = z.object({
  participantId: ParticipantId,
  leaseSeconds: z.int().describe("When the participation ends without another heartbeat"),
  heartbeatSeconds: z.int().describe("Interval of heartbeats, in seconds"),
  participant: Participant,
  media: Media,
  participants: z.array(Participant).describe("All participants of the meeting, including the caller"),
  meeting: Meeting,
}).meta({ id: "MeetingJoined" });
export type Joined = z.output<typeof Joined>;

export const ParticipantCall = z.strictObject({ id: MeetingId, participantId: ParticipantId });
export type ParticipantCall = z.output<typeof ParticipantCall>;

/** Three heartbeats a lease, so that two may be lost. */
export function heartbeatOf(leaseSeconds: number): number {
  return Math.min(HEARTBEAT_SECONDS, Math.floor(leaseSeconds / 3));
}

export const Heartbeat = z.object({
  leaseSeconds: z.int().describe("When the participation ends without another heartbeat"),
  expiresAt: Time,
  participant: Participant,
}).meta({ id: "MeetingHeartbeat" });
export type Heartbeat = z.output<typeof Heartbeat>;

export const ParticipantUpdate = z.strictObject({
  id: MeetingId,
  participantId: ParticipantId,
  muted: z.boolean().optional().describe("Moderators can mute others; only participants themselves can unmute"),
  handRaised: z.boolean().optional().describe(
    "Participants can raise their own hand; moderators can lower those of others",
  ),
  role: MeetingRole.optional().describe("host: transfers the role of host"),
  admitted: z.literal(true).optional().describe("Admits a participant from the lobby"),
});
export type ParticipantUpdate = z.output<typeof ParticipantUpdate>;

export const Record = z.strictObject({ id: MeetingId, consentText: ConsentText });
export const Consent = z.strictObject({ id: MeetingId, consent: z.boolean().describe("false stops the recording") });
export type Consent = z.output<typeof Consent>;

/** What a client publishes on `meeting:<id>`; only the addressed participant's principal gets it. */
export const Signal = z.strictObject({
  to: ParticipantId.describe("Recipient participant"),
  from: ParticipantId.optional().describe("Participant of the sender; distinguishes devices of a principal"),
  kind: z.enum(["offer", "answer", "candidate", "bye"]),
  payload: Json.optional().describe("Session description, or one or more candidates"),
}).meta({ id: "MeetingSignal" });
export type Signal = z.output<typeof Signal>;

const Offset = z.int().min(0).max(MEETING_MS_MAX);
const segment = {
  startMs: Offset.describe("Start of the segment, in ms since the start of the meeting"),
  endMs: Offset.describe("End of the segment, in ms since the start of the meeting"),
  speakerId: PrincipalId.describe("Principal that spoke"),
};

export const TranscriptSegment = z.object({
  id: z.string(),
  ...segment,
  text: z.string().describe("Text of the segment"),
  postedBy: PrincipalId.describe("Principal that added the segment"),
  createdAt: Time,
}).meta({ id: "TranscriptSegment" });
export type TranscriptSegment = z.output<typeof TranscriptSegment>;

export const TranscriptAppend = z.strictObject({
  id: MeetingId,
  segments: z.array(
    z.strictObject({ ...segment, text: z.string().trim().min(1).max(SEGMENT_TEXT_MAX).describe("Text of the segment") })
      .refine(({ startMs, endMs }) => startMs <= endMs, "endMs is before startMs"),
  ).min(1).max(SEGMENTS_PER_CALL_MAX).describe("Segments to add"),
});
export type TranscriptAppend = z.output<typeof TranscriptAppend>;

export const TranscriptList = z.strictObject({ ...pageInput, id: MeetingId });
export type TranscriptList = z.output<typeof TranscriptList>;

const Ring = z.object({ callerId: PrincipalId, expiresAt: Time }).nullable()
  .describe("Set in direct rooms: until when clients of the others should ring");
/** Fields that events may omit because of their length. */
export const LONG_FIELDS = ["agentIds", "recording"] as const satisfies (keyof Meeting)[];
const briefMeeting = {
  meeting: shortenedSchema(Meeting, LONG_FIELDS).describe(
    "Recording after the change, with complete lists of participants",
  ),
  omitted: OmittedFields,
};

/** Durable events of meetings, on the stream of their room; those marked (principal) also reach principals it rings for. */
export const MEETING_EVENTS: readonly EventType[] = eventTypes("meeting.read", [
  {
    type: "meeting.started",
    streams: ["room", "principal"],
    summary: "A meeting started or rings (principal)",
    data: z.object({ ...briefMeeting, ring: Ring }),
  },
  {
    type: "meeting.updated",
    summary: "A meeting was scheduled or changed, or a participant waits in the lobby, was muted, got a role, or " +
      "raised or lowered a hand",
    data: z.object({ ...briefMeeting, participant: Participant.optional() }),
  },
  {
    type: "meeting.participant_joined",
    streams: ["room", "principal"],
    summary: "A participant joined; in a ringing call the first one ends the ringing (principal)",
    data: z.object({ ...briefMeeting, participant: Participant }),
  },
  {
    type: "meeting.participant_left",
    summary: "A participant left",
    data: z.object({ ...briefMeeting, participant: Participant, reason: z.enum(LEAVE_REASONS) }),
  },
  {
    type: "meeting.ended",
    streams: ["room", "principal"],
    summary: "The meeting ended (principal: while it rang)",
    data: z.object({ ...briefMeeting, reason: EndReason }),
  },
  {
    type: "meeting.recording_changed",
    summary: "A recording was requested, consented to, started, stopped or failed",
    data: z.object(briefMeeting),
  },
]);
