// Webhooks of other modules' principals, such as plugins: one for each, created and changed in the transactions of their owners.
import { createHash } from "node:crypto";
import { type Clock, iso } from "@/core/clock.ts";
import type { AnyTransaction, Transaction } from "@/ports/store.ts";
import { DeliveryStore } from "./delivery_store.ts";
import type { Secrets } from "./secrets.ts";
import { WebhookStore } from "./store.ts";
import type { WebhookRow, WebhookTables } from "./tables.ts";

type Deps = { clock: Clock; secrets: Secrets; wake: (key: { tenant_id: string; id: string }) => void };

/** Events that a principal receives at an address, signed with its secret: those of rooms that it may read at that moment. */
export type ServiceWebhook = {
  tenantId: string;
  principalId: string;
  url: string;
  secret: string;
  events: readonly string[];
  isEnabled: boolean;
};

export class ServiceWebhooks {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates or changes the webhook of a principal; without events there is none. */
  async put(tx: AnyTransaction, webhook: ServiceWebhook): Promise<void> {
    const { clock, secrets } = this.#deps;
    const { tenantId, principalId, url, events, isEnabled } = webhook;
    if (events.length === 0) return await this.remove(tx, tenantId, principalId);
    const webhooks = new WebhookStore(tx.db);
    const id = idOf(principalId);
    const now = iso(clock.now());
    const existing = await webhooks.find(tenantId, id);
    const set = {
      url,
      events_json: JSON.stringify(events),
      secret_encrypted: secrets.encrypt({ tenant_id: tenantId, id }, webhook.secret),
      is_enabled: isEnabled ? 1 : 0,
      disabled_reason: isEnabled ? null : "requested" as const,
      failures: 0,
      failing_since: null,
      next_attempt_at: null,
      last_error: null,
      version: (existing?.version ?? 0) + 1,
      updated_at: now,
    };
    if (existing === undefined) await this.#add(tx, { ...newRow(tenantId, id, principalId, now), ...set }, now);
    else await webhooks.update(tenantId, id, set);
  }

  async remove(tx: AnyTransaction, tenantId: string, principalId: string): Promise<void> {
    await new WebhookStore(tx.db).remove(tenantId, idOf(principalId));
  }

  /** To be called after the commit of a change: it delivers what waited. */
  wake(tenantId: string, principalId: string): void {
    this.#deps.wake({ tenant_id: tenantId, id: idOf(principalId) });
  }

  async #add(tx: Transaction<WebhookTables>, row: WebhookRow, now: string): Promise<void> {
    await new WebhookStore(tx.db).add(row);
    await new DeliveryStore(tx.db).followRoomsFromNow(row, now);
  }
}

/** The same for each call: a principal has one. */
function idOf(principalId: string): string {
  return `webhook_${createHash("sha256").update(principalId).digest("hex").slice(0, 32)}`;
}

type Given = "url" | "events_json" | "secret_encrypted" | "is_enabled" | "disabled_reason" | "version" | "updated_at";

function newRow(tenantId: string, id: string, principalId: string, now: string): Omit<WebhookRow, Given> {
  return {
    tenant_id: tenantId,
    id,
    creator_id: principalId,
    creator_role: "member",
    // The limit of the principal bounds it.
    scopes: null,
    charged_id: principalId,
    description: null,
    room_ids_json: null,
    previous_secret_encrypted: null,
    previous_until: null,
    failures: 0,
    failing_since: null,
    next_attempt_at: null,
    last_error: null,
    lease_owner: null,
    lease_until: null,
    delivery_count: 0,
    created_at: now,
  };
}
