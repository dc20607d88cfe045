// Meetings of an archive: those that are missing come in, some at a time, and of each who came and what was said.
import type { z } from "@zod/zod";
import { nextTurn } from "@/core/clock.ts";
import type { MeetingCarrier } from "@/modules/meeting/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { CarriedStore } from "./carried/store.ts";
import type { OwnRef, Refs } from "./draft.ts";
import type { Importer } from "./importer.ts";
import { hereOf, idsOf, takeId, takePartId } from "./places.ts";
import { ConsentLine, MeetingLine, ParticipantLine, SegmentLine } from "./meeting_line.ts";
import { type Here, readAs, type Section } from "./section.ts";
import { TransferStore, type TransferTables } from "./store.ts";

const BATCH = 100;
const SEGMENTS_BATCH = 500;

type Tx = Transaction<TransferTables>;
type Read<Schema extends z.ZodType> = { where: string; line: z.output<Schema> };
type Waiting = {
  meetings: Read<typeof MeetingLine>[];
  participants: Read<typeof ParticipantLine>[];
  consents: Read<typeof ConsentLine>[];
  segments: Read<typeof SegmentLine>[];
};

export class MeetingImport implements Section {
  readonly types = ["meeting", "meeting_participant", "meeting_consent", "meeting_segment"];
  readonly #importer: Importer;
  readonly #refs: Refs;
  readonly #carrier: MeetingCarrier;
  readonly #tenantId: string;
  #roomId = "";
  #waiting: Waiting = nothing();

  constructor(importer: Importer, refs: Refs, carrier: MeetingCarrier, tenantId: string) {
    this.#importer = importer;
    this.#refs = refs;
    this.#carrier = carrier;
    this.#tenantId = tenantId;
  }

  async take(type: string, value: unknown, where: string, here: Here | undefined): Promise<void> {
    const { meetings, participants, consents, segments } = this.#waiting;
    if (type === "meeting") this.#read(MeetingLine, value, where, here, meetings);
    else if (type === "meeting_participant") this.#read(ParticipantLine, value, where, here, participants);
    else if (type === "meeting_consent") this.#read(ConsentLine, value, where, here, consents);
    else if (type === "meeting_segment") this.#read(SegmentLine, value, where, here, segments);
    const count = meetings.length + participants.length + consents.length;
    if (count >= BATCH || segments.length >= SEGMENTS_BATCH) await this.flush();
  }

  async flush(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = nothing();
    const { meetings, participants, consents, segments } = waiting;
    if (meetings.length > 0) await this.#importer.write((tx) => this.#putMeetings(tx, meetings));
    if (participants.length + consents.length + segments.length === 0) return;
    await this.#importer.write((tx) => this.#putParts(tx, waiting));
    // Readers and writers of others get their turn between batches.
    await nextTurn();
  }

  /** Takes a line of the room that it stands in, if that is there. */
  #read<Schema extends z.ZodType<{ roomId: string }>>(
    schema: Schema,
    value: unknown,
    where: string,
    here: Here | undefined,
    into: Read<Schema>[],
  ): void {
    const { report } = this.#importer;
    const line = readAs(schema, value, where, report);
    if (line === undefined) return;
    if (here?.sourceId !== line.roomId) return report.skip("unknown_room", where);
    if (here.open === undefined) return;
    this.#roomId = here.open.id;
    into.push({ where, line });
  }

  async #putMeetings(tx: Tx, meetings: Waiting["meetings"]): Promise<void> {
    const { report, people, now } = this.#importer;
    const store = new TransferStore(tx.db);
    const refs = meetings.map(({ line }) => this.#refs.meeting(line.id));
    const there = new Set((await new CarriedStore(tx.db).meetings(this.#tenantId, refs.flatMap(idsOf))).keys());
    const elsewhere = await store.takenElsewhere(this.#tenantId, "meeting", refs.map(({ own }) => own));
    const fresh = meetings.flatMap(({ line }, at) => {
      const ref = refs[at];
      const id = ref === undefined ? undefined : takeId(ref, there, elsewhere);
      return id === undefined ? [] : [{ ...line, id }];
    });
    if (fresh.length === 0) return;
    const names = fresh.flatMap(({ hostId, createdBy, agentIds, recording }) => [
      hostId,
      createdBy,
      ...agentIds,
      ...recording === null ? [] : [recording.requestedBy],
    ]);
    await people.standIn(tx, names, now);
    await this.#carrier.put(tx, this.#tenantId, this.#roomId, fresh);
    report.added.meetings += fresh.length;
  }

  async #putParts(tx: Tx, { participants, consents, segments }: Waiting): Promise<void> {
    const { report, people, now } = this.#importer;
    const parts = [...participants, ...consents, ...segments];
    const ids = await this.#here(tx, parts.map(({ line }) => line.meetingId));
    for (const { where, line } of parts) if (!ids.has(line.meetingId)) report.skip("unknown_meeting", where);
    const came = await this.#missing(
      tx,
      "meeting_participant",
      participants,
      ids,
      this.#refs.participant.bind(this.#refs),
    );
    const said = await this.#missing(tx, "meeting_segment", segments, ids, this.#refs.segment.bind(this.#refs));
    const agreed = consents.flatMap(({ line }) => {
      const meetingId = ids.get(line.meetingId);
      return meetingId === undefined ? [] : [{ ...line, meetingId }];
    });
    await people.standIn(
      tx,
      [
        ...came.map(({ part }) => part.principalId),
        ...agreed.map(({ principalId }) => principalId),
        ...said.flatMap(({ part: { speakerId, postedBy } }) => [speakerId, postedBy]),
      ],
      now,
    );
    await this.#carrier.addParticipants(tx, this.#tenantId, this.#roomId, came.map(({ part }) => part));
    await this.#carrier.addConsents(tx, this.#tenantId, agreed);
    const rest = await this.#carrier.addSegments(tx, this.#tenantId, said.map(({ part }) => part));
    for (const { where, part } of said) if (rest.has(part.id)) report.skip("too_many_segments", where);
    report.added.participants += came.length;
    report.added.segments += said.length - rest.size;
  }

  /** Ids that meetings of the archive have in the room, by those that they have there; nobody changes them meanwhile. */
  async #here(tx: Tx, sourceIds: readonly string[]): Promise<Map<string, string>> {
    const refs = [...new Set(sourceIds)].map((id) => this.#refs.meeting(id));
    const held = await this.#carrier.hold(tx, this.#tenantId, this.#roomId, refs.flatMap(idsOf));
    return hereOf(refs, (id) => held.has(id));
  }

  /** Parts of meetings that are not there, each with the id that is free for it, and that of its meeting. */
  async #missing<Line extends { id: string; meetingId: string }>(
    tx: Tx,
    table: "meeting_participant" | "meeting_segment",
    parts: readonly { where: string; line: Line }[],
    meetingIds: ReadonlyMap<string, string>,
    refOf: (meetingId: string, id: string) => OwnRef,
  ): Promise<{ where: string; part: Line }[]> {
    const store = new TransferStore(tx.db);
    const known = parts.flatMap(({ where, line }) => {
      const meetingId = meetingIds.get(line.meetingId);
      return meetingId === undefined ? [] : [{ where, line, meetingId, ref: refOf(line.meetingId, line.id) }];
    });
    const ids = known.flatMap(({ ref }) => idsOf(ref));
    const places = await new CarriedStore(tx.db).meetingParts(this.#tenantId, table, ids);
    const elsewhere = await store.takenElsewhere(this.#tenantId, table, ids);
    return known.flatMap(({ where, line, meetingId, ref }) => {
      const id = takePartId(ref, meetingId, places, elsewhere);
      return id === undefined ? [] : [{ where, part: { ...line, id, meetingId } }];
    });
  }
}

function nothing(): Waiting {
  return { meetings: [], participants: [], consents: [], segments: [] };
}
