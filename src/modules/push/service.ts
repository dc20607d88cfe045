// Push subscriptions: a browser or device of a person that shows notifications also while the client is closed.
import { ECDH } from "node:crypto";
import { type Actor, hasScope, scopesOf, textOfScopes } from "@/core/actor.ts";
import { runOnAccount } from "@/core/caller.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { Fault, invalidField, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { CredentialSnapshot, IdentityService } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import { assertAddressAllowed, hostOf, type Outbound } from "@/ports/outbound.ts";
import type { Store } from "@/ports/store.ts";
import type { ApplicationKey } from "./application_keys.ts";
import { type PushSubscription, type PushSubscriptionCreate, SUBSCRIPTIONS_MAX } from "./schema.ts";
import { sendPush } from "./sender.ts";
import { PushStore, type PushSubscriptionRow, type PushTables } from "./store.ts";

/** The client renews its subscription when it starts: one that was not for so long is of a browser that nobody uses. */
export const RENEWAL_DAYS = 90;
/** Unread notifications that are read: a push says how many more there are, up to this many. */
const UNREAD_MAX = 20;

/** How push services know the gateway, and which of them it calls. */
type PushSettings = {
  /** Whom they may write to: a `mailto:` or `https:` address. */
  contact: string;
  /** Names of hosts; hosts below them belong to them. */
  hosts: readonly string[];
  /** The first one is for what subscribes now. */
  keys: readonly ApplicationKey[];
};

type Deps = {
  store: Store<PushTables>;
  clock: Clock;
  cpu: CpuBudget;
  metrics: Metrics;
  outbound: Outbound;
  identity: Pick<IdentityService, "findEnabledFor">;
  notifications: Pick<NotificationService, "list">;
  /** The actor of a credential with its current rights; `undefined` if it is no longer valid. */
  revalidate: (credential: CredentialSnapshot) => Promise<Actor | undefined>;
  /** Absent where nothing is pushed. */
  settings: PushSettings | undefined;
};

export class PushService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Subscribes a browser, or renews what has its endpoint, which then belongs to the caller. */
  async create(actor: Actor, { name, endpoint, keys }: PushSubscriptionCreate): Promise<PushSubscription> {
    const { store, clock, settings } = this.#deps;
    const publicKey = settings?.keys[0]?.publicKey;
    if (settings === undefined || publicKey === undefined) {
      throw new Fault("push_not_configured", "This gateway does not push notifications");
    }
    if (!hasScope(actor, "notification.read")) {
      throw new Fault("scope_missing", "A push subscription requires the scope notification.read");
    }
    this.#assertPushService(settings, endpoint);
    assertKey(keys.p256dh);
    const { tenantId, principalId, role, scopes, tokenId } = actor;
    const now = iso(clock.now());
    const set = {
      principal_id: principalId,
      name,
      ...keys,
      application_key: publicKey,
      scopes: textOfScopes(scopes),
      role,
      token_id: tokenId ?? null,
      renewed_at: now,
    };
    return await store.write(async (tx) => {
      const subscriptions = new PushStore(tx.db);
      const existing = await subscriptions.findByEndpoint(tenantId, endpoint);
      if (existing !== undefined) {
        await subscriptions.update(tenantId, existing.id, set);
        return present({ ...existing, ...set });
      }
      const own = await subscriptions.list(tenantId, principalId);
      const ids = own.slice(SUBSCRIPTIONS_MAX - 1).map(({ id }) => id);
      if (ids.length > 0) await subscriptions.remove(tenantId, ids);
      // Ids of notifications that are created from now on are above this one.
      const row = { tenant_id: tenantId, id: newId("psh"), endpoint, pushed_id: newId("ntf"), created_at: now, ...set };
      await subscriptions.add(row);
      return present(row);
    });
  }

  async list({ tenantId, principalId }: Actor): Promise<PushSubscription[]> {
    return (await new PushStore(this.#deps.store.db).list(tenantId, principalId)).map(present);
  }

  async delete({ tenantId, principalId }: Actor, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const subscriptions = new PushStore(tx.db);
      const row = await subscriptions.find(tenantId, id);
      if (row?.principal_id !== principalId) throw notFound("push subscription");
      await subscriptions.remove(tenantId, [id]);
    });
  }

  async deleteByToken(tenantId: string, tokenId: string): Promise<void> {
    await this.#deps.store.write((tx) => new PushStore(tx.db).removeByToken(tenantId, tokenId));
  }

  async purgeAbandoned(): Promise<void> {
    const since = iso(this.#deps.clock.now() - RENEWAL_DAYS * DAY_MS);
    await this.#deps.store.write((tx) => new PushStore(tx.db).removeNotRenewedSince(since));
  }

  /**
   * Pushes the newest notification that is unread and newer than what was pushed, and how many more there are. Safe to repeat. Throws
   * if the service is to be tried again.
   */
  async push(tenantId: string, id: string): Promise<void> {
    const { store, cpu, settings } = this.#deps;
    const row = await new PushStore(store.db).find(tenantId, id);
    if (row === undefined || settings === undefined) return;
    const actor = await this.#deps.revalidate({
      tenantId,
      principalId: row.principal_id,
      role: row.role,
      scopes: scopesOf(row.scopes),
      tokenId: row.token_id ?? undefined,
      // As long as the person uses the browser: a subscription ends with its token's revocation, or when it is not renewed.
      expiresAt: undefined,
    });
    const key = settings.keys.find(({ publicKey }) => publicKey === row.application_key);
    if (actor === undefined || key === undefined) return await this.#remove(row);
    await runOnAccount(cpu.accountOf(actor), () => this.#push(actor, row, settings, key));
  }

  async #push(actor: Actor, row: PushSubscriptionRow, settings: PushSettings, key: ApplicationKey): Promise<void> {
    const { store, metrics, outbound, notifications } = this.#deps;
    const { items, unreadCount } = await notifications.list(actor, { unread: true, limit: UNREAD_MAX });
    const fresh = items.filter((item) => item.id > row.pushed_id);
    const [newest] = fresh;
    if (newest === undefined) return;
    const actorName = await this.#nameOf(actor, newest.actor?.id);
    const data = { notification: newest, actorName, moreCount: fresh.length - 1, unreadCount };
    const outcome = await sendPush({ outbound, contact: settings.contact }, row, key, data);
    metrics.pushMessages.inc({ outcome });
    if (outcome === "ended") return await this.#remove(row);
    if (outcome === "unavailable") throw new Fault("unavailable", "The push service cannot be reached or is busy");
    await store.write((tx) => new PushStore(tx.db).update(row.tenant_id, row.id, { pushed_id: newest.id }));
  }

  async #nameOf(actor: Actor, id: string | undefined): Promise<string | null> {
    if (id === undefined) return null;
    return (await this.#deps.identity.findEnabledFor(actor, [id])).get(id)?.display_name ?? null;
  }

  async #remove({ tenant_id, id }: PushSubscriptionRow): Promise<void> {
    await this.#deps.store.write((tx) => new PushStore(tx.db).remove(tenant_id, [id]));
  }

  /** The gateway calls push services for its members, not any address that one of them names. */
  #assertPushService({ hosts }: PushSettings, endpoint: string): void {
    const host = URL.canParse(endpoint) ? hostOf(new URL(endpoint)) : "";
    if (!hosts.some((name) => host === name || host.endsWith(`.${name}`))) {
      const detail = `expected an address of a push service that the operator allows: ${hosts.join(", ")}`;
      throw Fault.forField("/endpoint", "address_not_allowed", detail, "address_not_allowed");
    }
    assertAddressAllowed(this.#deps.outbound, endpoint, "/endpoint");
  }
}

/** Throws unless it is a point on the curve: nothing could be encrypted for another. */
function assertKey(p256dh: string): void {
  try {
    ECDH.convertKey(p256dh, "prime256v1", "base64url");
  } catch {
    throw invalidField("/keys/p256dh", "expected a point on the curve P-256");
  }
}

function present({ id, name, endpoint, created_at, renewed_at }: PushSubscriptionRow): PushSubscription {
  return { id, name, service: hostOf(new URL(endpoint)), createdAt: created_at, renewedAt: renewed_at };
}
