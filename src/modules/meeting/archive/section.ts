// Meetings in archives: how they are exported, and what imports them. Active ones are exported as ended.
import type { ArchiveSection, ExportContext } from "@/core/archive/section.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { paginate } from "@/core/page.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { presentMeeting, presentParticipant, presentSegment, recordingOf, type StoredRecording } from "../presenter.ts";
import { MeetingStore } from "../store.ts";
import type { ConsentRow, MeetingRow, MeetingTables, ParticipantRow, SegmentRow } from "../tables.ts";
import { MeetingImporter } from "./import.ts";
import type { ArchivedMeeting } from "./records.ts";
import { MeetingArchiveStore } from "./store.ts";
import { ImportedMeetingWriter } from "./writer.ts";

const BATCH = 200;

type Deps = {
  store: Store<MeetingTables>;
  clock: Clock;
  /** Media is sent through a server. */
  hasSfu: boolean;
};

export function meetingArchive({ store, clock, hasSfu }: Deps): ArchiveSection<Transaction<MeetingTables>> {
  const writer = new ImportedMeetingWriter(hasSfu);
  return {
    description: {
      exported:
        "meetings (`meeting`, `meeting_participant`, `meeting_consent`) and transcripts (`meeting_segment`); an " +
        "active meeting is exported as ended",
    },
    counts: {
      meetings: "Meetings",
      participants: "Participations in meetings; one for each time a participant joined",
      segments: "Segments of transcripts",
    },
    skipCodes: { unknown_meeting: "each_run", too_many_segments: "each_run" },
    async *exportOwn(tenantId, principalId) {
      const read = (last?: SegmentRow) =>
        new MeetingArchiveStore(store.db).spokenBy(tenantId, principalId, last?.id ?? "", BATCH);
      for await (const rows of paginate(BATCH, read)) {
        yield rows.map((row) => ({ type: "segment", meetingId: row.meeting_id, ...presentSegment(row) }));
      }
    },
    async *exportRoom(context, roomId) {
      const read = (last?: MeetingRow) =>
        new MeetingArchiveStore(store.db).meetings(context.tenantId, roomId, last?.id ?? "", BATCH);
      for await (const rows of paginate(BATCH, read)) {
        for (const row of rows) yield* exportMeeting(store, context, row, iso(clock.now()));
      }
    },
    createImporter: (context) => new MeetingImporter(context, writer),
  };
}

/** A meeting, then its participants, consents and transcript. */
async function* exportMeeting(
  { db }: Store<MeetingTables>,
  context: ExportContext,
  row: MeetingRow,
  now: string,
): AsyncGenerator<unknown[]> {
  const { id: meetingId, room_id: roomId } = row;
  const { tenantId } = context;
  const store = new MeetingArchiveStore(db);
  const meeting = toArchived(row, now);
  const { hostId, createdBy, agentIds, recording } = meeting;
  const requesters = recording === null ? [] : [recording.requestedBy];
  yield await context.principalRecords([hostId, createdBy, ...agentIds, ...requesters]);
  context.count("meetings", 1);
  yield [{ type: "meeting", ...meeting }];

  const participants = (last?: ParticipantRow) => store.participants(tenantId, meetingId, last?.id ?? "", BATCH);
  for await (const page of paginate(BATCH, participants)) {
    yield await context.principalRecords(page.map((participant) => participant.principal_id));
    context.count("participants", page.length);
    yield page.map((participant) => participantRecord(participant, roomId, now));
  }
  const consents = (last?: ConsentRow) => store.consents(tenantId, meetingId, last, BATCH);
  for await (const page of paginate(BATCH, consents)) {
    yield await context.principalRecords(page.map((consent) => consent.principal_id));
    yield page.map((consent) => ({
      type: "meeting_consent",
      roomId,
      meetingId,
      recordingId: consent.recording_id,
      principalId: consent.principal_id,
      givenAt: consent.given_at,
    }));
  }
  const segments = (last?: SegmentRow) =>
    new MeetingStore(db).segments(tenantId, meetingId, last && { startMs: last.start_ms, id: last.id }, BATCH);
  for await (const page of paginate(BATCH, segments)) {
    yield await context.principalRecords(page.flatMap((segment) => [segment.speaker_id, segment.posted_by]));
    context.count("segments", page.length);
    yield page.map((segment) => ({ type: "meeting_segment", roomId, meetingId, ...presentSegment(segment) }));
  }
}

function toArchived(row: MeetingRow, now: string) {
  const { participantCount: _count, waitingCount: _waiting, ringExpiresAt: _ring, ...meeting } = presentMeeting(
    row,
    [],
    [],
  );
  const recording = recordingOf(row);
  const isOn = row.state === "ringing" || row.state === "active";
  return {
    ...meeting,
    state: row.state === "scheduled" ? "scheduled" : "ended",
    ...isOn ? { endedAt: now, endReason: "ended" as const } : {},
    recording: recording === null ? null : toArchivedRecording(recording, now),
  };
}

function toArchivedRecording(
  { egressId: _egressId, ...recording }: StoredRecording,
  now: string,
): ArchivedMeeting["recording"] {
  const { state } = recording;
  if (state === "stopped" || state === "failed") return { ...recording, state };
  return { ...recording, state: "stopped", endedAt: now };
}

function participantRecord(row: ParticipantRow, roomId: string, now: string) {
  const { state, handRaisedAt: _hand, ...participant } = presentParticipant(row);
  const record = {
    type: "meeting_participant",
    roomId,
    ...participant,
    meetingId: row.meeting_id,
    createdAt: row.created_at,
  };
  return state === "left"
    ? { ...record, leftReason: row.left_reason }
    : { ...record, leftAt: now, leftReason: "ended" };
}
