// SQL of sync: rooms and positions of one principal in one statement, so that they are of one moment on both engines.
import { type Kysely, type RawBuilder, sql } from "kysely";
import type { MessageTables } from "@/modules/message/mod.ts";
import type { NotificationTables } from "@/modules/notification/mod.ts";
import { type SeenRoom, seenRooms } from "@/modules/room/mod.ts";

export type SyncTables = MessageTables & NotificationTables;

type Who = { tenantId: string; principalId: string; ownerId: string };

/** `own` is where the principal's stream stands. Rooms deleted or hidden are among them: they may have been seen before. */
export type Now = {
  own: { epoch: string; head: number } | undefined;
  unreadNotifications: number;
  rooms: SeenRoom[];
};

export class SyncStore {
  readonly #db: Kysely<SyncTables>;

  constructor(db: Kysely<SyncTables>) {
    this.#db = db;
  }

  /** Everything at one moment. */
  async now(who: Who): Promise<Now> {
    const inRooms = await this.#inRooms(who);
    if (inRooms !== undefined) return inRooms;
    const own = await this.#db.selectFrom("stream").select(["epoch", "head"])
      .select(unreadNotifications(who).as("unread_notifications"))
      .where("tenant_id", "=", who.tenantId).where("name", "=", `principal:${who.principalId}`).executeTakeFirst();
    // It may have come into its first room meanwhile, of which nobody would tell it beyond this position.
    return await this.#inRooms(who) ??
      { own, unreadNotifications: Number(own?.unread_notifications ?? 0), rooms: [] };
  }

  /** The same of somebody who is in a room. */
  async #inRooms(who: Who): Promise<Now | undefined> {
    const own = sql<string>`stream.tenant_id = ${who.tenantId} and stream.name = ${`principal:${who.principalId}`}`;
    const rows = await seenRooms(this.#db, who.principalId, who.ownerId)
      .select([
        sql<string | null>`(select stream.epoch from stream where ${own})`.as("own_epoch"),
        sql<number | null>`(select stream.head from stream where ${own})`.as("own_head"),
        unreadNotifications(who).as("unread_notifications"),
      ])
      .where("room.tenant_id", "=", who.tenantId).where("me.role", "is not", null)
      .orderBy("room.active_at", "desc").orderBy("room.id", "desc").execute();
    const [first] = rows;
    if (first === undefined) return undefined;
    const { own_epoch: epoch, own_head: head } = first;
    return {
      own: epoch === null || head === null ? undefined : { epoch, head },
      unreadNotifications: Number(first.unread_notifications),
      rooms: rows,
    };
  }
}

function unreadNotifications({ tenantId, principalId }: Who): RawBuilder<number> {
  return sql<number>`(select count(*) from notification
    where notification.tenant_id = ${tenantId} and notification.principal_id = ${principalId}
      and notification.read_at is null)`;
}
