// SQL of meetings on their way out of a gateway and into one: a room's meetings with what hangs on them, page by page.
import type { Kysely } from "kysely";
import { orderedAfter } from "@/ports/sql/filters.ts";
import type { ConsentRow, MeetingRow, MeetingTables, ParticipantRow, SegmentRow } from "../tables.ts";

type Db = Kysely<MeetingTables>;

export class MeetingArchiveStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** What a principal said in any meetings, by id. */
  spokenBy(tenantId: string, speakerId: string, after: string, limit: number): Promise<SegmentRow[]> {
    return this.#db.selectFrom("meeting_segment").selectAll().where("tenant_id", "=", tenantId)
      .where("speaker_id", "=", speakerId).where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  meetings(tenantId: string, roomId: string, after: string, limit: number): Promise<MeetingRow[]> {
    return this.#db.selectFrom("meeting").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  /** Everybody who ever came to a meeting, by id. */
  participants(tenantId: string, meetingId: string, after: string, limit: number): Promise<ParticipantRow[]> {
    return this.#db.selectFrom("meeting_participant").selectAll().where("tenant_id", "=", tenantId)
      .where("meeting_id", "=", meetingId).where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  /** Who agreed to which recording of a meeting. */
  consents(
    tenantId: string,
    meetingId: string,
    after: Pick<ConsentRow, "recording_id" | "principal_id"> | undefined,
    limit: number,
  ): Promise<ConsentRow[]> {
    const consents = this.#db.selectFrom("meeting_consent").selectAll().where("tenant_id", "=", tenantId)
      .where("meeting_id", "=", meetingId);
    const position = after && [after.recording_id, after.principal_id];
    return orderedAfter(consents, ["recording_id", "principal_id"], position).limit(limit).execute();
  }

  /** Adds those of these consents that are not there. */
  async addConsents(rows: readonly ConsentRow[]): Promise<void> {
    if (rows.length === 0) return;
    await this.#db.insertInto("meeting_consent").values(rows).onConflict((conflict) => conflict.doNothing()).execute();
  }
}
