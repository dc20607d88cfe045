// The end of a run: what its verdict means for the webhook. Its creator is notified when it is disabled.
import { type Clock, iso } from "@/core/time/clock.ts";
import { principalEvent } from "@/core/event/event.ts";
import { logOf } from "@/core/log.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { Store } from "@/ports/store.ts";
import { presentWebhook } from "../presenter.ts";
import type { WebhookRow, WebhookTables } from "../tables.ts";
import type { Verdict, WebhookLease } from "./lease.ts";
import { FAILING_MAX_MS, waitAfter } from "./retry.ts";
import { DeliveryStore } from "./store.ts";

export const DISABLED_NOTIFICATION = "webhook_disabled";
const log = logOf("webhook");

type Deps = { store: Store<WebhookTables>; clock: Clock; notify: Notify };

export class WebhookReleaser {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Frees the webhook, and stores when its endpoint is tried again, or that it is disabled. */
  async release(lease: WebhookLease): Promise<void> {
    const { store, clock, notify } = this.#deps;
    await lease.commit();
    const { row, verdict } = lease;
    const set = this.#columnsFor(row, verdict);
    await store.write(async (tx) => {
      const deliveries = new DeliveryStore(tx.db);
      const after = await deliveries.renew(row, lease.owner, { ...set, lease_owner: null, lease_until: null });
      if (after !== undefined && set.next_attempt_at) await deliveries.noteNextAttempt(row, set.next_attempt_at);
      if (after === undefined || set.is_enabled !== 0) return;
      const { tenant_id: tenantId, id, creator_id, responsible_id, disabled_reason: reason } = after;
      const principalIds = [creator_id, ...responsible_id === null ? [] : [responsible_id]];
      const parkedCount = await deliveries.countParked(after);
      const webhook = presentWebhook(after, { parkedCount, now: clock.now() });
      await tx.emit(
        ...principalIds.map((principalId) =>
          principalEvent({ tenantId }, principalId, "webhook.disabled", { webhook })
        ),
      );
      await notify({
        tenantId,
        principalIds,
        kind: DISABLED_NOTIFICATION,
        resource: { type: "webhook", id },
        title: after.description ?? new URL(after.url).host,
        data: { reason: reason ?? "failing" },
        source: `${id}:${after.version}`,
      });
      log.info("webhook disabled", { webhook: id, tenant: tenantId, reason });
    });
  }

  #columnsFor(row: WebhookRow, verdict: Verdict | undefined): Partial<WebhookRow> {
    const now = this.#deps.clock.now();
    if (verdict === undefined || verdict.kind === "ended") return {};
    const disabled = { is_enabled: 0, version: row.version + 1, updated_at: iso(now), next_attempt_at: null };
    if (verdict.kind !== "unavailable") return { ...disabled, disabled_reason: verdict.kind, last_error: verdict.kind };
    const since = row.failing_since ?? iso(now);
    const failing = { failures: row.failures + 1, failing_since: since, last_error: verdict.error };
    if (now - Date.parse(since) >= FAILING_MAX_MS) return { ...failing, ...disabled, disabled_reason: "failing" };
    const wait = waitAfter(failing.failures, verdict.retryAfterMs);
    return { ...failing, next_attempt_at: iso(now + wait) };
  }
}
