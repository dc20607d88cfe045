// Notifications: made by whichever module has something to tell, kept per principal, read one by one or all at once.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { type EventDraft, principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Cursors } from "@/core/page.ts";
import { checkVersion } from "@/core/patch.ts";
import { type IdentityService, NotificationPrefs } from "@/modules/identity/mod.ts";
import type { Store } from "@/ports/store.ts";
import {
  type Notification,
  type NotificationKind,
  type NotificationList,
  type NotificationReadAll,
  type Notifications,
  NOTIFICATIONS_MAX,
  type NotificationsRead,
  type NotificationUpdate,
} from "./schema.ts";
import { previews, shown, type Sight } from "./sight.ts";
import {
  type NotificationRow,
  NotificationStore,
  type NotificationTables,
  type ReadRange,
  type Told,
} from "./store.ts";

const REMOVED_AT_ONCE = 200;

/** Something that some principals should look at. Nobody is told of what they did themselves. */
export type NotificationDraft = {
  tenantId: string;
  principalIds: readonly string[];
  kind: NotificationKind;
  /** Absent when the gateway or time did it. */
  actor?: Pick<Actor, "principalId" | "kind"> | undefined;
  roomId?: string | undefined;
  message?: { id: string; seq: number } | undefined;
  resource?: { type: string; id: string } | undefined;
  title?: string | undefined;
  data?: Notification["data"] | undefined;
  /** What it is made from; a second one of the same source is not made. */
  source?: string | undefined;
};

/** Makes notifications. Called inside the transaction of a change, it takes part in that. */
export type Notify = (...drafts: readonly NotificationDraft[]) => Promise<void>;

/** The preference that switches a kind off; the others are always made. */
const PREFERENCE: Partial<Record<NotificationKind, keyof ReturnType<typeof NotificationPrefs.parse>>> = {
  mention: "mentions",
  direct_message: "directMessages",
  reply: "replies",
  invitation: "invitations",
  reminder: "reminders",
  task_due: "reminders",
};

type Deps = {
  store: Store<NotificationTables>;
  clock: Clock;
  cursors: Cursors;
  identity: IdentityService;
  sight: Sight;
};
type Who = Pick<Actor, "tenantId" | "principalId">;

export class NotificationService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Makes notifications for those who want them; part of the caller's transaction when there is one. */
  async notify(...drafts: readonly NotificationDraft[]): Promise<void> {
    for (const [tenantId, own] of Map.groupBy(drafts, (draft) => draft.tenantId)) {
      const ids = [...new Set(own.flatMap((draft) => draft.principalIds))];
      if (ids.length === 0) continue;
      await this.#deps.store.write(async (tx) => {
        const notifications = new NotificationStore(tx.db);
        const people = await this.#deps.identity.enabled(tenantId, ids);
        const prefs = new Map(
          [...people].map(([id, row]) => [id, NotificationPrefs.parse(JSON.parse(row.prefs_json))]),
        );
        const rows = own.flatMap((draft) =>
          draft.principalIds.filter((id) => {
            const wanted = prefs.get(id);
            const name = PREFERENCE[draft.kind];
            return wanted !== undefined && id !== draft.actor?.principalId && (name === undefined || wanted[name]);
          }).map((id) => this.#row(draft, id))
        );
        if (rows.length === 0) return;
        const added = await notifications.add(rows);
        const fresh = rows.filter((row) => added.has(row.id));
        await tx.emit(
          ...fresh.map((row): EventDraft => ({
            tenantId,
            stream: principalStream(row.principal_id),
            type: "notification.created",
            ...row.actor_id === null || row.actor_kind === null
              ? {}
              : { actor: { principalId: row.actor_id, kind: row.actor_kind } },
            data: { notification: present(row) },
          })),
        );
        const told = new Set(fresh.map((row) => row.principal_id));
        if (told.size === 0) return;
        for (const principalId of await notifications.full(tenantId, [...told], NOTIFICATIONS_MAX)) {
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
    const before = cursors.open(cursor, bind)?.[0]?.toString();
    const rows = await notifications.list(tenantId, principalId, filter, before, limit + 1);
    const page = cursors.page(rows, limit, bind, (row) => [row.id], (row) => row);
    const [seen, texts] = await Promise.all([
      shown(this.#deps.sight, actor, page.items),
      previews(this.#deps.sight, actor, page.items),
    ]);
    const items = seen.map((row) => ({ ...present(row), preview: texts.get(row.message_id ?? "") || null }));
    return { ...page, items, unreadCount: await notifications.unreadCount(tenantId, principalId) };
  }

  update(actor: Actor, { id, readAt, version }: NotificationUpdate): Promise<Notification> {
    const { tenantId, principalId } = actor;
    return this.#deps.store.write(async (tx) => {
      const notifications = new NotificationStore(tx.db);
      // Changes of one's notifications take turns: what is read next is what this one builds on.
      await tx.reserve(tenantId, principalStream(principalId), 0);
      const found = await notifications.find(tenantId, principalId, id);
      const [row] = await shown(this.#deps.sight, actor, found === undefined ? [] : [found]);
      if (row === undefined) throw new Fault("not_found", "No such notification");
      checkVersion("notification", row.version, version);
      const now = this.#deps.clock.now();
      const read_at = readAt === null ? null : iso(Math.min(now, Date.parse(readAt)));
      if (read_at === row.read_at) return present(row);
      const after = { ...row, read_at, version: row.version + 1 };
      await notifications.setRead(tenantId, id, { read_at, version: after.version });
      await tx.emit({ ...told(actor, "notification.updated", { notification: present(after) }), actor });
      return present(after);
    });
  }

  async readAll(actor: Actor, range: NotificationReadAll): Promise<NotificationsRead> {
    return await this.#deps.store.write(async (tx) => ({
      readCount: await this.readUpTo(actor, range),
      unreadCount: await new NotificationStore(tx.db).unreadCount(actor.tenantId, actor.principalId),
    }));
  }

  /** Reads those in a range, as when their room was read; part of the caller's transaction when there is one. */
  readUpTo(who: Who, range: ReadRange): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      const readAt = iso(this.#deps.clock.now());
      const count = await new NotificationStore(tx.db).readMany(who.tenantId, who.principalId, range, readAt);
      if (count > 0) {
        const { upToId = null, roomId = null, upToSeq = null } = range;
        await tx.emit(told(who, "notification.read", { upToId, roomId, upToSeq, readAt }));
      }
      return count;
    });
  }

  /** Positions of the last messages, at most so many, that somebody was told of within this time; the newest first. */
  toldOf(told: Told, withinMs: number, limit: number): Promise<number[]> {
    const { store, clock } = this.#deps;
    return new NotificationStore(store.db).toldOf(told, iso(clock.now() - withinMs), limit);
  }

  /** Takes back what was told about messages or a room that are gone, some at a time so that nobody waits long. */
  async retract(tenantId: string, about: "message_id" | "room_id", ...ids: readonly string[]): Promise<void> {
    let removed: number;
    do {
      removed = await this.#deps.store.write(async (tx) => {
        const notifications = new NotificationStore(tx.db);
        const rows = await notifications.about(tenantId, about, ids, REMOVED_AT_ONCE);
        if (rows.length === 0) return 0;
        await notifications.remove(tenantId, rows.map((row) => row.id));
        const byPrincipal = Map.groupBy(rows, (row) => row.principal_id);
        await tx.emit(
          ...[...byPrincipal].map(([principalId, own]) =>
            told({ tenantId, principalId }, "notification.removed", { notificationIds: own.map((row) => row.id) })
          ),
        );
        return rows.length;
      });
    } while (removed > 0);
  }

  #row(draft: NotificationDraft, principalId: string): NotificationRow {
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
    };
  }
}

function told({ tenantId, principalId }: Who, type: string, data: unknown): EventDraft {
  return { tenantId, stream: principalStream(principalId), type, data };
}

function present(row: NotificationRow): Notification {
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
    title: row.title,
    data: JSON.parse(row.data_json),
    readAt: row.read_at,
    version: row.version,
    createdAt: row.created_at,
  };
}
