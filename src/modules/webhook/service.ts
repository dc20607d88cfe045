// Webhooks of a tenant: created, changed, rotated and deleted.
import { type Actor, chargedId, isAdmin, textOfScopes } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventType, principalEvent, roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { assertVersion, jsonOf, patchedOr } from "@/core/patch.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import { assertAddressAllowed, type Outbound } from "@/ports/outbound.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { assertMayFollow, requireDirectable, requireOwn, requireVisible } from "./access.ts";
import { DeliveryStore } from "./delivery/store.ts";
import { assertKnown } from "./event_patterns.ts";
import { presentWebhook } from "./presenter.ts";
import {
  type NewWebhook,
  type Webhook,
  type WebhookCreate,
  type WebhookList,
  WEBHOOKS_PER_OWNER,
  WEBHOOKS_PER_OWNER_IN_ROOM,
  WEBHOOKS_PER_ROOM,
  WEBHOOKS_PER_TENANT,
  type WebhookUpdate,
} from "./schema.ts";
import type { Secrets } from "./secrets.ts";
import { WebhookStore } from "./store.ts";
import { FRESH, newWebhookRow, roomIdsOf, type WebhookRow, type WebhookTables } from "./tables.ts";

/** A stream without events: its lock serializes changes of the webhooks of a tenant, so that limits hold. */
const CHANGES_LOCK = "webhook:changes";

type Tx = Transaction<WebhookTables>;
type Deps = {
  store: Store<WebhookTables>;
  clock: Clock;
  cursors: Cursors;
  outbound: Outbound;
  roomAccess: RoomAccess;
  secrets: Secrets;
  /** Types of events of rooms, complete once everything is built. */
  roomEvents: () => readonly EventType[];
  /** Called when a webhook may have events to deliver. */
  wake: (key: { tenant_id: string; id: string }) => void;
};

export class WebhookService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates a webhook, which delivers what happens from now on. Its secret is returned only here. */
  async create(context: Context, input: WebhookCreate): Promise<NewWebhook> {
    const { store, clock, roomAccess, secrets } = this.#deps;
    const { actor } = context;
    assertAddressAllowed(this.#deps.outbound, input.url, "/url");
    assertKnown(input.events, this.#deps.roomEvents(), "/events");
    const roomIds = distinct(input.roomIds);
    return await store.write(async (tx) => {
      await tx.lock(actor.tenantId, CHANGES_LOCK);
      await assertMayFollow(tx, roomAccess, context, roomIds);
      const now = iso(clock.now());
      const id = newId("webhook");
      await assertWithinLimits(tx, { tenant_id: actor.tenantId, id, charged_id: chargedId(actor) }, roomIds);
      const { secret, encrypted } = secrets.create({ tenant_id: actor.tenantId, id });
      const row = newWebhookRow({
        tenant_id: actor.tenantId,
        id,
        creator_id: actor.principalId,
        creator_role: actor.role,
        scopes: textOfScopes(actor.scopes),
        charged_id: chargedId(actor),
        url: input.url,
        description: input.description,
        events_json: JSON.stringify(input.events),
        room_ids_json: roomIds === null ? null : JSON.stringify(roomIds),
        is_enabled: input.enabled ? 1 : 0,
        disabled_reason: input.enabled ? null : "requested",
        secret_encrypted: encrypted,
      }, now);
      await new WebhookStore(tx.db).add(row);
      await this.#follow(tx, row, roomIds);
      const webhook = await this.#publish(tx, context, row, "webhook.created");
      return { ...webhook, secret };
    });
  }

  /** The caller's webhooks, for an admin all of the tenant. */
  async list(context: Context, { limit, cursor }: WebhookList): Promise<Page<Webhook>> {
    const { store, cursors } = this.#deps;
    const { tenantId, principalId } = context.actor;
    const bind = ["webhook.list", tenantId, principalId];
    const after = cursors.decodeId(cursor, bind);
    const creatorId = isAdmin(context.actor) ? undefined : principalId;
    const rows = await new WebhookStore(store.db).list(tenantId, creatorId, after, limit + 1);
    const present = await this.#presenter(context, rows, store.db);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  async read(context: Context, id: string): Promise<Webhook> {
    const { store } = this.#deps;
    const row = requireVisible(context.actor, await new WebhookStore(store.db).find(context.actor.tenantId, id));
    return (await this.#presenter(context, [row], store.db))(row);
  }

  /** Changes a webhook; an admin may only disable those of others. */
  async update(context: Context, { id, version, ...input }: WebhookUpdate): Promise<Webhook> {
    const { store, clock, roomAccess } = this.#deps;
    const { actor } = context;
    if (input.url !== undefined) assertAddressAllowed(this.#deps.outbound, input.url, "/url");
    if (input.events !== undefined) assertKnown(input.events, this.#deps.roomEvents(), "/events");
    const webhook = await store.write(async (tx) => {
      await tx.lock(actor.tenantId, CHANGES_LOCK);
      const webhooks = new WebhookStore(tx.db);
      const found = await webhooks.find(actor.tenantId, id);
      const row = this.#requireUpdatable(actor, found, input);
      assertVersion("webhook", row.version, version);
      const roomIds = input.roomIds === undefined ? roomIdsOf(row) : distinct(input.roomIds);
      if (input.roomIds !== undefined) {
        await assertMayFollow(tx, roomAccess, context, roomIds);
        await assertWithinLimits(tx, row, roomIds);
      }
      const after: WebhookRow = {
        ...row,
        url: input.url ?? row.url,
        events_json: jsonOf(input.events) ?? row.events_json,
        room_ids_json: roomIds === null ? null : JSON.stringify(roomIds),
        description: patchedOr(input.description, row.description),
        ...enabledColumns(input.enabled, input.url !== undefined && input.url !== row.url),
        version: row.version + 1,
        updated_at: iso(clock.now()),
      };
      await webhooks.update(actor.tenantId, id, changedColumns(row, after));
      if (input.roomIds !== undefined) {
        if (roomIds !== null) await webhooks.removeOtherCursors(actor.tenantId, id, roomIds.map(roomStream));
        await this.#follow(tx, after, roomIds);
      }
      return await this.#publish(tx, context, after, "webhook.updated");
    });
    this.#deps.wake({ tenant_id: actor.tenantId, id });
    return webhook;
  }

  async delete(context: Context, id: string): Promise<void> {
    const { actor } = context;
    await this.#deps.store.write(async (tx) => {
      const webhooks = new WebhookStore(tx.db);
      const row = requireVisible(actor, await webhooks.find(actor.tenantId, id));
      await webhooks.remove(actor.tenantId, id);
      await tx.emit(principalEvent(actor, row.creator_id, "webhook.deleted", { webhookId: id }));
    });
  }

  /** Replaces the secret. Those before sign as well for 24 hours. */
  async rotate(context: Context, id: string): Promise<NewWebhook> {
    const { store, clock, secrets } = this.#deps;
    const { actor } = context;
    return await store.write(async (tx) => {
      await tx.lock(actor.tenantId, CHANGES_LOCK);
      const webhooks = new WebhookStore(tx.db);
      const row = requireDirectable(actor, await webhooks.find(actor.tenantId, id), this.#deps.roomEvents());
      const { secret, columns } = secrets.rotate(row, clock.now());
      const after: WebhookRow = {
        ...row,
        ...columns,
        version: row.version + 1,
        updated_at: iso(clock.now()),
      };
      await webhooks.update(actor.tenantId, id, changedColumns(row, after));
      return { ...await this.#publish(tx, context, after, "webhook.updated"), secret };
    });
  }

  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#deps.store.write((tx) => new WebhookStore(tx.db).removeStream(tenantId, roomStream(roomId)));
  }

  #follow(tx: Tx, row: WebhookRow, roomIds: readonly string[] | null): Promise<void> {
    const now = iso(this.#deps.clock.now());
    return roomIds === null
      ? new DeliveryStore(tx.db).followRoomsFromNow(row, now)
      : new WebhookStore(tx.db).addCursors(row, roomIds.map(roomStream), now);
  }

  /** Publishes a change to the creator; returns the webhook as the caller sees it. */
  async #publish(tx: Tx, context: Context, row: WebhookRow, type: string): Promise<Webhook> {
    const { tenantId } = context.actor;
    const parkedCount = (await new WebhookStore(tx.db).countParked(tenantId, [row.id])).get(row.id) ?? 0;
    await tx.emit(
      principalEvent(context.actor, row.creator_id, type, {
        webhook: presentWebhook(row, { parkedCount, now: this.#deps.clock.now() }),
      }),
    );
    return (await this.#presenter(context, [row], tx.db))(row);
  }

  /** Shows of the webhooks of others only the rooms that the caller sees itself. */
  async #presenter(
    { actor }: Context,
    rows: readonly WebhookRow[],
    db: Tx["db"],
  ): Promise<(row: WebhookRow) => Webhook> {
    const parked = await new WebhookStore(db).countParked(actor.tenantId, rows.map(({ id }) => id));
    const others = rows.filter((row) => row.creator_id !== actor.principalId);
    const rooms = others.flatMap((row) => roomIdsOf(row) ?? []);
    const visible = rooms.length === 0
      ? new Set<string>()
      : new Set((await this.#deps.roomAccess.findMany(actor, rooms, db)).keys());
    const now = this.#deps.clock.now();
    return (row) =>
      presentWebhook(row, {
        parkedCount: parked.get(row.id) ?? 0,
        now,
        ...(row.creator_id === actor.principalId ? {} : { roomIds: visible }),
      });
  }

  #requireUpdatable(
    actor: Actor,
    row: WebhookRow | undefined,
    { description, enabled, ...directing }: Omit<WebhookUpdate, "id" | "version">,
  ): WebhookRow {
    if (enabled === true || Object.keys(directing).length > 0) {
      return requireDirectable(actor, row, this.#deps.roomEvents());
    }
    return enabled === false && description === undefined ? requireVisible(actor, row) : requireOwn(actor, row);
  }
}

/** Throws unless there may be this webhook, new or as it is to be, beside the others. */
async function assertWithinLimits(
  tx: Tx,
  { tenant_id, id, charged_id }: Pick<WebhookRow, "tenant_id" | "id" | "charged_id">,
  roomIds: readonly string[] | null,
): Promise<void> {
  const others = (await new WebhookStore(tx.db).limited(tenant_id)).filter((other) => other.id !== id);
  if (others.length >= WEBHOOKS_PER_TENANT) {
    throw new Fault("limit_reached", `A tenant has at most ${WEBHOOKS_PER_TENANT} webhooks`);
  }
  if (others.filter((other) => other.charged_id === charged_id).length >= WEBHOOKS_PER_OWNER) {
    throw new Fault("limit_reached", `A person with their agents has at most ${WEBHOOKS_PER_OWNER} webhooks`);
  }
  if (roomIds === null) return;
  const named = others.map((other) => ({ ownerId: other.charged_id, roomIds: new Set(roomIdsOf(other)) }));
  for (const roomId of roomIds) {
    const naming = named.filter((other) => other.roomIds.has(roomId));
    if (naming.length >= WEBHOOKS_PER_ROOM) {
      throw new Fault("limit_reached", `A room has at most ${WEBHOOKS_PER_ROOM} webhooks that name it`);
    }
    if (naming.filter(({ ownerId }) => ownerId === charged_id).length >= WEBHOOKS_PER_OWNER_IN_ROOM) {
      const detail = `A person with their agents has at most ${WEBHOOKS_PER_OWNER_IN_ROOM} webhooks that name a room`;
      throw new Fault("limit_reached", detail);
    }
  }
}

/** A webhook that is enabled, or gets another address, is tried at once. */
function enabledColumns(enabled: boolean | undefined, isMoved: boolean): Partial<WebhookRow> {
  if (enabled === false) return { is_enabled: 0, disabled_reason: "requested", next_attempt_at: null };
  if (enabled === true) return { ...FRESH, is_enabled: 1, disabled_reason: null };
  return isMoved ? FRESH : {};
}

/** Only these are written: a run may change others meanwhile. */
function changedColumns(before: WebhookRow, after: WebhookRow): Partial<WebhookRow> {
  const changed = Object.entries(after).filter(([name, value]) => value !== before[name as keyof WebhookRow]); // a column of both
  return Object.fromEntries(changed);
}

function distinct(roomIds: readonly string[] | null): string[] | null {
  return roomIds === null ? null : [...new Set(roomIds)];
}
