// SQL of notifications.
import type { Kysely } from "kysely";
import { isOfTenant } from "@/ports/list.ts";
import type { PrincipalKind } from "@/core/actor.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { NotificationKind } from "./schema.ts";

export type NotificationRow = {
  tenant_id: string;
  id: string;
  principal_id: string;
  kind: NotificationKind;
  actor_id: string | null;
  actor_kind: PrincipalKind | null;
  room_id: string | null;
  message_id: string | null;
  seq: number | null;
  resource_type: string | null;
  resource_id: string | null;
  title: string | null;
  data_json: string;
  /** What it was made from; one per principal, so that a repeated job makes nothing twice. */
  source: string | null;
  read_at: string | null;
  version: number;
  created_at: string;
};

export type NotificationTables = { notification: NotificationRow };

type Db = Kysely<NotificationTables>;

const INSERT_ROWS = 200;

const unreadCount = prepared((db: Db, value: Param<{ tenantId: string; principalId: string }>) =>
  db.selectFrom("notification").select(({ fn }) => fn.countAll<number>().as("n"))
    .where("tenant_id", "=", value("tenantId")).where("principal_id", "=", value("principalId"))
    .where("read_at", "is", null)
);
const oldestKept = prepared((db: Db, value: Param<{ tenantId: string; principalId: string; keep: number }>) =>
  db.selectFrom("notification").select("id")
    .where("tenant_id", "=", value("tenantId")).where("principal_id", "=", value("principalId"))
    .orderBy("id", "desc").limit(1).offset(value("keep"))
);
/** What somebody was told of in a room, of what senders of a kind wrote. */
export type Told = { tenantId: string; principalId: string; roomId: string; actorKind: PrincipalKind };

const toldOf = prepared((db: Db, value: Param<Told & { after: string; limit: number }>) =>
  db.selectFrom("notification").select("seq").where("tenant_id", "=", value("tenantId"))
    .where("principal_id", "=", value("principalId")).where("room_id", "=", value("roomId"))
    .where("actor_kind", "=", value("actorKind")).where("seq", "is not", null).$narrowType<{ seq: number }>()
    .where("created_at", ">", value("after")).orderBy("id", "desc").limit(value("limit"))
);

export type ReadRange = {
  upToId?: string | undefined;
  roomId?: string | undefined;
  upToSeq?: number | undefined;
};

export class NotificationStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Adds those whose source is new to their principal; returns the ids added. */
  async add(rows: readonly NotificationRow[]): Promise<Set<string>> {
    const added = new Set<string>();
    for (let at = 0; at < rows.length; at += INSERT_ROWS) {
      const inserted = await this.#db.insertInto("notification").values(rows.slice(at, at + INSERT_ROWS))
        .onConflict((conflict) => conflict.columns(["tenant_id", "principal_id", "source"]).doNothing())
        .returning("id").execute();
      for (const { id } of inserted) added.add(id);
    }
    return added;
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
      kinds?: readonly NotificationKind[] | undefined;
      roomId?: string | undefined;
    },
    before: string | undefined,
    limit: number,
  ): Promise<NotificationRow[]> {
    let query = this.#db.selectFrom("notification").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId);
    if (filter.unread !== undefined) query = query.where("read_at", filter.unread ? "is" : "is not", null);
    if (filter.kinds !== undefined) {
      query = filter.kinds.length === 0 ? query.where("id", "=", "") : query.where("kind", "in", filter.kinds);
    }
    if (filter.roomId !== undefined) query = query.where("room_id", "=", filter.roomId);
    if (before !== undefined) query = query.where("id", "<", before);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  async setRead(tenantId: string, id: string, set: Pick<NotificationRow, "read_at" | "version">): Promise<void> {
    await this.#db.updateTable("notification").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  /** Reads all unread ones in a range; returns how many there were. */
  async readMany(tenantId: string, principalId: string, range: ReadRange, at: string): Promise<number> {
    let query = this.#db.updateTable("notification")
      .set((row) => ({ read_at: at, version: row("version", "+", 1) }))
      .where("tenant_id", "=", tenantId).where("principal_id", "=", principalId).where("read_at", "is", null);
    if (range.upToId !== undefined) query = query.where("id", "<=", range.upToId);
    if (range.roomId !== undefined) query = query.where("room_id", "=", range.roomId);
    if (range.upToSeq !== undefined) query = query.where("seq", "<=", range.upToSeq);
    const { numUpdatedRows } = await query.executeTakeFirstOrThrow();
    return Number(numUpdatedRows);
  }

  async unreadCount(tenantId: string, principalId: string): Promise<number> {
    return Number((await unreadCount.first(this.#db, { tenantId, principalId }))?.n ?? 0);
  }

  /** Positions of the messages in a room, by senders of a kind, that somebody was told of after a time; the newest first. */
  async toldOf(told: Told, after: string, limit: number): Promise<number[]> {
    return (await toldOf.all(this.#db, { ...told, after, limit })).map(({ seq }) => seq);
  }

  /** Which of these principals have more than `keep`. */
  async full(tenantId: string, principalIds: readonly string[], keep: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("notification").select("principal_id").where("tenant_id", "=", tenantId)
      .where("principal_id", "in", principalIds).groupBy("principal_id")
      .having(({ fn }) => fn.countAll<number>(), ">", keep).execute();
    return rows.map((row) => row.principal_id);
  }

  /** Drops what a principal has beyond the newest `keep`. */
  async trim(tenantId: string, principalId: string, keep: number): Promise<void> {
    const cut = await oldestKept.first(this.#db, { tenantId, principalId, keep });
    if (cut === undefined) return;
    await this.#db.deleteFrom("notification").where("tenant_id", "=", tenantId).where("principal_id", "=", principalId)
      .where("id", "<=", cut.id).execute();
  }

  /** Some of those about messages or a room. */
  about(
    tenantId: string,
    column: "message_id" | "room_id",
    ids: readonly string[],
    limit: number,
  ): Promise<Pick<NotificationRow, "id" | "principal_id">[]> {
    return this.#db.selectFrom("notification").select(["id", "principal_id"]).where("tenant_id", "=", tenantId)
      .where(column, "in", ids).limit(limit).execute();
  }

  async remove(tenantId: string, ids: readonly string[]): Promise<void> {
    await this.#db.deleteFrom("notification").where(isOfTenant(tenantId)).where("id", "in", ids).execute();
  }
}
