// SQL of meetings, their participants, consents and transcripts.
import { type Kysely, sql, type SqlBool } from "kysely";
import type { Reader } from "@/modules/room/mod.ts";
import { deleteSome } from "@/ports/sql/deletion.ts";
import { inList, orderedAfter, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { ConsentRow, MeetingRow, MeetingTables, ParticipantRow, SegmentRow } from "./tables.ts";

type Db = Kysely<MeetingTables>;

const byId = prepared((db: Db, value: Param<{ tenantId: string; id: string }>) =>
  db.selectFrom("meeting").selectAll().where("tenant_id", "=", value("tenantId")).where("id", "=", value("id"))
);
const currentParticipantsQuery = prepared((db: Db, value: Param<{ tenantId: string; meetingId: string }>) =>
  db.selectFrom("meeting_participant").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("meeting_id", "=", value("meetingId")).where("state", "<>", sql.lit("left" as const)).orderBy("id")
);

export class MeetingStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<MeetingRow | undefined> {
    return byId.first(this.#db, { tenantId, id });
  }

  /** Locks the row until the transaction ends, and reads it under the lock. */
  lock(tenantId: string, id: string): Promise<MeetingRow | undefined> {
    return this.#db.updateTable("meeting").set((eb) => ({ version: eb.ref("version") }))
      .where("tenant_id", "=", tenantId).where("id", "=", id).returningAll().executeTakeFirst();
  }

  findOpen(tenantId: string, roomId: string): Promise<MeetingRow | undefined> {
    return this.#db.selectFrom("meeting").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("is_open", "=", 1).executeTakeFirst();
  }

  async add(row: MeetingRow): Promise<void> {
    await this.#db.insertInto("meeting").values(row).execute();
  }

  async update(tenantId: string, id: string, set: Partial<MeetingRow>): Promise<void> {
    await this.#db.updateTable("meeting").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Newest first, in one room or in all that the reader is a member of. */
  list(
    tenantId: string,
    reader: Reader,
    filter: { roomId?: string | undefined; state?: readonly MeetingRow["state"][] | undefined },
    before: string | undefined,
    limit: number,
  ): Promise<MeetingRow[]> {
    let query = this.#db.selectFrom("meeting").selectAll("meeting").where("meeting.tenant_id", "=", tenantId);
    if (filter.roomId === undefined) {
      query = query.innerJoin(
        "room",
        (join) => join.onRef("room.id", "=", "meeting.room_id").onRef("room.tenant_id", "=", "meeting.tenant_id"),
      )
        .where("room.state", "<>", sql.lit("deleted"))
        .where(({ exists, selectFrom }) =>
          exists(
            selectFrom("member").select("member.role").whereRef("member.room_id", "=", "meeting.room_id")
              .where("member.tenant_id", "=", tenantId).where("member.principal_id", "=", reader.principalId),
          )
        );
      if (reader.isOwned) {
        query = query.where(({ exists, selectFrom }) =>
          exists(
            selectFrom("member").select("member.role").whereRef("member.room_id", "=", "meeting.room_id")
              .where("member.tenant_id", "=", tenantId).where("member.principal_id", "=", reader.ownerId),
          )
        );
      }
      if (reader.roomIds !== undefined) query = query.where("meeting.room_id", "in", [...reader.roomIds, ""]);
    } else query = query.where("meeting.room_id", "=", filter.roomId);
    if (filter.state !== undefined && filter.state.length > 0) query = query.where("meeting.state", "in", filter.state);
    if (before !== undefined) query = query.where("meeting.id", "<", before);
    return query.orderBy("meeting.id", "desc").limit(limit).execute();
  }

  /** Participants who have not left, in the order of joining. */
  currentParticipants(tenantId: string, meetingId: string): Promise<ParticipantRow[]> {
    return currentParticipantsQuery.all(this.#db, { tenantId, meetingId });
  }

  /** The same for many meetings at once. */
  async currentParticipantsOf(tenantId: string, meetingIds: readonly string[]): Promise<ParticipantRow[]> {
    if (meetingIds.length === 0) return [];
    return await this.#db.selectFrom("meeting_participant").selectAll().where("tenant_id", "=", tenantId)
      .where("meeting_id", "in", meetingIds).where("state", "<>", sql.lit("left")).orderBy("id").execute();
  }

  async addParticipant(row: ParticipantRow): Promise<void> {
    await this.#db.insertInto("meeting_participant").values(row).execute();
  }

  async updateParticipant(tenantId: string, id: string, set: Partial<ParticipantRow>): Promise<void> {
    await this.#db.updateTable("meeting_participant").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  /** Renews a lease; `undefined` if it has expired. */
  renew(
    tenantId: string,
    meetingId: string,
    id: string,
    principalId: string,
    { now, until }: { now: string; until: string },
  ): Promise<ParticipantRow | undefined> {
    return this.#db.updateTable("meeting_participant").set({ lease_expires_at: until })
      .where("tenant_id", "=", tenantId).where("meeting_id", "=", meetingId).where("id", "=", id)
      .where("principal_id", "=", principalId).where("state", "<>", sql.lit("left")).where("lease_expires_at", ">", now)
      .returningAll().executeTakeFirst();
  }

  /** Whether the principal was ever removed from the meeting. */
  async wasRemoved(tenantId: string, meetingId: string, principalId: string): Promise<boolean> {
    const row = await this.#db.selectFrom("meeting_participant").select("id").where("tenant_id", "=", tenantId)
      .where("meeting_id", "=", meetingId).where("principal_id", "=", principalId).where("left_reason", "=", "removed")
      .limit(1).executeTakeFirst();
    return row !== undefined;
  }

  /** Of these principals, those who ever joined. */
  async attendees(tenantId: string, meetingId: string, principalIds: readonly string[]): Promise<Set<string>> {
    const rows = await this.#db.selectFrom("meeting_participant").select("principal_id").distinct()
      .where("tenant_id", "=", tenantId).where("meeting_id", "=", meetingId).where("principal_id", "in", principalIds)
      .where("joined_at", "is not", null).execute();
    return new Set(rows.map((row) => row.principal_id));
  }

  /** Rooms with a meeting that these principals have joined or wait for. */
  async roomsWith(tenantId: string, principalIds: readonly string[]): Promise<string[]> {
    const rows = await this.#db.selectFrom("meeting_participant").select("room_id").distinct()
      .where("tenant_id", "=", tenantId).where("principal_id", "in", principalIds).where("state", "<>", sql.lit("left"))
      .execute();
    return rows.map((row) => row.room_id);
  }

  async addConsent(row: ConsentRow): Promise<void> {
    await this.#db.insertInto("meeting_consent").values(row).onConflict((conflict) => conflict.doNothing()).execute();
  }

  async consentedIds(tenantId: string, meetingId: string, recordingId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("meeting_consent").select("principal_id").where("tenant_id", "=", tenantId)
      .where("meeting_id", "=", meetingId).where("recording_id", "=", recordingId).orderBy("principal_id").execute();
    return rows.map((row) => row.principal_id);
  }

  async addSegments(rows: readonly SegmentRow[]): Promise<void> {
    await this.#db.insertInto("meeting_segment").values(rows).execute();
  }

  async segmentCount(tenantId: string, meetingId: string): Promise<number> {
    const row = await this.#db.selectFrom("meeting_segment").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("meeting_id", "=", meetingId).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  segments(
    tenantId: string,
    meetingId: string,
    after: { startMs: number; id: string } | undefined,
    limit: number,
  ): Promise<SegmentRow[]> {
    const segments = this.#db.selectFrom("meeting_segment").selectAll().where("tenant_id", "=", tenantId)
      .where("meeting_id", "=", meetingId);
    return orderedAfter(segments, ["start_ms", "id"], after && [after.startMs, after.id]).limit(limit).execute();
  }

  async idsIn(tenantId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("meeting").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).limit(limit).execute();
    return rows.map((row) => row.id);
  }

  /** Deletes some of the transcripts of meetings; returns whether there may be more. */
  removeSegments(tenantId: string, ids: readonly string[]): Promise<boolean> {
    const ofThese = sql<SqlBool>`tenant_id = ${tenantId} and ${inList(this.#db, "meeting_id", ids)}`;
    return deleteSome(this.#db, "meeting_segment", ofThese);
  }

  /** Deletes meetings with their dependents. */
  async purge(tenantId: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const table of ["meeting_segment", "meeting_consent", "meeting_participant"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("meeting_id", "in", ids).execute();
    }
    await this.#db.deleteFrom("meeting").where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }
}
