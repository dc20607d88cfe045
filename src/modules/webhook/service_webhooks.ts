// Webhooks of other modules' principals, such as plugins: one for each, created and changed in the transactions of their owners.
import { type Clock, iso } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import type { EventType } from "@/core/event/event.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { DeliveryStore } from "./delivery/store.ts";
import { assertKnown } from "./event_patterns.ts";
import { presentWebhook } from "./presenter.ts";
import type { Webhook } from "./schema.ts";
import type { Secrets } from "./secrets.ts";
import { WebhookStore } from "./store.ts";
import { FRESH, newWebhookRow, type WebhookTables } from "./tables.ts";

type Deps = {
  store: Store<WebhookTables>;
  clock: Clock;
  secrets: Secrets;
  /** Types of events of rooms, complete once everything is built. */
  roomEvents: () => readonly EventType[];
  wake: (key: { tenant_id: string; id: string }) => void;
};

/** Events that a principal receives at an address, signed with its secret: those of rooms that it may read at that moment. */
type ServiceWebhook = {
  tenantId: string;
  principalId: string;
  /** Name of the principal, and who is notified when its endpoint ends. */
  description: string;
  responsibleId: string;
  url: string;
  secret: string;
  events: readonly string[];
  /** Scopes of the principal. */
  scopes: readonly string[];
  isEnabled: boolean;
};

export class ServiceWebhooks {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Throws where no event of rooms has one of these types, in the input's list at `pointer`. */
  assertKnown(types: readonly string[], pointer: string): void {
    assertKnown(types, this.#deps.roomEvents(), pointer);
  }

  /** Creates or changes the webhook of a principal; without events there is none. */
  async put(tx: AnyTransaction, webhook: ServiceWebhook): Promise<void> {
    const { clock, secrets } = this.#deps;
    const { tenantId, principalId, description, responsibleId, url, events, scopes, isEnabled } = webhook;
    if (events.length === 0) return await this.remove(tx, tenantId, principalId);
    const webhooks = new WebhookStore(tx.db);
    const id = idOf(principalId);
    const now = iso(clock.now());
    const existing = await webhooks.find(tenantId, id);
    const set = {
      description,
      responsible_id: responsibleId,
      url,
      events_json: JSON.stringify(events),
      scopes: scopes.join(" "),
      secret_encrypted: secrets.encrypt({ tenant_id: tenantId, id }, webhook.secret),
      is_enabled: isEnabled ? 1 : 0,
      disabled_reason: isEnabled ? null : "requested" as const,
    };
    if (existing !== undefined) {
      await webhooks.update(tenantId, id, { ...set, ...FRESH, version: existing.version + 1, updated_at: now });
      return;
    }
    const row = newWebhookRow({
      ...set,
      tenant_id: tenantId,
      id,
      creator_id: principalId,
      creator_role: "member",
      charged_id: principalId,
      room_ids_json: null,
    }, now);
    await webhooks.add(row);
    await new DeliveryStore(tx.db).followRoomsFromNow(row, now);
  }

  /** How the delivery to a principal does; `undefined` if it receives no events. */
  async find(tenantId: string, principalId: string): Promise<Webhook | undefined> {
    const { store, clock } = this.#deps;
    const id = idOf(principalId);
    const webhooks = new WebhookStore(store.db);
    const row = await webhooks.find(tenantId, id);
    if (row === undefined) return undefined;
    const parkedCount = (await webhooks.countParked(tenantId, [id])).get(id) ?? 0;
    return presentWebhook(row, { parkedCount, now: clock.now() });
  }

  async remove(tx: AnyTransaction, tenantId: string, principalId: string): Promise<void> {
    await new WebhookStore(tx.db).remove(tenantId, idOf(principalId));
  }

  /** To be called after the commit of a change: it delivers what waited. */
  wake(tenantId: string, principalId: string): void {
    this.#deps.wake({ tenant_id: tenantId, id: idOf(principalId) });
  }
}

/** The same for each call: a principal has one. */
function idOf(principalId: string): string {
  return `webhook_${hashText(principalId).slice(0, 32)}`;
}
