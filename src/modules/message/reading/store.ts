// SQL of read positions.
import type { Kysely } from "kysely";
import { type SeenRoom, seenRooms } from "@/modules/room/mod.ts";
import type { MessageTables } from "../store.ts";

type Who = { tenantId: string; principalId: string; ownerId: string };

export class ReadingStore {
  readonly #db: Kysely<MessageTables>;

  constructor(db: Kysely<MessageTables>) {
    this.#db = db;
  }

  /** Moves a read position forward; whether it moved. */
  async advance(tenantId: string, roomId: string, principalId: string, seq: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("member").set({ last_read_seq: seq })
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("principal_id", "=", principalId)
      .where("last_read_seq", "<", seq).executeTakeFirstOrThrow();
    return Number(numUpdatedRows) > 0;
  }

  /** The rooms somebody is a member of, or some of them, with where they have read to. */
  rooms(who: Who & { isOwned: boolean }, roomIds?: readonly string[]): Promise<SeenRoom[]> {
    let query = seenRooms(this.#db, who.principalId, who.ownerId)
      .where("room.tenant_id", "=", who.tenantId).where("room.state", "<>", "deleted")
      .where("me.role", "is not", null);
    if (who.isOwned) query = query.where("boss.role", "is not", null);
    if (roomIds !== undefined) query = query.where("room.id", "in", roomIds);
    return query.orderBy("room.id").execute();
  }
}
