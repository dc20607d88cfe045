// The meeting module: calls with attendance, signals, recordings and transcripts.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { meetingApi } from "./api.ts";
import { MeetingAttendance } from "./attendance.ts";
import { meetingArchive } from "./archive/section.ts";
import { MeetingManager } from "./meeting_manager.ts";
import { LinkedMeetings } from "./linked_meetings.ts";
import { END_ATTEMPTS, LiveKit, type LiveKitSettings, SHORT_LIVED_ATTEMPTS } from "./livekit.ts";
import { type IceSettings, MediaBroker } from "./media.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { MeetingRecordings } from "./recording.ts";
import { heartbeatOf, RELAY_MAX, SEGMENTS_MAX, SFU_MAX, SIGNAL_MAX_BYTES } from "./schema.ts";
import { MeetingService } from "./service.ts";
import { meetingChannel } from "./signal.ts";
import { MeetingTranscripts } from "./transcript.ts";

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  notify: Notify;
  leaseSeconds: number;
  ice: IceSettings;
  /** Absent where there is no media server. */
  liveKit: LiveKitSettings | undefined;
};

type MeetingModule = Module & { linked: LinkedMeetings };

export function meetingModule({ store, clock, cursors, outbound }: Platform, deps: Deps): MeetingModule {
  const { roomAccess, identity, notify } = deps;
  const leaseMs = deps.leaseSeconds * 1000;
  const liveKit = deps.liveKit === undefined ? undefined : new LiveKit(deps.liveKit, outbound);
  const hasSfu = liveKit !== undefined;
  const media = new MediaBroker({ clock, ice: deps.ice, liveKit });
  const manager = new MeetingManager({ store, clock, roomAccess, identity, leaseMs, hasSfu, notify });
  const meetings = new MeetingService({ store, clock, cursors, roomAccess, identity, manager, hasSfu });
  const attendance = new MeetingAttendance({ store, clock, manager, meetings, media }, leaseMs);
  const recordings = new MeetingRecordings({ manager, liveKit });
  const transcripts = new MeetingTranscripts({ store, clock, cursors, manager });
  return {
    name: "meeting",
    migrations,
    erases,
    ...meetingApi({ meetings, attendance, recordings, transcripts }),
    channels: [meetingChannel({ store, clock, roomAccess })],
    notificationKinds: { missed_call: null },
    resourceScopes: { meeting: "meeting.read" },
    jobs: meetingJobs(manager, recordings, liveKit),
    onCommit: (events) => manager.onEvents(events),
    stop: () => manager.idle(),
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
    linked: new LinkedMeetings({ meetings, manager }),
    archive: meetingArchive({ store, clock, hasSfu }),
  };
}

function meetingJobs(manager: MeetingManager, recordings: MeetingRecordings, liveKit: LiveKit | undefined) {
  const meetingId = z.string();
  return [
    defineJob({
      kind: "meeting.upkeep",
      payload: z.strictObject({ meetingId }),
      run: ({ tenantId, payload }) => manager.withSystemLock(tenantId, payload.meetingId),
    }),
    defineJob({
      kind: "meeting.record",
      payload: z.strictObject({ meetingId, recordingId: z.string(), action: z.enum(["start", "stop"]) }),
      maxAttempts: END_ATTEMPTS,
      run: ({ tenantId, payload, attempt }) => recordings.runRecorder(tenantId, payload, attempt),
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
        else if (payload.action === "remove" || attempt <= SHORT_LIVED_ATTEMPTS) {
          await liveKit?.[payload.action](payload.meetingId, payload.participantId);
        }
      },
    }),
  ];
}
