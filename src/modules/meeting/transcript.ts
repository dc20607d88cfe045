// Transcripts: who said what and when, in segments that speakers, moderators or agents add.
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Store } from "@/ports/store.ts";
import type { LockedMeeting } from "./locked_meeting.ts";
import type { MeetingManager } from "./meeting_manager.ts";
import { presentSegment } from "./presenter.ts";
import { assertGrant, roleIn } from "./roles.ts";
import { SEGMENTS_MAX, type TranscriptAppend, type TranscriptList, type TranscriptSegment } from "./schema.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingTables, SegmentRow } from "./tables.ts";

type Deps = { store: Store<MeetingTables>; clock: Clock; cursors: Cursors; manager: MeetingManager };

export class MeetingTranscripts {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Adds segments, also after the meeting: participants their own; moderators and granted agents those of all. */
  append(context: Context, { id, segments }: TranscriptAppend): Promise<TranscriptSegment[]> {
    const { actor } = context;
    return this.#deps.manager.withLock(context, id, async (meeting, grant) => {
      if (meeting.row.started_at === null) throw new Fault("conflict", "The meeting has not started");
      const { tenant_id, id: meeting_id } = meeting.row;
      assertGrant(actor, meeting.row);
      const speakers = [...new Set(segments.map((segment) => segment.speakerId))];
      const isForOthers = speakers.some((speaker) => speaker !== actor.principalId);
      const mayForOthers = actor.kind === "agent" ||
        roleIn(actor, meeting.row, grant, meeting.participants) !== "participant";
      if (isForOthers && !mayForOthers) {
        throw new Fault(
          "forbidden",
          "/segments: participants can add segments of their own; moderators and agents those of all",
        );
      }
      await assertSpeakers(meeting, speakers);
      if (await meeting.store.segmentCount(tenant_id, meeting_id) + segments.length > SEGMENTS_MAX) {
        throw new Fault("payload_too_large", `A transcript has at most ${SEGMENTS_MAX} segments`);
      }
      const rows = segments.map((segment): SegmentRow => ({
        tenant_id,
        id: newId("seg"),
        meeting_id,
        start_ms: segment.startMs,
        end_ms: segment.endMs,
        speaker_id: segment.speakerId,
        text: segment.text,
        posted_by: actor.principalId,
        created_at: iso(meeting.now),
      }));
      await meeting.store.addSegments(rows);
      return rows.map(presentSegment);
    });
  }

  /** A page of the transcript, by start. */
  async list(context: Context, { id, limit, cursor }: TranscriptList): Promise<Page<TranscriptSegment>> {
    const { store, cursors, manager } = this.#deps;
    const { row } = await manager.findAuthorized(context, id);
    const bind = ["meeting.transcript", row.tenant_id, context.actor.principalId, id];
    const key = cursors.decode(cursor, bind);
    const after = key === undefined ? undefined : { startMs: Number(key[0]), id: String(key[1]) };
    const rows = await new MeetingStore(store.db).segments(row.tenant_id, id, after, limit + 1);
    return cursors.page(rows, limit, bind, (segment) => [segment.start_ms, segment.id], presentSegment);
  }
}

async function assertSpeakers(meeting: LockedMeeting, speakers: readonly string[]): Promise<void> {
  const attendees = await meeting.store.attendees(meeting.row.tenant_id, meeting.row.id, speakers);
  const unknown = speakers.filter((speaker) => !attendees.has(speaker));
  if (unknown.length === 0) return;
  throw Fault.forFields(
    unknown.map((id) => ({ pointer: "/segments", code: "not_in_meeting", detail: `${id} was not a participant` })),
  );
}
