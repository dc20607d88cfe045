// SQL of delivery: which webhooks have work, the lease of each, positions, and the results of attempts.
import { type Kysely, type RawBuilder, sql } from "kysely";
import { inJsonList } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import { DELIVERIES_STORED } from "../schema.ts";
import type { CursorRow, DeliveryRow, ParkedRow, WebhookRow, WebhookTables } from "../tables.ts";

export type WebhookKey = Pick<WebhookRow, "tenant_id" | "id">;
/** A stream with events to deliver: the stored position, and where the stream is now. */
export type LaggingStream = CursorRow & { current_epoch: string; head: number; floor: number };

const KEY = ["webhook.tenant_id", "webhook.id"] as const;

/** Enabled webhooks that follow one of these streams, by the names in a JSON array. */
const followersOf = prepared((
  db: Kysely<WebhookTables>,
  value: Param<{ tenantId: string; streams: string }>,
  dialect,
) =>
  db.selectFrom("webhook_cursor")
    .innerJoin("webhook", (join) =>
      join.onRef("webhook.tenant_id", "=", "webhook_cursor.tenant_id")
        .onRef("webhook.id", "=", "webhook_cursor.webhook_id"))
    .select(KEY).distinct()
    .where("webhook_cursor.tenant_id", "=", value("tenantId"))
    .where(inJsonList(dialect, "webhook_cursor.stream", value("streams")))
    .where("webhook.is_enabled", "=", 1)
);

export class DeliveryStore {
  readonly #db: Kysely<WebhookTables>;

  constructor(db: Kysely<WebhookTables>) {
    this.#db = db;
  }

  find({ tenant_id, id }: WebhookKey): Promise<WebhookRow | undefined> {
    return this.#db.selectFrom("webhook").selectAll().where("tenant_id", "=", tenant_id).where("id", "=", id)
      .executeTakeFirst();
  }

  /** Whether there are events to deliver. */
  async hasWork(key: WebhookKey, now: string): Promise<boolean> {
    return (await this.lagging(key, now, 1)).length > 0 || (await this.waiting(key, 1)).length > 0;
  }

  followers(tenantId: string, streams: readonly string[]): Promise<WebhookKey[]> {
    return followersOf.all(this.#db, { tenantId, streams: JSON.stringify(streams) });
  }

  /** Enabled webhooks after a key, in the order of keys. */
  after({ tenant_id, id }: WebhookKey, limit: number): Promise<WebhookKey[]> {
    return this.#db.selectFrom("webhook").select(KEY).where("is_enabled", "=", 1)
      .where((row) => row(row.refTuple("tenant_id", "id"), ">", row.tuple(tenant_id, id)))
      .orderBy("tenant_id").orderBy("id").limit(limit).execute();
  }

  /** Webhooks whose wait is over, those that waited longest first; and those whose run ended without releasing them. */
  async due(now: string, limit: number): Promise<WebhookKey[]> {
    const enabled = this.#db.selectFrom("webhook").select(KEY).where("is_enabled", "=", 1).limit(limit);
    // Those that are tried now waited, too: they would leave no place for the others.
    const waited = await enabled.where("next_attempt_at", "<=", now).where("lease_owner", "is", null)
      .orderBy("next_attempt_at").execute();
    const left = await enabled.where("lease_until", "<=", now).orderBy("lease_until").execute();
    return [...waited, ...left];
  }

  /** Ends a wait that is over, where nothing is left to deliver. */
  async endWait({ tenant_id, id }: WebhookKey, now: string): Promise<void> {
    await this.#db.updateTable("webhook").set({ next_attempt_at: null }).where("tenant_id", "=", tenant_id)
      .where("id", "=", id).where("next_attempt_at", "<=", now).where("lease_owner", "is", null).execute();
  }

  /**
   * Shortens what would take too long because the clock was set back. A webhook whose last attempt was at a time still to come is
   * due at once; any other keeps its wait, which its endpoint may have asked for. Pauses and leases end within their length.
   */
  async rescheduleFuture({ now, pauseBy, leaseBy }: { now: string; pauseBy: string; leaseBy: string }): Promise<void> {
    await this.#db.updateTable("webhook").set({ next_attempt_at: now }).where("next_attempt_at", ">", now)
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom("webhook_delivery as last").select("last.slot")
            .whereRef("last.tenant_id", "=", "webhook.tenant_id").whereRef("last.webhook_id", "=", "webhook.id")
            .where("last.slot", "=", sql<number>`(webhook.delivery_count - 1) % ${sql.lit(DELIVERIES_STORED)}`)
            .where("last.at", ">", now),
        )
      ).execute();
    await this.#db.updateTable("webhook_cursor").set({ paused_until: pauseBy }).where("paused_until", ">", pauseBy)
      .execute();
    await this.#db.updateTable("webhook").set({ lease_until: leaseBy }).where("lease_until", ">", leaseBy).execute();
  }

  /** Whether a creator of a webhook of all rooms is in a room that the webhook does not follow yet. */
  async hasUnfollowed(tenantId: string): Promise<boolean> {
    return await this.#unfollowed(tenantId, "").limit(1).executeTakeFirst() !== undefined;
  }

  /** Adds the positions of rooms that creators of webhooks of all rooms have joined since: from their joining on. */
  async followJoinedRooms(tenantId: string, now: string): Promise<void> {
    await this.#db.insertInto("webhook_cursor")
      .columns(["tenant_id", "webhook_id", "stream", "epoch", "seq", "moved_at"])
      .expression(this.#unfollowed(tenantId, now)).onConflict((conflict) => conflict.doNothing()).execute();
  }

  #unfollowed(tenantId: string, now: string) {
    return this.#db.selectFrom("webhook")
      .innerJoin("member", (join) =>
        join.onRef("member.tenant_id", "=", "webhook.tenant_id")
          .onRef("member.principal_id", "=", "webhook.creator_id"))
      .innerJoin("stream", (join) =>
        join.onRef("stream.tenant_id", "=", "member.tenant_id")
          .on("stream.name", "=", sql<string>`'room:' || member.room_id`))
      .select([
        "webhook.tenant_id",
        "webhook.id",
        "stream.name",
        "stream.epoch",
        "member.joined_seq",
        sql.val(now).as("moved_at"),
      ])
      .where("webhook.tenant_id", "=", tenantId).where("webhook.room_ids_json", "is", null)
      .where(({ not, exists, selectFrom }) =>
        not(exists(
          selectFrom("webhook_cursor as known").select("known.seq")
            .whereRef("known.tenant_id", "=", "webhook.tenant_id").whereRef("known.webhook_id", "=", "webhook.id")
            .whereRef("known.stream", "=", "stream.name"),
        ))
      );
  }

  /** The same for a new webhook: from the current ends of the creator's rooms on. */
  async followRoomsFromNow({ tenant_id: tenantId, id, creator_id: creatorId }: WebhookRow, now: string): Promise<void> {
    const rooms = this.#db.selectFrom("member")
      .innerJoin("stream", (join) =>
        join.onRef("stream.tenant_id", "=", "member.tenant_id")
          .on("stream.name", "=", sql<string>`'room:' || member.room_id`))
      .select([
        "member.tenant_id",
        sql.val(id).as("webhook_id"),
        "stream.name",
        "stream.epoch",
        "stream.head",
        sql.val(now).as("moved_at"),
      ])
      .where("member.tenant_id", "=", tenantId).where("member.principal_id", "=", creatorId);
    await this.#db.insertInto("webhook_cursor")
      .columns(["tenant_id", "webhook_id", "stream", "epoch", "seq", "moved_at"])
      .expression(rooms).onConflict((conflict) => conflict.doNothing()).execute();
  }

  /** Takes a webhook that is enabled, free and not waiting. */
  lease(
    { tenant_id, id }: WebhookKey,
    owner: string,
    { now, until }: { now: string; until: string },
  ): Promise<WebhookRow | undefined> {
    return this.#db.updateTable("webhook").set({ lease_owner: owner, lease_until: until })
      .where("tenant_id", "=", tenant_id).where("id", "=", id).where("is_enabled", "=", 1)
      .where(({ or, eb }) => or([eb("lease_owner", "is", null), eb("lease_until", "<=", now)]))
      .where(({ or, eb }) => or([eb("next_attempt_at", "is", null), eb("next_attempt_at", "<=", now)]))
      .returningAll().executeTakeFirst();
  }

  /** Renews a lease, with other columns; the row as it is now, `undefined` if the lease was lost. */
  renew({ tenant_id, id }: WebhookKey, owner: string, set: Partial<WebhookRow>): Promise<WebhookRow | undefined> {
    return this.#db.updateTable("webhook").set(set).where("tenant_id", "=", tenant_id).where("id", "=", id)
      .where("lease_owner", "=", owner).returningAll().executeTakeFirst();
  }

  /** Who holds leases. */
  async leaseOwners(): Promise<string[]> {
    const rows = await this.#db.selectFrom("webhook").select("lease_owner").distinct()
      .where("lease_owner", "is not", null).execute();
    return rows.flatMap(({ lease_owner }) => lease_owner ?? []);
  }

  /** Ends leases; resolves to how many. They are due at once. */
  async expireLeases(owners: readonly string[], at: string): Promise<number> {
    const expired = await this.#db.updateTable("webhook").set({ lease_until: at }).where("lease_owner", "in", owners)
      .returning("id").execute();
    return expired.length;
  }

  /** Frees all webhooks: for a database that only this process uses, leases at the start are of an ended one. */
  async releaseAll(): Promise<void> {
    await this.#db.updateTable("webhook").set({ lease_owner: null, lease_until: null })
      .where("lease_owner", "is not", null).execute();
  }

  /** Streams with events after their positions; those that waited longest first. */
  lagging({ tenant_id, id }: WebhookKey, now: string, limit: number): Promise<LaggingStream[]> {
    return this.#db.selectFrom("webhook_cursor as at")
      .innerJoin(
        "stream",
        (join) => join.onRef("stream.tenant_id", "=", "at.tenant_id").onRef("stream.name", "=", "at.stream"),
      )
      .selectAll("at").select(["stream.epoch as current_epoch", "stream.head", "stream.floor"])
      .where("at.tenant_id", "=", tenant_id).where("at.webhook_id", "=", id)
      .where(isLagging).where(isNotPaused(now))
      .orderBy("at.moved_at").limit(limit).execute();
  }

  /** Moves a position, if nobody has since it was read; returns whether it did. */
  async moveCursor(
    before: Pick<CursorRow, "tenant_id" | "webhook_id" | "stream" | "epoch" | "seq" | "puts">,
    set: Pick<CursorRow, "epoch" | "seq" | "moved_at" | "paused_until">,
  ): Promise<boolean> {
    const moved = await this.#db.updateTable("webhook_cursor").set(set)
      .where("tenant_id", "=", before.tenant_id).where("webhook_id", "=", before.webhook_id)
      .where("stream", "=", before.stream).where("epoch", "=", before.epoch).where("seq", "=", before.seq)
      .where("puts", "=", before.puts)
      .returning("seq").execute();
    return moved.length > 0;
  }

  /** Events that are to be delivered again, oldest request first. */
  waiting({ tenant_id, id }: WebhookKey, limit: number): Promise<ParkedRow[]> {
    return this.#db.selectFrom("webhook_parked").selectAll().where("tenant_id", "=", tenant_id)
      .where("webhook_id", "=", id).where("state", "=", "waiting").orderBy("parked_at").orderBy("id").limit(limit)
      .execute();
  }

  async countParked({ tenant_id, id }: WebhookKey): Promise<number> {
    const { n } = await this.#db.selectFrom("webhook_parked").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenant_id).where("webhook_id", "=", id).executeTakeFirstOrThrow();
    return Number(n);
  }

  async park(row: ParkedRow): Promise<void> {
    const { state, http_status, error, parked_at } = row;
    await this.#db.insertInto("webhook_parked").values(row)
      .onConflict((conflict) =>
        conflict.columns(["tenant_id", "webhook_id", "stream", "epoch", "seq"])
          .doUpdateSet({ state, http_status, error, parked_at })
      ).execute();
  }

  async unpark({ tenant_id, webhook_id, id }: ParkedRow): Promise<void> {
    await this.#db.deleteFrom("webhook_parked").where("tenant_id", "=", tenant_id).where("webhook_id", "=", webhook_id)
      .where("id", "=", id).execute();
  }

  /** Stores attempts in the ring; `count` is the number of attempts before them. */
  async addDeliveries(rows: readonly Omit<DeliveryRow, "slot">[], count: number): Promise<void> {
    for (const [n, row] of rows.entries()) {
      const slot = (count + n) % DELIVERIES_STORED;
      const { tenant_id: _tenant, webhook_id: _webhook, ...set } = row;
      await this.#db.insertInto("webhook_delivery").values({ ...row, slot })
        .onConflict((conflict) => conflict.columns(["tenant_id", "webhook_id", "slot"]).doUpdateSet(set)).execute();
    }
  }

  /** Notes when the events are tried again that the endpoint could not receive. */
  async noteNextAttempt({ tenant_id, id }: WebhookKey, at: string): Promise<void> {
    await this.#db.updateTable("webhook_delivery").set({ next_attempt_at: at }).where("tenant_id", "=", tenant_id)
      .where("webhook_id", "=", id).where("outcome", "=", "unavailable").where("next_attempt_at", "is", null).execute();
  }

  /** When the oldest event that waits for delivery happened; `undefined` if none waits. */
  async oldestWaiting(now: string): Promise<string | undefined> {
    const row = await this.#db.selectFrom("webhook")
      .innerJoin(
        "webhook_cursor as at",
        (join) => join.onRef("at.tenant_id", "=", "webhook.tenant_id").onRef("at.webhook_id", "=", "webhook.id"),
      )
      .innerJoin(
        "stream",
        (join) => join.onRef("stream.tenant_id", "=", "at.tenant_id").onRef("stream.name", "=", "at.stream"),
      )
      .innerJoin(
        "event",
        (join) =>
          join.onRef("event.tenant_id", "=", "at.tenant_id").onRef("event.stream", "=", "at.stream")
            .on("event.seq", "=", sql<number>`at.seq + 1`),
      )
      .select(({ fn }) => fn.min("event.at").as("at"))
      .where("webhook.is_enabled", "=", 1).where(isLagging).where(isNotPaused(now)).executeTakeFirst();
    return row?.at ?? undefined;
  }
}

const isLagging = sql<boolean>`(stream.head > at.seq or stream.epoch <> at.epoch)`;

function isNotPaused(now: string): RawBuilder<boolean> {
  return sql<boolean>`(at.paused_until is null or at.paused_until <= ${now})`;
}
