// The inbox of an agent outside: its unread notifications, leased to its workers until they acknowledge them.
import type { Actor } from "@/core/actor.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { StreamWaiter } from "@/modules/sync/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { InboxAck, InboxAcked, InboxDeliveries, InboxPull } from "./schema.ts";
import { InboxStore, type InboxTables } from "./store.ts";

/** Leases end without an event, and signals may be lost. */
const RECHECK_MS = 2000;
const WORKING_SECONDS = 60;

type Deps = {
  store: Store<InboxTables>;
  clock: Clock;
  waiter: Pick<StreamWaiter, "open">;
  notifications: Pick<NotificationService, "present" | "markRead">;
  /** The actor with its current rights; `undefined` if its token ended. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
};

export class InboxService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Leases unread notifications of the caller, and waits for one if there is none. */
  async pull({ actor, signal }: Context, { id, wait, ...input }: InboxPull): Promise<InboxDeliveries> {
    const { store, clock, waiter, revalidate } = this.#deps;
    assertOwn(actor, id);
    const found = await this.#lease(actor, input);
    // Within a transaction, such as that of a stored response, nothing would change.
    if (found.items.length > 0 || wait === 0 || store.isInTransaction) return found;
    const leftMs = (actor.expiresAt ?? Infinity) - clock.now();
    const endsAt = performance.now() + Math.min(wait * 1000, leftMs);
    const watch = await waiter.open(actor.tenantId, [principalStream(actor.principalId)]);
    try {
      while (performance.now() < endsAt && signal?.aborted !== true) {
        if (await revalidate(actor) === undefined) throw new Fault("token_revoked", "The token has ended");
        const leased = await this.#lease(actor, input);
        if (leased.items.length > 0) return leased;
        const isStopping = !await watch.next(Math.min(RECHECK_MS, endsAt - performance.now()), signal) &&
          watch.isStopped;
        if (isStopping) break;
      }
    } finally {
      watch.close();
    }
    return found;
  }

  /** Acknowledges a delivery of the caller that was not delivered again. */
  async ack({ actor }: Context, { id, deliveryId, outcome, delaySeconds }: InboxAck): Promise<InboxAcked> {
    const { store, clock, notifications } = this.#deps;
    assertOwn(actor, id);
    return await store.write(async (tx) => {
      await tx.lock(actor.tenantId, principalStream(actor.principalId));
      const inbox = new InboxStore(tx.db);
      const row = await inbox.find(actor, deliveryId);
      if (row === undefined) {
        throw new Fault("conflict", "The lease was lost: it was acknowledged, delivered again or read elsewhere");
      }
      if (outcome === "done" || outcome === "drop") {
        await inbox.remove(actor.tenantId, [row.notification_id]);
        await notifications.markRead(actor, row.notification_id);
        return { deliveryId, availableAt: null };
      }
      const seconds = delaySeconds ?? (outcome === "working" ? WORKING_SECONDS : 0);
      const availableAt = iso(clock.now() + seconds * 1000);
      // What is given back can no longer be acknowledged.
      const delivery_id = outcome === "retry" ? newId("dlv") : deliveryId;
      await inbox.put({ ...row, delivery_id, available_at: availableAt });
      return { deliveryId, availableAt };
    });
  }

  /** Deletes what is left of deliveries whose notifications were read or removed. */
  async purge(): Promise<void> {
    const { store } = this.#deps;
    for (let isMore = true; isMore;) {
      isMore = await store.write(async (tx) => {
        const inbox = new InboxStore(tx.db);
        const rows = Map.groupBy(await inbox.finished(), (row) => row.tenant_id);
        for (const [tenantId, own] of rows) await inbox.remove(tenantId, own.map((row) => row.notification_id));
        return rows.size > 0;
      });
    }
  }

  async #lease(actor: Actor, { max, leaseSeconds }: Pick<InboxPull, "max" | "leaseSeconds">): Promise<InboxDeliveries> {
    const { store, clock, notifications } = this.#deps;
    const isEmpty = (await new InboxStore(store.db).available(actor, iso(clock.now()), 1)).length === 0;
    if (isEmpty) return { items: [] };
    const leased = await store.write(async (tx) => {
      // Workers of one agent lease one after the other.
      await tx.lock(actor.tenantId, principalStream(actor.principalId));
      const inbox = new InboxStore(tx.db);
      const now = clock.now();
      const rows = await inbox.available(actor, iso(now), max);
      const available_at = iso(now + leaseSeconds * 1000);
      return await Promise.all(rows.map(async ({ attempt, ...row }) => {
        const delivery = {
          tenant_id: actor.tenantId,
          notification_id: row.id,
          principal_id: actor.principalId,
          delivery_id: newId("dlv"),
          attempt: Number(attempt ?? 0) + 1,
          available_at,
        };
        await inbox.put(delivery);
        return { row, delivery };
      }));
    });
    const shown = await notifications.present(actor, leased.map(({ row }) => row));
    return {
      items: shown.map((notification, index) => ({
        deliveryId: leased[index]?.delivery.delivery_id ?? "",
        attempt: leased[index]?.delivery.attempt ?? 1,
        notification,
      })),
    };
  }
}

function assertOwn(actor: Actor, ref: string): void {
  if (actor.kind !== "human" && resolvePrincipalId(actor, ref) === actor.principalId) return;
  throw new Fault("forbidden", "Only an agent or a service has an inbox, and only it can lease from it");
}
