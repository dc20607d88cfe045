// Notifications: created by any module, stored per principal, marked as read one by one or together.
import type { Actor, PrincipalKind } from "@/core/actor.ts";
import { AGENT_HOPS_MAX } from "@/core/agent_hops.ts";
import { currentAgentHops, currentCaller } from "@/core/caller.ts";
import { type Clock, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { type EventActor, type EventDraft, principalEvent, principalStream } from "@/core/event/event.ts";
import { notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { Cursors } from "@/core/page.ts";
import { assertVersion } from "@/core/patch.ts";
import { type IdentityService, type NotificationPrefs, prefsOf } from "@/modules/identity/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import {
  type ListedNotification,
  type Notification,
  type NotificationList,
  type NotificationReadAll,
  type Notifications,
  NOTIFICATIONS_MAX,
  type NotificationsRead,
  type NotificationUpdate,
} from "./schema.ts";
import { loadPreviews, redactForToken, redactInvisible, type ResourceVisibility } from "./notification_visibility.ts";
import {
  type NotificationRow,
  NotificationStore,
  type NotificationTables,
  type ReadRange,
  type RecentFilter,
} from "./store.ts";

/** What an agent does so soon after it has read a notification counts as caused by that. */
const AT_HAND_MS = MINUTE_MS;
const WITHDRAW_BATCH = 200;
/** Notifications of a principal that are added between two trims, and principals that are trimmed in one write. */
const UNTRIMMED_MAX = 50;
const TRIMS_MAX = 10;
const COUNTED_PRINCIPALS_MAX = 10_000;

/** A notification for several principals. The actor is never notified. */
export type NotificationDraft = {
  tenantId: string;
  principalIds: readonly string[];
  /** As registered by a module. */
  kind: string;
  /** Absent if the gateway caused it, such as at a point in time. */
  actor?: EventActor | undefined;
  /** How many agents led to it; default: to the running call. */
  agentHops?: number | undefined;
  roomId?: string | undefined;
  /** Reading its room as far as `seq`, if that is given, marks the notification as read. */
  message?: { id: string; seq?: number } | undefined;
  resource?: { type: string; id: string } | undefined;
  title?: string | undefined;
  data?: Notification["data"] | undefined;
  /** What caused it; a principal gets one notification per source. */
  source?: string | undefined;
};

/** Creates notifications; part of the transaction of the caller, if there is one. */
export type Notify = (...drafts: readonly NotificationDraft[]) => Promise<void>;

/** Registered kinds, each with the preference of the recipient that turns it off; null: always created. */
export type NotificationKinds = ReadonlyMap<string, keyof NotificationPrefs | null>;

type Deps = {
  store: Store<NotificationTables>;
  clock: Clock;
  cursors: Cursors;
  identity: IdentityService;
  /** Complete once all modules are built. */
  kinds: () => NotificationKinds;
  visibility: ResourceVisibility;
};
type Recipient = Pick<Actor, "tenantId" | "principalId">;

export class NotificationService {
  readonly #deps: Deps;
  /** How many were added since the last trim, by principal; one that is not in it is trimmed with its next one. */
  readonly #untrimmed = new LruMap<string, number>(COUNTED_PRINCIPALS_MAX);

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates notifications for recipients whose preferences allow them; part of the caller's transaction, if there is one. */
  async notify(...drafts: readonly NotificationDraft[]): Promise<void> {
    for (const [tenantId, own] of Map.groupBy(drafts, (draft) => draft.tenantId)) {
      const ids = [...new Set(own.flatMap((draft) => draft.principalIds))];
      if (ids.length === 0) continue;
      await this.#deps.store.write(async (tx) => {
        const notifications = new NotificationStore(tx.db);
        const recipients = await this.#deps.identity.findEnabled(tenantId, ids, tx.db);
        const callHops = await this.#callHops(notifications, tenantId, recipients);
        const prefs = new Map([...recipients].map(([id, row]) => [id, prefsOf(row)]));
        const rows = own.flatMap(({ agentHops = callHops, ...draft }) => {
          const preference = this.#preferenceFor(draft.kind);
          return draft.principalIds.filter((id) => {
            const enabled = prefs.get(id);
            return enabled !== undefined && id !== draft.actor?.principalId &&
              !isLoop(agentHops, recipients.get(id)?.kind) &&
              (preference === null || enabled[preference]);
          }).map((id) => this.#row(draft, id, agentHops));
        });
        const added = await this.#filterNew(tx, rows);
        if (added.length === 0) return;
        await tx.insertMany("notification", added);
        await tx.emit(
          ...added.map((row): EventDraft => ({
            tenantId,
            stream: principalStream(row.principal_id),
            type: "notification.created",
            ...row.actor_id === null || row.actor_kind === null
              ? {}
              : { actor: { principalId: row.actor_id, kind: row.actor_kind } },
            data: { notification: presentReference(row) },
          })),
        );
        for (const principalId of this.#dueForTrim(added)) {
          await notifications.trim(tenantId, principalId, NOTIFICATIONS_MAX);
        }
      });
    }
  }

  async list(actor: Actor, { limit, cursor, ...filter }: NotificationList): Promise<Notifications> {
    const { tenantId, principalId } = actor;
    const { cursors, store } = this.#deps;
    const notifications = new NotificationStore(store.db);
    const bind = ["notification.list", tenantId, principalId, filter];
    const before = cursors.decodeId(cursor, bind);
    const rows = await notifications.list(tenantId, principalId, filter, before, limit + 1);
    const page = cursors.page(rows, limit, bind, (row) => [row.id], (row) => row);
    const items = await this.present(actor, page.items);
    return { ...page, items, unreadCount: await notifications.unreadCount(tenantId, principalId) };
  }

  /** Notifications of the actor as lists have them. */
  async present(actor: Actor, rows: readonly NotificationRow[]): Promise<ListedNotification[]> {
    const [seen, texts] = await Promise.all([
      redactInvisible(this.#deps.visibility, actor, rows),
      loadPreviews(this.#deps.visibility, actor, rows),
    ]);
    return seen.map((row) => ({ ...this.#presentTo(actor, row), preview: texts.get(row.message_id ?? "") || null }));
  }

  /** Marks one as read, if it is there and unread; part of the caller's transaction, if there is one. */
  async markRead(actor: Actor, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const row = await new NotificationStore(tx.db).find(actor.tenantId, actor.principalId, id);
      if (row === undefined || row.read_at !== null) return;
      await this.update(actor, { id, readAt: iso(this.#deps.clock.now()), version: undefined });
    });
  }

  update(actor: Actor, { id, readAt, version }: NotificationUpdate): Promise<Notification> {
    const { tenantId, principalId } = actor;
    return this.#deps.store.write(async (tx) => {
      const notifications = new NotificationStore(tx.db);
      // Changes of the notifications of one principal are serialized, so that the version read next is the current one.
      await tx.lock(tenantId, principalStream(principalId));
      const found = await notifications.find(tenantId, principalId, id);
      const [row] = await redactInvisible(this.#deps.visibility, actor, found === undefined ? [] : [found], tx.db);
      if (row === undefined) throw notFound("notification");
      assertVersion("notification", row.version, version);
      const now = this.#deps.clock.now();
      const read_at = readAt === null ? null : iso(Math.min(now, Date.parse(readAt)));
      if (read_at === row.read_at) return this.#presentTo(actor, row);
      const after = { ...row, read_at, version: row.version + 1 };
      await notifications.setRead(tenantId, id, { read_at, version: after.version });
      // The event is for all sessions of the recipient, the response for the token of this call.
      await tx.emit({
        ...notificationEvent(actor, "notification.updated", { notification: presentReference(after) }),
        actor,
      });
      return this.#presentTo(actor, after);
    });
  }

  async readAll(actor: Actor, range: NotificationReadAll): Promise<NotificationsRead> {
    return await this.#deps.store.write(async (tx) => ({
      readCount: await this.markReadUpTo(actor, range),
      unreadCount: await new NotificationStore(tx.db).unreadCount(actor.tenantId, actor.principalId),
    }));
  }

  /** Marks those in a range as read, such as when their room is read; part of the caller's transaction, if there is one. */
  markReadUpTo(recipient: Recipient, range: ReadRange): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      const readAt = iso(this.#deps.clock.now());
      const count = await new NotificationStore(tx.db).markManyRead(
        recipient.tenantId,
        recipient.principalId,
        range,
        readAt,
      );
      if (count > 0) {
        const { upToId = null, roomId = null, upToSeq = null } = range;
        await tx.emit(notificationEvent(recipient, "notification.read", { upToId, roomId, upToSeq, readAt }));
      }
      return count;
    });
  }

  /**
   * Marks those of these principals about a resource as read, such as when it no longer waits for them; part of the
   * caller's transaction, if there is one.
   */
  markReadAbout(
    tenantId: string,
    principalIds: readonly string[],
    resource: { type: string; id: string },
  ): Promise<void> {
    return this.#deps.store.write(async (tx) => {
      const readAt = iso(this.#deps.clock.now());
      const rows = await new NotificationStore(tx.db).markReadAbout(tenantId, principalIds, resource, readAt);
      await tx.emit(...rows.map((row) => {
        const recipient = { tenantId, principalId: row.principal_id };
        return notificationEvent(recipient, "notification.updated", { notification: presentReference(row) });
      }));
    });
  }

  /** Ids of the rooms with messages that unread notifications of the principal are about. */
  async unreadRooms({ tenantId, principalId }: Recipient, db: AnyDatabase): Promise<Set<string>> {
    return new Set(await new NotificationStore(db).unreadRooms(tenantId, principalId));
  }

  /** Positions of messages with a notification within this time, newest first. */
  recentSeqs(filter: RecentFilter, withinMs: number, limit: number, db: AnyDatabase): Promise<number[]> {
    return new NotificationStore(db).recentSeqs(filter, iso(this.#deps.clock.now() - withinMs), limit);
  }

  /** Removes the notifications about deleted messages or a room, in batches so that other writers do not wait long. */
  async withdraw(tenantId: string, about: "message_id" | "room_id", ...ids: readonly string[]): Promise<void> {
    let removed: number;
    do {
      removed = await this.#deps.store.write(async (tx) => {
        const notifications = new NotificationStore(tx.db);
        const rows = await notifications.findAbout(tenantId, about, ids, WITHDRAW_BATCH);
        if (rows.length === 0) return 0;
        await notifications.remove(tenantId, rows.map((row) => row.id));
        const byPrincipal = Map.groupBy(rows, (row) => row.principal_id);
        await tx.emit(
          ...[...byPrincipal].map(([principalId, own]) =>
            notificationEvent({ tenantId, principalId }, "notification.removed", {
              notificationIds: own.map((row) => row.id),
            })
          ),
        );
        return rows.length;
      });
    } while (removed > 0);
  }

  /** Without those whose principal has one from their source. The streams are locked, so that no other run adds it meanwhile. */
  async #filterNew(
    tx: Transaction<NotificationTables>,
    rows: readonly NotificationRow[],
  ): Promise<readonly NotificationRow[]> {
    const [tenantId, bySource] = [rows[0]?.tenant_id, Map.groupBy(rows, ({ source }) => source)];
    const isNew = new Set(rows);
    for (const [source, own] of bySource) {
      if (source === null || tenantId === undefined) continue;
      const ids = [...new Set(own.map((row) => row.principal_id))];
      await tx.reserveAll(tenantId, new Map(ids.map((id) => [principalStream(id), 0])));
      const known = new Set(await new NotificationStore(tx.db).findNotified(tenantId, ids, source));
      for (const row of own) {
        if (known.has(row.principal_id)) isNew.delete(row);
        known.add(row.principal_id);
      }
    }
    return [...isNew];
  }

  /**
   * Whose notifications are trimmed now: counting a thousand for each new one would cost more than all else about it. So each has at
   * most `UNTRIMMED_MAX` more on each node, and what is due at once takes turns.
   */
  #dueForTrim(added: readonly NotificationRow[]): string[] {
    const due: string[] = [];
    for (const { tenant_id, principal_id } of added) {
      const key = `${tenant_id}/${principal_id}`;
      const untrimmed = (this.#untrimmed.get(key) ?? UNTRIMMED_MAX) + 1;
      const isDue = untrimmed > UNTRIMMED_MAX && due.length < TRIMS_MAX;
      if (isDue) due.push(principal_id);
      this.#untrimmed.set(key, isDue ? 0 : untrimmed);
    }
    return due;
  }

  #presentTo(actor: Actor, row: NotificationRow): Notification {
    return present(redactForToken(this.#deps.visibility, actor, row));
  }

  #preferenceFor(kind: string): keyof NotificationPrefs | null {
    const preference = this.#deps.kinds().get(kind);
    if (preference === undefined) throw new TypeError(`Expected a registered notification kind, received ${kind}`);
    return preference;
  }

  /**
   * How many agents led to the running call. An agent outside that passes no number on acts on what it has at hand, as far as its
   * inbox knows: else such agents would start each other without end.
   */
  async #callHops(
    notifications: NotificationStore,
    tenantId: string,
    recipients: ReadonlyMap<string, { kind: PrincipalKind }>,
  ): Promise<number> {
    const hops = currentAgentHops();
    const caller = currentCaller();
    if (hops !== 1 || caller?.kind !== "agent") return hops;
    if (!recipients.values().some(({ kind }) => kind === "agent")) return hops;
    const now = this.#deps.clock.now();
    return hops + await notifications.hopsAtHand(tenantId, caller.principalId, {
      now: iso(now),
      readAfter: iso(now - AT_HAND_MS),
    });
  }

  #row(draft: NotificationDraft, principalId: string, agentHops: number): NotificationRow {
    return {
      tenant_id: draft.tenantId,
      id: newId("ntf"),
      principal_id: principalId,
      kind: draft.kind,
      actor_id: draft.actor?.principalId ?? null,
      actor_kind: draft.actor?.kind ?? null,
      room_id: draft.roomId ?? null,
      message_id: draft.message?.id ?? null,
      seq: draft.message?.seq ?? null,
      resource_type: draft.resource?.type ?? null,
      resource_id: draft.resource?.id ?? null,
      title: draft.title ?? null,
      data_json: JSON.stringify(draft.data ?? {}),
      source: draft.source ?? null,
      read_at: null,
      version: 1,
      created_at: iso(this.#deps.clock.now()),
      agent_hops: agentHops,
    };
  }
}

/** Whether agents would go on starting each other: a person has to, next time. */
function isLoop(agentHops: number, recipientKind: string | undefined): boolean {
  return recipientKind === "agent" && agentHops > AGENT_HOPS_MAX;
}

function notificationEvent({ tenantId, principalId }: Recipient, type: string, data: unknown): EventDraft {
  return principalEvent({ tenantId }, principalId, type, data);
}

function present(row: NotificationRow): Notification {
  return { ...presentReference(row), title: row.title, data: JSON.parse(row.data_json) };
}

/** Without what the resource is called. */
function presentReference(row: NotificationRow): Omit<Notification, "title" | "data"> {
  return {
    id: row.id,
    kind: row.kind,
    actor: row.actor_id === null || row.actor_kind === null ? null : { id: row.actor_id, kind: row.actor_kind },
    roomId: row.room_id,
    messageId: row.message_id,
    seq: row.seq,
    resource: row.resource_type === null || row.resource_id === null
      ? null
      : { type: row.resource_type, id: row.resource_id },
    agentHops: row.agent_hops,
    readAt: row.read_at,
    version: row.version,
    createdAt: row.created_at,
  };
}
