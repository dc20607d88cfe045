// SQL of what all readers of a room can see.
import { type Kysely, sql, type SqlBool } from "kysely";
import type { RoomRole } from "@/core/actor.ts";
import type { RoomRow, RoomTables } from "./tables.ts";

export type CandidateRoom = Pick<RoomRow, "id" | "history_visibility" | "visibility">;

export class AudienceStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  /** Rooms of a principal that every reader of `readersOf` can see. */
  async seenByAll(tenantId: string, readersOf: string, principalId: string): Promise<CandidateRoom[]> {
    return await this.#rooms(tenantId, readersOf)
      .innerJoin(
        "member as own",
        (join) =>
          join.onRef("own.room_id", "=", "room.id").onRef("own.tenant_id", "=", "room.tenant_id")
            .on("own.principal_id", "=", principalId),
      ).execute();
  }

  /** Those of these rooms that every reader of `readersOf` can see. */
  async filterSeenByAll(tenantId: string, readersOf: string, roomIds: readonly string[]): Promise<CandidateRoom[]> {
    return await this.#rooms(tenantId, readersOf).where("room.id", "in", roomIds).execute();
  }

  /** The latest position at which a member of `readersOf` joined a room. */
  async latestJoin(tenantId: string, readersOf: string, roomId: string): Promise<number> {
    const row = await this.#db.selectFrom("member as reader")
      .leftJoin(
        "member as also",
        (join) =>
          join.onRef("also.principal_id", "=", "reader.principal_id").on("also.room_id", "=", roomId)
            .onRef("also.tenant_id", "=", "reader.tenant_id"),
      )
      .select(({ fn }) => [
        fn.countAll<number>().as("readers"),
        fn.count<number>("also.principal_id").as("members"),
        fn.max("also.joined_seq").as("joinedSeq"),
      ])
      .where("reader.tenant_id", "=", tenantId).where("reader.room_id", "=", readersOf).executeTakeFirstOrThrow();
    // A reader that is not a member has never joined.
    const isHidden = Number(row.members) < Number(row.readers);
    return isHidden ? Number.MAX_SAFE_INTEGER : Number(row.joinedSeq ?? 0);
  }

  /** Roles of these principals in these rooms, where they are members. */
  async roles(
    tenantId: string,
    roomIds: readonly string[],
    principalIds: readonly string[],
  ): Promise<{ room_id: string; principal_id: string; role: RoomRole }[]> {
    if (roomIds.length === 0 || principalIds.length === 0) return [];
    return await this.#db.selectFrom("member").select(["room_id", "principal_id", "role"])
      .where("tenant_id", "=", tenantId).where("principal_id", "in", principalIds).where("room_id", "in", roomIds)
      .execute();
  }

  /**
   * Guests and agents do not browse public rooms; all others may read what is said in one. The return type is inferred: it is a
   * query under construction.
   */
  #rooms(tenantId: string, readersOf: string) {
    return this.#db.selectFrom("room").select(["room.id", "room.history_visibility", "room.visibility"])
      .where("room.tenant_id", "=", tenantId).where("room.state", "<>", sql.lit("deleted"))
      .where(sql<SqlBool>`not exists (
        select 1 from member as reader
        join principal on principal.tenant_id = reader.tenant_id and principal.id = reader.principal_id
        where reader.tenant_id = ${tenantId} and reader.room_id = ${readersOf}
          and not exists (select 1 from member as also where also.tenant_id = reader.tenant_id
            and also.room_id = room.id and also.principal_id = reader.principal_id)
          and not (room.visibility = 'public' and principal.role <> 'guest' and principal.kind <> 'agent'))`)
      .where(sql<SqlBool>`(room.visibility = 'public' or room.id = ${readersOf} or not exists (
        select 1 from room as home where home.tenant_id = ${tenantId} and home.id = ${readersOf}
          and home.visibility = 'public'))`);
  }
}
