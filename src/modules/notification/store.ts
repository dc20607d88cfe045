// SQL of notifications.
import { type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import { inJsonList, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { PrincipalKind } from "@/core/actor.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";

export type NotificationRow = {
  tenant_id: string;
  id: string;
  principal_id: string;
  kind: string;
  actor_id: string | null;
  actor_kind: PrincipalKind | null;
  room_id: string | null;
  message_id: string | null;
  seq: number | null;
  resource_type: string | null;
  resource_id: string | null;
  title: string | null;
  data_json: string;
  /** What caused it; unique per principal, so that a repeated job creates nothing twice. */
  source: string | null;
  read_at: string | null;
  version: number;
  created_at: string;
  agent_hops: number;
};

export type NotificationTables = { notification: NotificationRow };

type Db = Kysely<NotificationTables>;

/** How many a principal has not read, as a column of another query. */
export function unreadNotifications(
  { tenantId, principalId }: { tenantId: string; principalId: string },
): RawBuilder<number> {
  return sql<number>`(select count(*) from notification
    where notification.tenant_id = ${tenantId} and notification.principal_id = ${principalId}
      and notification.read_at is null)`;
}

const notifiedOf = prepared((
  db: Db,
  value: Param<{ tenantId: string; principalIds: string; source: string }>,
  dialect,
) =>
  db.selectFrom("notification").select("principal_id").where("tenant_id", "=", value("tenantId"))
    .where(inJsonList(dialect, "principal_id", value("principalIds"))).where("source", "=", value("source"))
);
const unreadCount = prepared((db: Db, value: Param<{ tenantId: string; principalId: string }>) =>
  db.selectFrom("notification").select(({ fn }) => fn.countAll<number>().as("n"))
    .where("tenant_id", "=", value("tenantId")).where("principal_id", "=", value("principalId"))
    .where("read_at", "is", null)
);
const newestBeyondLimit = prepared((db: Db, value: Param<{ tenantId: string; principalId: string; max: number }>) =>
  db.selectFrom("notification").select("id")
    .where("tenant_id", "=", value("tenantId")).where("principal_id", "=", value("principalId"))
    .orderBy("id", "desc").limit(1).offset(value("max"))
);
/** Notifications of a principal in a room about messages of one kind of sender. */
export type RecentFilter = { tenantId: string; principalId: string; roomId: string; actorKind: PrincipalKind };

const recentSeqs = prepared((db: Db, value: Param<RecentFilter & { after: string; limit: number }>) =>
  db.selectFrom("notification").select("seq").where("tenant_id", "=", value("tenantId"))
    .where("principal_id", "=", value("principalId")).where("room_id", "=", value("roomId"))
    .where("actor_kind", "=", value("actorKind")).where("seq", "is not", null).$narrowType<{ seq: number }>()
    .where("created_at", ">", value("after")).orderBy("id", "desc").limit(value("limit"))
);

export type ReadRange = { upToId?: string | undefined; roomId?: string | undefined; upToSeq?: number | undefined };

export class NotificationStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Those of these principals that have a notification from the source. */
  async findNotified(tenantId: string, principalIds: readonly string[], source: string): Promise<string[]> {
    const rows = await notifiedOf.all(this.#db, { tenantId, principalIds: JSON.stringify(principalIds), source });
    return rows.map((row) => row.principal_id);
  }

  /** The most agents that led to a notification that an agent has leased from its inbox, or has read lately. */
  async hopsAtHand(
    tenantId: string,
    principalId: string,
    { now, readAfter }: { now: string; readAfter: string },
  ): Promise<number> {
    const isLeased = sql<SqlBool>`exists (select 1 from inbox_delivery
      where inbox_delivery.tenant_id = notification.tenant_id and inbox_delivery.notification_id = notification.id
        and inbox_delivery.available_at > ${now})`;
    const row = await this.#db.selectFrom("notification").select(({ fn }) => fn.max("agent_hops").as("hops"))
      .where("tenant_id", "=", tenantId).where("principal_id", "=", principalId).where("agent_hops", ">", 0)
      .where(({ eb, or, and }) => or([eb("read_at", ">", readAfter), and([eb("read_at", "is", null), isLeased])]))
      .executeTakeFirst();
    return Number(row?.hops ?? 0);
  }

  find(tenantId: string, principalId: string, id: string): Promise<NotificationRow | undefined> {
    return this.#db.selectFrom("notification").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).where("id", "=", id).executeTakeFirst();
  }

  list(
    tenantId: string,
    principalId: string,
    filter: {
      unread?: boolean | undefined;
      kind?: readonly string[] | undefined;
      roomId?: string | undefined;
    },
    before: string | undefined,
    limit: number,
  ): Promise<NotificationRow[]> {
    let query = this.#db.selectFrom("notification").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId);
    if (filter.unread !== undefined) query = query.where("read_at", filter.unread ? "is" : "is not", null);
    if (filter.kind !== undefined) {
      query = filter.kind.length === 0 ? query.where("id", "=", "") : query.where("kind", "in", filter.kind);
    }
    if (filter.roomId !== undefined) query = query.where("room_id", "=", filter.roomId);
    if (before !== undefined) query = query.where("id", "<", before);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  async setRead(tenantId: string, id: string, set: Pick<NotificationRow, "read_at" | "version">): Promise<void> {
    await this.#db.updateTable("notification").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  /** Marks all unread ones in a range as read; returns their number. */
  async markManyRead(tenantId: string, principalId: string, range: ReadRange, at: string): Promise<number> {
    let query = this.#db.updateTable("notification").set((row) => ({ read_at: at, version: row("version", "+", 1) }))
      .where("tenant_id", "=", tenantId).where("principal_id", "=", principalId).where("read_at", "is", null);
    if (range.upToId !== undefined) query = query.where("id", "<=", range.upToId);
    if (range.roomId !== undefined) query = query.where("room_id", "=", range.roomId);
    if (range.upToSeq !== undefined) query = query.where("seq", "<=", range.upToSeq);
    const { numUpdatedRows } = await query.executeTakeFirstOrThrow();
    return Number(numUpdatedRows);
  }

  /** Marks the unread ones of these principals about a resource as read; returns them. */
  async markReadAbout(
    tenantId: string,
    principalIds: readonly string[],
    resource: { type: string; id: string },
    at: string,
  ): Promise<NotificationRow[]> {
    if (principalIds.length === 0) return [];
    return await this.#db.updateTable("notification").set((row) => ({ read_at: at, version: row("version", "+", 1) }))
      .where("tenant_id", "=", tenantId).where("principal_id", "in", principalIds).where("read_at", "is", null)
      .where("resource_type", "=", resource.type).where("resource_id", "=", resource.id).returningAll().execute();
  }

  async unreadCount(tenantId: string, principalId: string): Promise<number> {
    return Number((await unreadCount.first(this.#db, { tenantId, principalId }))?.n ?? 0);
  }

  /** Ids of the rooms with messages that unread notifications are about. */
  async unreadRooms(tenantId: string, principalId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("notification").select("room_id").distinct()
      .where("tenant_id", "=", tenantId).where("principal_id", "=", principalId).where("read_at", "is", null)
      .where("seq", "is not", null).execute();
    return rows.flatMap(({ room_id }) => room_id ?? []);
  }

  /** Positions of messages with a notification after `after`, newest first. */
  async recentSeqs(filter: RecentFilter, after: string, limit: number): Promise<number[]> {
    return (await recentSeqs.all(this.#db, { ...filter, after, limit })).map(({ seq }) => seq);
  }

  /** Deletes all but the newest `max` notifications of a principal. */
  async trim(tenantId: string, principalId: string, max: number): Promise<void> {
    const newest = await newestBeyondLimit.first(this.#db, { tenantId, principalId, max });
    if (newest === undefined) return;
    await this.#db.deleteFrom("notification").where("tenant_id", "=", tenantId).where("principal_id", "=", principalId)
      .where("id", "<=", newest.id).execute();
  }

  /** Notifications about messages or a room, at most `limit`. */
  findAbout(
    tenantId: string,
    column: "message_id" | "room_id",
    ids: readonly string[],
    limit: number,
  ): Promise<Pick<NotificationRow, "id" | "principal_id">[]> {
    return this.#db.selectFrom("notification").select(["id", "principal_id"]).where("tenant_id", "=", tenantId)
      .where(column, "in", ids).limit(limit).execute();
  }

  async remove(tenantId: string, ids: readonly string[]): Promise<void> {
    await this.#db.deleteFrom("notification").where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }
}
