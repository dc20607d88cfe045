// SQL of sync: rooms, positions and counts of one principal in one statement, so that they are of one moment on both engines.
import { type Kysely, sql } from "kysely";
import { mentionsOf, type MessageTables, unreadOf } from "@/modules/message/mod.ts";
import type { NotificationTables } from "@/modules/notification/mod.ts";
import { type SeenRoom, seenRooms, unreadFrom } from "@/modules/room/mod.ts";

export type SyncTables = MessageTables & NotificationTables;

type Who = { tenantId: string; principalId: string; ownerId: string };

/** A room with what is unread there; `null` where it was not asked for. */
export type RoomNow = SeenRoom & { unread: number | null; mentions: number | null };

/** `own` is where the principal's stream stands. Rooms deleted or hidden are among them: they may have been seen before. */
export type Now = {
  own: { epoch: string; head: number } | undefined;
  unreadNotifications: number;
  rooms: RoomNow[];
};

export class SyncStore {
  readonly #db: Kysely<SyncTables>;

  constructor(db: Kysely<SyncTables>) {
    this.#db = db;
  }

  /** Everything at one moment; counts only of the rooms in `counted`, or of all. */
  async now(who: Who, counted: ReadonlySet<string> | "all"): Promise<Now> {
    const own = sql<string>`stream.tenant_id = ${who.tenantId} and stream.name = ${`principal:${who.principalId}`}`;
    const unreadNotifications = sql<number>`(select count(*) from notification
      where notification.tenant_id = ${who.tenantId} and notification.principal_id = ${who.principalId}
        and notification.read_at is null)`;
    const mine = {
      tenantId: sql.ref("room.tenant_id"),
      roomId: sql.ref("room.id"),
      principalId: who.principalId,
      after: unreadFrom,
    };
    const isCounted = counted === "all"
      ? sql`true`
      : counted.size === 0
      ? sql`false`
      : sql`room.id in (${sql.join([...counted])})`;
    const rows = await seenRooms(this.#db, who.principalId, who.ownerId)
      .select([
        sql<string | null>`(select stream.epoch from stream where ${own})`.as("own_epoch"),
        sql<number | null>`(select stream.head from stream where ${own})`.as("own_head"),
        unreadNotifications.as("unread_notifications"),
        sql<number | null>`case when ${isCounted} then ${unreadOf(mine)} end`.as("unread"),
        sql<number | null>`case when ${isCounted} then ${mentionsOf(mine)} end`.as("mentions"),
      ])
      .where("room.tenant_id", "=", who.tenantId).where("me.role", "is not", null)
      .orderBy("room.active_at", "desc").orderBy("room.id", "desc").execute();
    const [first] = rows;
    if (first !== undefined) {
      const { own_epoch: epoch, own_head: head } = first;
      return {
        own: epoch === null || head === null ? undefined : { epoch, head },
        unreadNotifications: Number(first.unread_notifications),
        rooms: rows.map((row) => ({
          ...row,
          unread: row.unread === null ? null : Number(row.unread),
          mentions: row.mentions === null ? null : Number(row.mentions),
        })),
      };
    }
    const alone = await this.#db.selectFrom("stream").select(["epoch", "head"])
      .select(unreadNotifications.as("unread_notifications"))
      .where("tenant_id", "=", who.tenantId).where("name", "=", `principal:${who.principalId}`).executeTakeFirst();
    return { own: alone, unreadNotifications: Number(alone?.unread_notifications ?? 0), rooms: [] };
  }
}
