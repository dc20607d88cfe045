// The notification module: notifications of principals, and who may still see what they name.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import { type IdentityService, NotificationPrefs } from "@/modules/identity/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { notificationApi } from "./api.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { type NotificationSchemas, notificationSchemas } from "./schema.ts";
import { type NotificationKinds, NotificationService, type Notify } from "./service.ts";
import type { ResourceVisibility } from "./notification_visibility.ts";

export type NotificationModule = Module & {
  notifications: NotificationService;
  notify: Notify;
  schemas: NotificationSchemas;
};

export function notificationModule(
  { store, clock, cursors, modules }: Platform,
  deps: { identity: IdentityService; messageTexts: ResourceVisibility["readTexts"] },
): NotificationModule {
  let registered: NotificationKinds | undefined;
  const kinds = () => registered ??= notificationKindsOf(modules);
  const readCheckFor: ResourceVisibility["readCheckFor"] = (type) =>
    modules.map(({ canRead }) => canRead?.[type]).find((found) => found !== undefined);
  const scopeOf: ResourceVisibility["scopeOf"] = (type) =>
    modules.map(({ resourceScopes }) => resourceScopes?.[type]).find((found) => found !== undefined);
  const notifications = new NotificationService({
    store,
    clock,
    cursors,
    kinds,
    identity: deps.identity,
    visibility: { readCheckFor, scopeOf, readTexts: deps.messageTexts },
  });
  const schemas = notificationSchemas(() => [...kinds().keys()]);
  return {
    name: "notification",
    migrations,
    erases,
    ...notificationApi(notifications, schemas),
    jobs: [
      defineJob({
        kind: "notification.withdraw",
        payload: z.strictObject({ messageId: z.string() }),
        run: ({ tenantId, payload }) => notifications.withdraw(tenantId, "message_id", payload.messageId),
      }),
    ],
    // Once all modules are built: a conflict between two of them stops the start.
    start: () => void kinds(),
    purgeRoom: (tenantId, roomId) => notifications.withdraw(tenantId, "room_id", roomId),
    notifications,
    schemas,
    notify: (...drafts) => notifications.notify(...drafts),
  };
}

/** The kinds of all modules, each with the preference that turns it off. */
function notificationKindsOf(modules: readonly Module[]): NotificationKinds {
  const kinds = new Map<string, keyof NotificationPrefs | null>();
  for (const [kind, preference] of modules.flatMap((module) => Object.entries(module.notificationKinds ?? {}))) {
    if (kinds.has(kind)) throw new TypeError(`Expected one notification kind ${kind}, received two`);
    kinds.set(kind, preference === null ? null : NotificationPrefs.keyof().parse(preference));
  }
  return kinds;
}
