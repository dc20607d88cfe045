// Transcripts: who said what and when, told in segments by the speakers themselves or by whoever transcribes for them.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Store } from "@/ports/store.ts";
import type { HeldMeeting } from "./held.ts";
import type { MeetingKeeper } from "./keeper.ts";
import { presentSegment } from "./presenter.ts";
import { requireGrant, roleIn } from "./rights.ts";
import { SEGMENTS_MAX, type TranscriptAppend, type TranscriptList, type TranscriptSegment } from "./schema.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingTables, SegmentRow } from "./tables.ts";

type Deps = { store: Store<MeetingTables>; clock: Clock; cursors: Cursors; keeper: MeetingKeeper };

export class MeetingTranscripts {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Adds segments, also after the meeting: participants their own, moderators and granted agents those of all. */
  append(context: Context, { id, segments }: TranscriptAppend): Promise<TranscriptSegment[]> {
    const { actor } = context;
    return this.#deps.keeper.hold(context, id, async (held, entry) => {
      if (held.row.started_at === null) throw new Fault("conflict", "The meeting has not begun");
      const { tenant_id, id: meeting_id } = held.row;
      requireGrant(actor, held.row);
      const speakers = [...new Set(segments.map((segment) => segment.speakerId))];
      const isForOthers = speakers.some((speaker) => speaker !== actor.principalId);
      const mayForOthers = actor.kind === "agent" || roleIn(actor, held.row, entry, held.people) !== "participant";
      if (isForOthers && !mayForOthers) {
        throw new Fault("forbidden", "/segments: participants add their own words, moderators and agents those of all");
      }
      await checkSpeakers(held, speakers);
      if (await held.meetings.segmentCount(tenant_id, meeting_id) + segments.length > SEGMENTS_MAX) {
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
        created_at: iso(held.now),
      }));
      await held.meetings.addSegments(rows);
      return rows.map(presentSegment);
    });
  }

  /** A page of the transcript in the order it was spoken. */
  async list(context: Context, { id, limit, cursor }: TranscriptList): Promise<Page<TranscriptSegment>> {
    const { store, cursors, keeper } = this.#deps;
    const { row } = await keeper.find(context, id);
    const bind = ["meeting.transcript", row.tenant_id, context.actor.principalId, id];
    const key = cursors.open(cursor, bind);
    const after = key === undefined ? undefined : { startMs: Number(key[0]), id: String(key[1]) };
    const rows = await new MeetingStore(store.db).segments(row.tenant_id, id, after, limit + 1);
    return cursors.page(rows, limit, bind, (segment) => [segment.start_ms, segment.id], presentSegment);
  }
}

async function checkSpeakers(held: HeldMeeting, speakers: readonly string[]): Promise<void> {
  const known = await held.meetings.attendees(held.row.tenant_id, held.row.id, speakers);
  const strangers = speakers.filter((speaker) => !known.has(speaker));
  if (strangers.length === 0) return;
  throw new Fault("validation_failed", `/segments: ${strangers[0]} did not take part`, {
    errors: strangers.map((id) => ({
      pointer: "/segments",
      code: "not_in_meeting",
      detail: `${id} did not take part`,
    })),
  });
}
