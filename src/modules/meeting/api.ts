// Operations of meetings.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import type { MeetingAttendance } from "./attendance.ts";
import type { MeetingRecordings } from "./recording.ts";
import {
  Consent,
  Heartbeat,
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
  TRANSCRIPT_BODY_MAX_BYTES,
  TranscriptAppend,
  TranscriptList,
  TranscriptSegment,
} from "./schema.ts";
import type { MeetingService } from "./service.ts";
import type { MeetingTranscripts } from "./transcript.ts";

const PATH = "/v1/collaboration/meetings";
const ROOM = exampleId("room");
const MEETING = exampleId("mtg");
const PARTICIPANT = exampleId("part");
const byId = z.strictObject({ id: MeetingId });
const READ = { scope: "meeting.read", room: "observer" } as const;
const WRITE = { scope: "meeting.write", room: "member" } as const;
/** Operations that end something are allowed in archived rooms as well. */
const END = { ...WRITE, archived: true } as const;

type Deps = {
  meetings: MeetingService;
  attendance: MeetingAttendance;
  recordings: MeetingRecordings;
  transcripts: MeetingTranscripts;
};

export function meetingApi({ meetings, attendance, recordings, transcripts }: Deps): ModuleApi {
  return {
    tags: { meetings: "Audio and video meetings: participants, media, recording and transcripts." },
    events: MEETING_EVENTS,
    operations: [
      ...meetingOperations(meetings),
      ...attendanceOperations(attendance),
      ...moderationOperations(attendance),
      ...recordingOperations(recordings),
      ...transcriptOperations(transcripts),
    ],
  };
}

function meetingOperations(meetings: MeetingService) {
  return [
    defineOperation({
      name: "meeting.start",
      summary: "Create a meeting in a room, for now or later",
      description:
        "A room has at most one active meeting and any number of scheduled ones. In a direct room, a meeting that " +
        "starts now rings for the others for 90 seconds. An empty meeting ends automatically.",
      access: WRITE,
      http: { method: "POST", path: PATH, status: 201, hasLocation: true },
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
      output: pageSchema(Meeting),
      faults: ["not_found", "invalid_cursor"],
      example: { state: ["ringing", "active"] },
      run: (context, input) => meetings.list(context, input),
    }),
    defineOperation({
      name: "meeting.read",
      summary: "Get a meeting",
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
      summary: "Update a meeting: rename, lock, reschedule, change its lobby or admitted agents",
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
      summary: "End a meeting for everybody, or decline a call",
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
      summary: "Join a meeting",
      description:
        "Participation is a lease that heartbeats renew. Joining again from the same device renews it and returns " +
        "new credentials. A participant in the lobby joins again after `meeting.participant_joined`.",
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
      summary: "Renew the caller's participation in a meeting",
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
      summary: "List the participants of a meeting, including its lobby",
      access: READ,
      http: { method: "GET", path: `${PATH}/:id/participants`, status: 200 },
      input: byId,
      output: z.object({ items: z.array(Participant) }).meta({ id: "MeetingParticipants" }),
      faults: ["not_found"],
      example: { id: MEETING },
      run: async (context, { id }) => ({ items: await attendance.participants(context, id) }),
    }),
    defineOperation({
      name: "meeting.update_participant",
      summary: "Update a participant: mute, raise or lower a hand, change the role, or admit from the lobby",
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
      summary: "Remove a participant from a meeting or its lobby",
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
      summary: "Request to record a meeting",
      description: "Recording starts once all participants have consented. Those who join later consent by joining.",
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
      summary: "Stop a recording, or withdraw the request for one",
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
      summary: "Consent to a recording, or decline, which stops it",
      access: END,
      http: { method: "PUT", path: `${PATH}/:id/recording/consent`, status: 200 },
      input: Consent,
      output: Meeting,
      faults: ["not_found", "conflict", "gone"],
      example: { id: MEETING, consent: true },
      run: (context, input) => recordings.respondToRequest(context, input),
    }),
  ];
}

function transcriptOperations(transcripts: MeetingTranscripts) {
  return [
    defineOperation({
      name: "meeting.transcribe",
      summary: "Add segments to the transcript of a meeting",
      access: WRITE,
      http: {
        method: "POST",
        path: `${PATH}/:id/transcript`,
        status: 201,
        bodyMaxBytes: TRANSCRIPT_BODY_MAX_BYTES,
      },
      input: TranscriptAppend,
      output: z.object({ items: z.array(TranscriptSegment) }).meta({ id: "TranscriptSegments" }),
      faults: ["not_found", "room_archived", "agent_muted", "conflict", "payload_too_large"],
      example: { id: MEETING, segments: [{ startMs: 0, endMs: 1800, speakerId: "alice", text: "Good morning." }] },
      run: async (context, input) => ({ items: await transcripts.append(context, input) }),
    }),
    defineOperation({
      name: "meeting.transcript",
      summary: "List the transcript of a meeting",
      access: READ,
      http: { method: "GET", path: `${PATH}/:id/transcript`, status: 200 },
      input: TranscriptList,
      output: pageSchema(TranscriptSegment),
      faults: ["not_found", "invalid_cursor"],
      example: { id: MEETING },
      run: (context, input) => transcripts.list(context, input),
    }),
  ];
}
