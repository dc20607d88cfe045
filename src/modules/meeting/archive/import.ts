// Imports the meetings of an archive in batches: those that are missing, with their participants and transcripts.
import type { z } from "@zod/zod";
import {
  handleRoomRecord,
  type ImportContext,
  type RecordHandler,
  type SectionImporter,
} from "@/core/archive/section.ts";
import { allocatePartId, candidateIds, mapExisting, type OriginalRef } from "@/core/archive/ids.ts";
import { nextSlice } from "@/core/caller.ts";
import type { AnyDatabase } from "@/core/migration.ts";
import { idsOfOtherTenants, loadLocalIds, readColumnById } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import type { MeetingTables } from "../tables.ts";
import { ConsentRecord, MeetingRecord, ParticipantRecord, SegmentRecord } from "./records.ts";
import type { ImportedMeetingWriter } from "./writer.ts";

const BATCH = 100;
const SEGMENTS_BATCH = 500;

type Tx = Transaction<MeetingTables>;
type ParsedRecord<Schema extends z.ZodType> = { where: string; record: z.output<Schema> };
type PendingRecords = {
  meetings: ParsedRecord<typeof MeetingRecord>[];
  participants: ParsedRecord<typeof ParticipantRecord>[];
  consents: ParsedRecord<typeof ConsentRecord>[];
  segments: ParsedRecord<typeof SegmentRecord>[];
};

/** The ids that a meeting of an archive may have here. */
function refOf(context: Pick<ImportContext<Tx>, "refOf">, sourceId: string): OriginalRef {
  return context.refOf("mtg", sourceId);
}

/** Meetings that exist here, by their ids in an archive. */
export async function locateImportedMeetings(
  context: Pick<ImportContext<Tx>, "tenantId" | "refOf">,
  db: AnyDatabase,
  sourceIds: readonly string[],
): Promise<Map<string, { id: string; roomId: string }[]>> {
  const refs = [...new Set(sourceIds)].map((id) => refOf(context, id));
  const rooms = await readColumnById(db, "meeting", "room_id", context.tenantId, refs.flatMap(candidateIds));
  return new Map(refs.map((ref) => {
    const ids = candidateIds(ref).map((id) => ({ id, roomId: rooms.get(id) ?? "" }));
    return [ref.original, ids.filter(({ id }) => rooms.has(id))];
  }));
}

export class MeetingImporter implements SectionImporter {
  readonly records: Readonly<Record<string, RecordHandler>>;
  readonly #context: ImportContext<Tx>;
  readonly #writer: ImportedMeetingWriter;
  #roomId = "";
  #pending: PendingRecords = noPending();

  constructor(context: ImportContext<Tx>, writer: ImportedMeetingWriter) {
    this.#context = context;
    this.#writer = writer;
    this.records = {
      meeting: this.#handler(MeetingRecord, "meetings"),
      meeting_participant: this.#handler(ParticipantRecord, "participants"),
      meeting_consent: this.#handler(ConsentRecord, "consents"),
      meeting_segment: this.#handler(SegmentRecord, "segments"),
    };
  }

  async flush(): Promise<void> {
    const waiting = this.#pending;
    this.#pending = noPending();
    const { meetings, participants, consents, segments } = waiting;
    if (meetings.length > 0) await this.#context.write((tx) => this.#importMeetings(tx, meetings));
    if (participants.length + consents.length + segments.length === 0) return;
    await this.#context.write((tx) => this.#importParts(tx, waiting));
    // Other readers and writers run between batches.
    await nextSlice();
  }

  #handler<Schema extends z.ZodType<{ roomId: string }>>(schema: Schema, kind: keyof PendingRecords): RecordHandler {
    return handleRoomRecord(this.#context, schema, async (record, where, roomId) => {
      this.#roomId = roomId;
      const list: ParsedRecord<z.ZodType>[] = this.#pending[kind];
      list.push({ where, record });
      const { meetings, participants, consents, segments } = this.#pending;
      const count = meetings.length + participants.length + consents.length;
      if (count >= BATCH || segments.length >= SEGMENTS_BATCH) await this.flush();
    });
  }

  async #importMeetings(tx: Tx, meetings: PendingRecords["meetings"]): Promise<void> {
    const { tenantId, report } = this.#context;
    const refs = meetings.map(({ record }) => refOf(this.#context, record.id));
    const ids = await loadLocalIds(tx.db, "meeting", tenantId, refs);
    const fresh = meetings.flatMap(({ record }) => {
      const id = ids.allocate(refOf(this.#context, record.id));
      return id === undefined ? [] : [{ ...record, id }];
    });
    if (fresh.length === 0) return;
    const names = fresh.flatMap(({ hostId, createdBy, agentIds, recording }) => [
      hostId,
      createdBy,
      ...agentIds,
      ...recording === null ? [] : [recording.requestedBy],
    ]);
    await this.#context.createPlaceholders(tx, names);
    await this.#writer.importMeetings(tx, tenantId, this.#roomId, fresh);
    report.count("meetings", fresh.length);
  }

  async #importParts(tx: Tx, pending: PendingRecords): Promise<void> {
    const { tenantId, report } = this.#context;
    const parts = [...pending.participants, ...pending.consents, ...pending.segments];
    const ids = await this.#lockMeetings(tx, parts.map(({ record }) => record.meetingId));
    for (const { where, record } of parts) if (!ids.has(record.meetingId)) report.skip("unknown_meeting", where);
    const participants = await this.#missing(tx, "meeting_participant", "part", pending.participants, ids);
    const segments = await this.#missing(tx, "meeting_segment", "seg", pending.segments, ids);
    const consents = pending.consents.flatMap(({ record }) => {
      const meetingId = ids.get(record.meetingId);
      return meetingId === undefined ? [] : [{ ...record, meetingId }];
    });
    await this.#context.createPlaceholders(tx, [
      ...participants.map(({ part }) => part.principalId),
      ...consents.map(({ principalId }) => principalId),
      ...segments.flatMap(({ part: { speakerId, postedBy } }) => [speakerId, postedBy]),
    ]);
    await this.#writer.importParticipants(tx, tenantId, this.#roomId, participants.map(({ part }) => part));
    await this.#writer.importConsents(tx, tenantId, consents);
    const rest = await this.#writer.importSegments(tx, tenantId, segments.map(({ part }) => part));
    for (const { where, part } of segments) if (rest.has(part.id)) report.skip("too_many_segments", where);
    report.count("participants", participants.length);
    report.count("segments", segments.length - rest.size);
  }

  /** Locks meetings of the room; resolves to their ids here by those in the archive. */
  async #lockMeetings(tx: Tx, sourceIds: readonly string[]): Promise<Map<string, string>> {
    const refs = [...new Set(sourceIds)].map((id) => refOf(this.#context, id));
    const { tenantId } = this.#context;
    const locked = await this.#writer.lockMeetings(tx, tenantId, this.#roomId, refs.flatMap(candidateIds));
    return mapExisting(refs, (id) => locked.has(id));
  }

  /** Parts of meetings that do not exist, each with a free id, and that of its meeting. */
  async #missing<Part extends { id: string; meetingId: string }>(
    tx: Tx,
    table: "meeting_participant" | "meeting_segment",
    idPrefix: string,
    parts: readonly { where: string; record: Part }[],
    meetingIds: ReadonlyMap<string, string>,
  ): Promise<{ where: string; part: Part }[]> {
    const { tenantId } = this.#context;
    const known = parts.flatMap(({ where, record }) => {
      const meetingId = meetingIds.get(record.meetingId);
      const ref = this.#context.refOf(idPrefix, record.id, record.meetingId);
      return meetingId === undefined ? [] : [{ where, record, meetingId, ref }];
    });
    const ids = known.flatMap(({ ref }) => candidateIds(ref));
    const containers = await readColumnById(tx.db, table, "meeting_id", tenantId, ids);
    const taken = await idsOfOtherTenants(tx.db, table, tenantId, ids);
    return known.flatMap(({ where, record, meetingId, ref }) => {
      const id = allocatePartId(ref, meetingId, containers, taken);
      return id === undefined ? [] : [{ where, part: { ...record, id, meetingId } }];
    });
  }
}

function noPending(): PendingRecords {
  return { meetings: [], participants: [], consents: [], segments: [] };
}
