// SQL of read positions. Position, head and counts come from one statement, so they fit together.
import { type Kysely, sql } from "kysely";
import { seenRooms, unreadFrom } from "@/modules/room/mod.ts";
import { mentionsOf, type MessageTables, unreadOf } from "../store.ts";
import type { Unread } from "./schema.ts";

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

  /** What is unread in the rooms somebody is a member of, or in some of them. */
  async unreads(who: Who & { isOwned: boolean }, roomIds?: readonly string[]): Promise<Unread[]> {
    if (roomIds?.length === 0) return [];
    const mine = {
      tenantId: sql.ref("room.tenant_id"),
      roomId: sql.ref("room.id"),
      principalId: who.principalId,
      after: unreadFrom,
    };
    let query = seenRooms(this.#db, who.principalId, who.ownerId).clearSelect()
      .select(["room.id", "me.last_read_seq", "stream.head"])
      .select([unreadOf(mine).as("unread"), mentionsOf(mine).as("mentions")])
      .where("room.tenant_id", "=", who.tenantId).where("room.state", "<>", "deleted")
      .where("me.role", "is not", null);
    if (who.isOwned) query = query.where("boss.role", "is not", null);
    if (roomIds !== undefined) query = query.where("room.id", "in", roomIds);
    const rows = await query.orderBy("room.id").execute();
    return rows.map((row) => ({
      roomId: row.id,
      lastReadSeq: row.last_read_seq ?? 0,
      unreadCount: Number(row.unread),
      mentionCount: Number(row.mentions),
      lastSeq: row.head ?? 0,
    }));
  }
}
