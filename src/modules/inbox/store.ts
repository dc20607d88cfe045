// SQL of deliveries: which notifications a worker has, and until when.
import { type Kysely, sql, type SqlBool } from "kysely";
import type { NotificationRow, NotificationTables } from "@/modules/notification/mod.ts";
import { inChunks } from "@/core/page.ts";

/** A notification that was leased; it is delivered again once it is available. */
type DeliveryRow = {
  tenant_id: string;
  notification_id: string;
  principal_id: string;
  delivery_id: string;
  attempt: number;
  available_at: string;
};

export type InboxTables = NotificationTables & { inbox_delivery: DeliveryRow };
type Recipient = { tenantId: string; principalId: string };

const PURGED_AT_ONCE = 500;

export class InboxStore {
  readonly #db: Kysely<InboxTables>;

  constructor(db: Kysely<InboxTables>) {
    this.#db = db;
  }

  /** Unread notifications that are not leased, the oldest first, each with the number of its deliveries. */
  available(
    { tenantId, principalId }: Recipient,
    now: string,
    limit: number,
  ): Promise<(NotificationRow & { attempt: number | null })[]> {
    return this.#db.selectFrom("notification")
      .leftJoin("inbox_delivery", (join) =>
        join.onRef("inbox_delivery.tenant_id", "=", "notification.tenant_id")
          .onRef("inbox_delivery.notification_id", "=", "notification.id"))
      .selectAll("notification").select("inbox_delivery.attempt")
      .where("notification.tenant_id", "=", tenantId).where("notification.principal_id", "=", principalId)
      .where("notification.read_at", "is", null)
      .where(({ eb, or }) =>
        or([eb("inbox_delivery.available_at", "is", null), eb("inbox_delivery.available_at", "<=", now)])
      )
      .orderBy("notification.id").limit(limit).execute();
  }

  async put(row: DeliveryRow): Promise<void> {
    const { tenant_id: _tenant, notification_id: _id, ...set } = row;
    await this.#db.insertInto("inbox_delivery").values(row)
      .onConflict((conflict) => conflict.column("notification_id").doUpdateSet(set)).execute();
  }

  find({ tenantId, principalId }: Recipient, deliveryId: string): Promise<DeliveryRow | undefined> {
    return this.#db.selectFrom("inbox_delivery").selectAll().where("tenant_id", "=", tenantId)
      .where("delivery_id", "=", deliveryId).where("principal_id", "=", principalId).executeTakeFirst();
  }

  async remove(tenantId: string, notificationIds: readonly string[]): Promise<void> {
    for (const ids of inChunks(notificationIds, PURGED_AT_ONCE)) {
      await this.#db.deleteFrom("inbox_delivery").where("tenant_id", "=", tenantId)
        .where("notification_id", "in", ids).execute();
    }
  }

  /** Some deliveries of notifications that were read, withdrawn or trimmed. */
  finished(): Promise<Pick<DeliveryRow, "tenant_id" | "notification_id">[]> {
    return this.#db.selectFrom("inbox_delivery").select(["tenant_id", "notification_id"])
      .where(sql<SqlBool>`not exists (select 1 from notification where notification.tenant_id = inbox_delivery.tenant_id
        and notification.id = inbox_delivery.notification_id and notification.read_at is null)`)
      .limit(PURGED_AT_ONCE).execute();
  }
}
