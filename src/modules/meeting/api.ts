// Operations, jobs and channel of meetings.
import { z } from "@zod/zod";
import type { Clock } from "@/core/clock.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { type Cursors, pageOf } from "@/core/page.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { MeetingAttendance } from "./attendance.ts";
import { MeetingKeeper } from "./keeper.ts";
import { LinkedMeetings } from "./linked.ts";
import { END_ATTEMPTS, FEW_ATTEMPTS, LiveKit, type LiveKitSettings } from "./livekit.ts";
import { type IceSettings, MediaBroker } from "./media.ts";
import { MeetingRecordings } from "./recording.ts";
import {
  Consent,
  Heartbeat,
  heartbeatOf,
  Joined,
  Meeting,
  MEETING_EVENTS,
  MeetingId,
  MeetingJoin,
  MeetingList,
  MeetingStart,
  MeetingUpdate,
  Participant,
  ParticipantCall,
  ParticipantUpdate,
  Record,
  RELAY_MAX,
  SEGMENTS_MAX,
  SFU_MAX,
  SIGNAL_MAX_BYTES,
  TRANSCRIPT_BODY_MAX_BYTES,
  TranscriptAppend,
  TranscriptList,
  TranscriptSegment,
} from "./schema.ts";
import { MeetingService } from "./service.ts";
import { meetingChannel } from "./signal.ts";
import type { MeetingTables } from "./tables.ts";
import { MeetingTranscripts } from "./transcript.ts";

const PATH = "/v1/collaboration/meetings";
const ROOM = "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const MEETING = "mtg_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const PARTICIPANT = "part_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const byId = z.strictObject({ id: MeetingId });
const READ = { scope: "meeting.read", room: "observer" } as const;
const WRITE = { scope: "meeting.write", room: "member" } as const;
/** What ends something is fine in an archived room as well. */
const END = { ...WRITE, archived: true } as const;

/** What the meeting module is built from; `liveKit` is absent where there is no media server. */
export type MeetingDeps = {
  store: Store<MeetingTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  identity: IdentityService;
  leaseSeconds: number;
  ice: IceSettings;
  liveKit?: LiveKitSettings | undefined;
  notify: Notify;
};

/** The parts of the meeting module that others are handed: linked meetings, and what reacts to commits. */
export type MeetingParts = { module: Module; linked: LinkedMeetings; keeper: MeetingKeeper };

/** The meeting module. */
export function meetingModule(deps: MeetingDeps): MeetingParts {
  const { store, clock, cursors, gate, identity, notify } = deps;
  const leaseMs = deps.leaseSeconds * 1000;
  const liveKit = deps.liveKit === undefined ? undefined : new LiveKit(deps.liveKit);
  const hasSfu = liveKit !== undefined;
  const media = new MediaBroker({ clock, ice: deps.ice, liveKit });
  const keeper = new MeetingKeeper({ store, clock, gate, identity, leaseMs, hasSfu, notify });
  const meetings = new MeetingService({ store, clock, cursors, gate, identity, keeper, hasSfu });
  const attendance = new MeetingAttendance({ store, clock, keeper, meetings, media }, leaseMs);
  const recordings = new MeetingRecordings({ keeper, liveKit });
  const transcripts = new MeetingTranscripts({ store, clock, cursors, keeper });
  const module: Module = {
    name: "meeting",
    events: MEETING_EVENTS,
    operations: [
      ...meetingOperations(meetings),
      ...attendanceOperations(attendance),
      ...moderationOperations(attendance),
      ...recordingOperations(recordings),
      ...transcriptOperations(transcripts),
    ],
    channels: [meetingChannel({ store, clock, gate })],
    jobs: meetingJobs(keeper, recordings, liveKit),
    purgeRoom: (tenantId, roomId) => meetings.purgeRoom(tenantId, roomId),
    capability: () => ({
      enabled: true,
      media: hasSfu ? "livekit" : "relay",
      turn: deps.ice.turnUrls.length > 0,
      recording: hasSfu ? { enabled: true } : { enabled: false, reason: "recording_not_configured" },
      limits: {
        participants: hasSfu ? SFU_MAX : RELAY_MAX,
        leaseSeconds: deps.leaseSeconds,
        heartbeatSeconds: heartbeatOf(deps.leaseSeconds),
        signalBytes: SIGNAL_MAX_BYTES,
        transcriptSegments: SEGMENTS_MAX,
      },
    }),
  };
  return { module, linked: new LinkedMeetings({ meetings, keeper }), keeper };
}

function meetingJobs(keeper: MeetingKeeper, recordings: MeetingRecordings, liveKit: LiveKit | undefined) {
  const meetingId = z.string();
  return [
    defineJob({
      kind: "meeting.tend",
      payload: z.strictObject({ meetingId }),
      run: ({ tenantId, payload }) => keeper.tend(tenantId, payload.meetingId),
    }),
    defineJob({
      kind: "meeting.record",
      payload: z.strictObject({ meetingId, recordingId: z.string(), action: z.enum(["start", "stop"]) }),
      maxAttempts: END_ATTEMPTS,
      run: ({ tenantId, payload, attempt }) => recordings.carryOut(tenantId, payload, attempt),
    }),
    defineJob({
      kind: "meeting.sfu",
      payload: z.discriminatedUnion("action", [
        z.strictObject({ action: z.literal("close"), meetingId }),
        z.strictObject({ action: z.enum(["remove", "mute"]), meetingId, participantId: z.string() }),
      ]),
      maxAttempts: END_ATTEMPTS,
      async run({ payload, attempt }) {
        if (payload.action === "close") await liveKit?.close(payload.meetingId);
        else if (payload.action === "remove" || attempt <= FEW_ATTEMPTS) {
          await liveKit?.[payload.action](payload.meetingId, payload.participantId);
        }
      },
    }),
  ];
}

function meetingOperations(meetings: MeetingService) {
  return [
    defineOperation({
      name: "meeting.start",
      summary: "Start a meeting in a room, now or for later",
      description: "A room has one meeting at a time, and any number that are scheduled. In a direct room one that " +
        "begins now rings the others for 90 seconds. A meeting that nobody is in closes by itself.",
      access: WRITE,
      http: { method: "POST", path: PATH, status: 201 },
      input: MeetingStart,
      output: Meeting,
      faults: ["not_found", "room_archived", "meeting_active"],
      example: { roomId: ROOM, title: "Weekly review", kind: "video" },
      async run(context, input) {
        const meeting = await meetings.start(context, input);
        return new Outcome(meeting, { location: `${PATH}/${meeting.id}` });
      },
    }),
    defineOperation({
      name: "meeting.list",
      summary: "List meetings, newest first",
      access: { scope: "meeting.read" },
      http: { method: "GET", path: PATH, status: 200 },
      input: MeetingList,
      output: pageOf(Meeting),
      faults: ["not_found", "invalid_cursor"],
      example: { state: ["ringing", "active"] },
      run: (context, input) => meetings.list(context, input),
    }),
    defineOperation({
      name: "meeting.read",
      summary: "Read a meeting",
      access: READ,
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: byId,
      output: Meeting,
      faults: ["not_found"],
      example: { id: MEETING },
      run: (context, { id }) => meetings.read(context, id),
    }),
    defineOperation({
      name: "meeting.update",
      summary: "Rename a meeting, lock it, switch its lobby, let agents in, or move it",
      access: WRITE,
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: MeetingUpdate,
      output: Meeting,
      faults: ["not_found", "room_archived", "conflict", "gone", "version_mismatch"],
      example: { id: MEETING, locked: true },
      run: (context, input) => meetings.update(context, input),
    }),
    defineOperation({
      name: "meeting.end",
      summary: "End a meeting for everybody, or decline a ringing call of two",
      access: END,
      http: { method: "POST", path: `${PATH}/:id/end`, status: 200 },
      input: byId,
      output: Meeting,
      faults: ["not_found", "gone"],
      example: { id: MEETING },
      run: (context, { id }) => meetings.end(context, id),
    }),
  ];
}

function attendanceOperations(attendance: MeetingAttendance) {
  const call = { id: MEETING, participantId: PARTICIPANT };
  return [
    defineOperation({
      name: "meeting.join",
      summary: "Take part in a meeting",
      description:
        "Taking part is a lease: keep it up with heartbeats. Joining again from the same device renews it and " +
        "gives new credentials. Somebody who is in the lobby joins again after `meeting.participant_joined`.",
      access: WRITE,
      http: { method: "POST", path: `${PATH}/:id/join`, status: 200 },
      input: MeetingJoin,
      output: Joined,
      isSecret: true,
      faults: ["not_found", "room_archived", "agent_muted", "conflict", "meeting_active", "meeting_full", "gone"],
      example: { id: MEETING, deviceId: "laptop" },
      run: (context, input) => attendance.join(context, input),
    }),
    defineOperation({
      name: "meeting.heartbeat",
      summary: "Stay in a meeting",
      access: WRITE,
      http: { method: "POST", path: `${PATH}/:id/heartbeat`, status: 200 },
      input: ParticipantCall,
      output: Heartbeat,
      faults: ["not_found", "room_archived", "gone"],
      example: call,
      run: (context, input) => attendance.heartbeat(context, input),
    }),
    defineOperation({
      name: "meeting.leave",
      summary: "Leave a meeting",
      access: { ...END, muted: true },
      http: { method: "POST", path: `${PATH}/:id/leave`, status: 204 },
      input: ParticipantCall,
      output: z.void(),
      faults: ["not_found", "gone"],
      example: call,
      run: (context, input) => attendance.leave(context, input),
    }),
  ];
}

function moderationOperations(attendance: MeetingAttendance) {
  const call = { id: MEETING, participantId: PARTICIPANT };
  return [
    defineOperation({
      name: "meeting.participants",
      summary: "List who is in a meeting and in its lobby",
      access: READ,
      http: { method: "GET", path: `${PATH}/:id/participants`, status: 200 },
      input: byId,
      output: z.object({ items: z.array(Participant) }),
      faults: ["not_found"],
      example: { id: MEETING },
      run: async (context, { id }) => ({ items: await attendance.participants(context, id) }),
    }),
    defineOperation({
      name: "meeting.update_participant",
      summary: "Mute somebody, raise or lower a hand, give a role, or let somebody in from the lobby",
      access: WRITE,
      http: { method: "PATCH", path: `${PATH}/:id/participants/:participantId`, status: 200 },
      input: ParticipantUpdate,
      output: Participant,
      faults: ["not_found", "room_archived", "conflict", "meeting_full", "gone"],
      example: { ...call, muted: true },
      run: (context, input) => attendance.update(context, input),
    }),
    defineOperation({
      name: "meeting.remove_participant",
      summary: "Send somebody out of a meeting or its lobby",
      access: END,
      http: { method: "DELETE", path: `${PATH}/:id/participants/:participantId`, status: 204 },
      input: ParticipantCall,
      output: z.void(),
      faults: ["not_found", "gone"],
      example: call,
      run: (context, input) => attendance.remove(context, input),
    }),
  ];
}

function recordingOperations(recordings: MeetingRecordings) {
  return [
    defineOperation({
      name: "meeting.record",
      summary: "Ask everybody in a meeting whether it may be recorded",
      description: "It begins once the last participant has agreed, and who joins later agrees by joining.",
      access: WRITE,
      http: { method: "POST", path: `${PATH}/:id/recording`, status: 202 },
      input: Record,
      output: Meeting,
      faults: ["not_found", "room_archived", "conflict", "recording_not_configured", "gone"],
      example: { id: MEETING, consentText: "We record this meeting for colleagues who cannot be here." },
      run: (context, input) => recordings.request(context, input),
    }),
    defineOperation({
      name: "meeting.stop_recording",
      summary: "End a recording, or the asking for one",
      access: END,
      http: { method: "DELETE", path: `${PATH}/:id/recording`, status: 202 },
      input: byId,
      output: Meeting,
      faults: ["not_found", "conflict", "gone"],
      example: { id: MEETING },
      run: (context, { id }) => recordings.stop(context, id),
    }),
    defineOperation({
      name: "meeting.consent",
      summary: "Agree to be recorded, or not, which ends the recording",
      access: END,
      http: { method: "PUT", path: `${PATH}/:id/recording/consent`, status: 200 },
      input: Consent,
      output: Meeting,
      faults: ["not_found", "conflict", "gone"],
      example: { id: MEETING, consent: true },
      run: (context, input) => recordings.answer(context, input),
    }),
  ];
}

function transcriptOperations(transcripts: MeetingTranscripts) {
  return [
    defineOperation({
      name: "meeting.transcribe",
      summary: "Add to the transcript of a meeting",
      access: WRITE,
      http: {
        method: "POST",
        path: `${PATH}/:id/transcript`,
        status: 201,
        bodyMaxBytes: TRANSCRIPT_BODY_MAX_BYTES,
      },
      input: TranscriptAppend,
      output: z.object({ items: z.array(TranscriptSegment) }),
      faults: ["not_found", "room_archived", "agent_muted", "conflict", "payload_too_large"],
      example: { id: MEETING, segments: [{ startMs: 0, endMs: 1800, speakerId: "alice", text: "Good morning." }] },
      run: async (context, input) => ({ items: await transcripts.append(context, input) }),
    }),
    defineOperation({
      name: "meeting.transcript",
      summary: "Read the transcript of a meeting",
      access: READ,
      http: { method: "GET", path: `${PATH}/:id/transcript`, status: 200 },
      input: TranscriptList,
      output: pageOf(TranscriptSegment),
      faults: ["not_found", "invalid_cursor"],
      example: { id: MEETING },
      run: (context, input) => transcripts.list(context, input),
    }),
  ];
}
