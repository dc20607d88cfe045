// SQL of sync: rooms and positions of a principal in one statement, so that they are consistent on both engines.
import { type Kysely, sql } from "kysely";
import type { MessageTables } from "@/modules/message/mod.ts";
import { type NotificationTables, unreadNotifications } from "@/modules/notification/mod.ts";
import { roomsOfMember, type ViewedRoom } from "@/modules/room/mod.ts";

export type SyncTables = MessageTables & NotificationTables;

type Viewer = { tenantId: string; principalId: string; ownerId: string };

/** `own` is the head of the principal's stream. `rooms` includes deleted and hidden ones: they may be in a cursor. */
export type Snapshot = {
  own: { epoch: string; head: number } | undefined;
  unreadNotifications: number;
  rooms: ViewedRoom[];
};

export class SyncStore {
  readonly #db: Kysely<SyncTables>;

  constructor(db: Kysely<SyncTables>) {
    this.#db = db;
  }

  /** A consistent snapshot. */
  async readSnapshot(viewer: Viewer): Promise<Snapshot> {
    const inRooms = await this.#readOfMember(viewer);
    if (inRooms !== undefined) return inRooms;
    const own = await this.#db.selectFrom("stream").select(["epoch", "head"])
      .select(unreadNotifications(viewer).as("unread_notifications"))
      .where("tenant_id", "=", viewer.tenantId).where("name", "=", `principal:${viewer.principalId}`)
      .executeTakeFirst();
    // It may have joined its first room meanwhile; later deltas would not include that room.
    return await this.#readOfMember(viewer) ??
      { own, unreadNotifications: Number(own?.unread_notifications ?? 0), rooms: [] };
  }

  /** The same for a member of at least one room; otherwise `undefined`. */
  async #readOfMember(viewer: Viewer): Promise<Snapshot | undefined> {
    const own = sql<
      string
    >`stream.tenant_id = ${viewer.tenantId} and stream.name = ${`principal:${viewer.principalId}`}`;
    const rows = await roomsOfMember(this.#db, viewer)
      .select([
        sql<string | null>`(select stream.epoch from stream where ${own})`.as("own_epoch"),
        sql<number | null>`(select stream.head from stream where ${own})`.as("own_head"),
        unreadNotifications(viewer).as("unread_notifications"),
      ])
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
