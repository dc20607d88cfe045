// SQL of rooms on their way out of a gateway and into one: rooms, members and bans by id.
import type { Kysely } from "kysely";
import { queryInChunks } from "@/core/page.ts";
import { tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { Transaction } from "@/ports/store.ts";
import type { MemberRow, RoomRow, RoomTables } from "./store.ts";

type Db = Kysely<RoomTables>;

export class RoomArchiveStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Rooms of the tenant among these ids, deleted ones too. */
  rooms(tenantId: string, ids: readonly string[]): Promise<RoomRow[]> {
    return this.#db.selectFrom("room").selectAll().where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }

  /** Rooms in the order of their ids, without deleted ones. */
  roomsAfter(tenantId: string, after: string, limit: number): Promise<RoomRow[]> {
    return this.#db.selectFrom("room").selectAll().where("tenant_id", "=", tenantId).where("state", "<>", "deleted")
      .where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  members(tenantId: string, roomId: string): Promise<MemberRow[]> {
    return this.#db.selectFrom("member").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .orderBy("principal_id").execute();
  }

  /** Which of these principals are banned from a room. */
  async banned(tenantId: string, roomId: string, principalIds: readonly string[]): Promise<Set<string>> {
    const rows = await queryInChunks(
      principalIds,
      (some) =>
        this.#db.selectFrom("ban").select("principal_id").where("tenant_id", "=", tenantId)
          .where("room_id", "=", roomId).where("principal_id", "in", some).execute(),
    );
    return new Set(rows.map((row) => row.principal_id));
  }

  /** A room has a newer last message, if it is newer. */
  async touchRoom(tenantId: string, roomId: string, at: string): Promise<void> {
    await this.#db.updateTable("room").set({ last_message_at: at, active_at: at }).where("tenant_id", "=", tenantId)
      .where("id", "=", roomId)
      .where(({ eb, or }) => or([eb("last_message_at", "is", null), eb("last_message_at", "<", at)])).execute();
  }

  /** Moves members who had read everything up to `from` on to `to`; resolves to who they are. */
  async advanceReaders(tenantId: string, roomId: string, from: number, to: number): Promise<string[]> {
    const rows = await this.#db.updateTable("member").set({ last_read_seq: to }).where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("last_read_seq", ">=", from).returning("principal_id").execute();
    return rows.map((row) => row.principal_id);
  }
}

export async function addMembers(tx: Transaction<RoomTables>, rows: readonly MemberRow[]): Promise<void> {
  await tx.insertMany("member", rows);
}
