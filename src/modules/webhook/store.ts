// SQL of webhooks as their creators manage them: settings, positions, parked events and past attempts.
import { type Kysely, sql } from "kysely";
import type { CursorRow, DeliveryRow, ParkedRow, WebhookRow, WebhookTables } from "./tables.ts";

export class WebhookStore {
  readonly #db: Kysely<WebhookTables>;

  constructor(db: Kysely<WebhookTables>) {
    this.#db = db;
  }

  async add(row: WebhookRow): Promise<void> {
    await this.#db.insertInto("webhook").values(row).execute();
  }

  find(tenantId: string, id: string): Promise<WebhookRow | undefined> {
    return this.#db.selectFrom("webhook").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  /** Webhooks of a tenant, or of one creator, after `after`. */
  list(
    tenantId: string,
    creatorId: string | undefined,
    after: string | undefined,
    limit: number,
  ): Promise<WebhookRow[]> {
    let query = this.#db.selectFrom("webhook").selectAll().where("tenant_id", "=", tenantId);
    if (creatorId !== undefined) query = query.where("creator_id", "=", creatorId);
    if (after !== undefined) query = query.where("id", ">", after);
    return query.orderBy("id").limit(limit).execute();
  }

  /** What the limits of a tenant are about. */
  limited(tenantId: string): Promise<Pick<WebhookRow, "id" | "charged_id" | "room_ids_json">[]> {
    return this.#db.selectFrom("webhook").select(["id", "charged_id", "room_ids_json"])
      .where("tenant_id", "=", tenantId).execute();
  }

  async update(tenantId: string, id: string, set: Partial<WebhookRow>): Promise<void> {
    await this.#db.updateTable("webhook").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async remove(tenantId: string, id: string): Promise<void> {
    for (const table of ["webhook_cursor", "webhook_parked", "webhook_delivery"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("webhook_id", "=", id).execute();
    }
    await this.#db.deleteFrom("webhook").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Removes what is stored of a room that is purged. */
  async removeStream(tenantId: string, stream: string): Promise<void> {
    for (const table of ["webhook_cursor", "webhook_parked", "webhook_delivery"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("stream", "=", stream).execute();
    }
  }

  /** Begins at the current end of these streams, unless a position is stored. */
  async addCursors({ tenant_id: tenantId, id }: WebhookRow, streams: readonly string[], now: string): Promise<void> {
    await this.#db.insertInto("webhook_cursor")
      .columns(["tenant_id", "webhook_id", "stream", "epoch", "seq", "moved_at"])
      .expression((db) =>
        db.selectFrom("stream")
          .select([
            "stream.tenant_id",
            sql.val(id).as("webhook_id"),
            "stream.name",
            "stream.epoch",
            "stream.head",
            sql.val(now).as("moved_at"),
          ])
          .where("stream.tenant_id", "=", tenantId).where("stream.name", "in", streams)
      )
      .onConflict((conflict) => conflict.doNothing()).execute();
  }

  /** Removes the positions in streams that are no longer followed. */
  async removeOtherCursors(tenantId: string, id: string, streams: readonly string[]): Promise<void> {
    await this.#db.deleteFrom("webhook_cursor").where("tenant_id", "=", tenantId).where("webhook_id", "=", id)
      .where("stream", "not in", streams).execute();
  }

  cursor(tenantId: string, id: string, stream: string): Promise<CursorRow | undefined> {
    return this.#db.selectFrom("webhook_cursor").selectAll().where("tenant_id", "=", tenantId)
      .where("webhook_id", "=", id).where("stream", "=", stream).executeTakeFirst();
  }

  async setCursor(
    tenantId: string,
    id: string,
    stream: string,
    set: Pick<CursorRow, "epoch" | "seq" | "moved_at">,
  ): Promise<void> {
    await this.#db.updateTable("webhook_cursor")
      .set(({ eb }) => ({ ...set, paused_until: null, puts: eb("puts", "+", 1) }))
      .where("tenant_id", "=", tenantId).where("webhook_id", "=", id).where("stream", "=", stream).execute();
  }

  position(tenantId: string, stream: string): Promise<WebhookTables["stream"] | undefined> {
    return this.#db.selectFrom("stream").select(["tenant_id", "name", "epoch", "head", "floor"])
      .where("tenant_id", "=", tenantId).where("name", "=", stream).executeTakeFirst();
  }

  async countParked(tenantId: string, ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#db.selectFrom("webhook_parked")
      .select(({ fn }) => ["webhook_id", fn.countAll<number>().as("n")])
      .where("tenant_id", "=", tenantId).where("webhook_id", "in", ids).groupBy("webhook_id").execute();
    return new Map(rows.map((row) => [row.webhook_id, Number(row.n)]));
  }

  parked(tenantId: string, id: string, after: string | undefined, limit: number): Promise<ParkedRow[]> {
    let query = this.#db.selectFrom("webhook_parked").selectAll().where("tenant_id", "=", tenantId)
      .where("webhook_id", "=", id);
    if (after !== undefined) query = query.where("id", ">", after);
    return query.orderBy("id").limit(limit).execute();
  }

  /** Marks parked events as to be delivered again: these, or all; returns how many. */
  async replayParked(tenantId: string, id: string, ids: readonly string[] | undefined, now: string): Promise<number> {
    let query = this.#db.updateTable("webhook_parked").set({ state: "waiting", parked_at: now })
      .where("tenant_id", "=", tenantId).where("webhook_id", "=", id).where("state", "=", "parked");
    if (ids !== undefined) query = query.where("id", "in", ids);
    return (await query.returning("id").execute()).length;
  }

  /** Adds an event that is to be delivered again. */
  async addReplay(row: ParkedRow): Promise<void> {
    await this.#db.insertInto("webhook_parked").values(row)
      .onConflict((conflict) =>
        conflict.columns(["tenant_id", "webhook_id", "stream", "epoch", "seq"])
          .doUpdateSet({ state: row.state, parked_at: row.parked_at })
      ).execute();
  }

  /** The newest attempts. */
  deliveries(
    tenantId: string,
    id: string,
    outcome: DeliveryRow["outcome"] | undefined,
    limit: number,
  ): Promise<DeliveryRow[]> {
    let query = this.#db.selectFrom("webhook_delivery").selectAll().where("tenant_id", "=", tenantId)
      .where("webhook_id", "=", id);
    if (outcome !== undefined) query = query.where("outcome", "=", outcome);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  delivery(tenantId: string, id: string, deliveryId: string): Promise<DeliveryRow | undefined> {
    return this.#db.selectFrom("webhook_delivery").selectAll().where("tenant_id", "=", tenantId)
      .where("webhook_id", "=", id).where("id", "=", deliveryId).executeTakeFirst();
  }
}
