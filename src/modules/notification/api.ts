// Operations on the caller's own notifications; no operation accepts another principal.
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { NotificationReadAll, type NotificationSchemas, NotificationsRead, NotificationUpdate } from "./schema.ts";
import type { NotificationService } from "./service.ts";

const PATH = "/v1/collaboration/notifications";

export function notificationApi(
  notifications: NotificationService,
  { Notification, NotificationList, Notifications, events }: NotificationSchemas,
): ModuleApi {
  return {
    tags: { notifications: "Mentions, direct messages, invitations and reminders for the caller." },
    events,
    operations: [
      defineOperation({
        name: "notification.list",
        summary: "List the caller's notifications, newest first",
        description: "About the newest 1000 are stored.",
        access: { scope: "notification.read" },
        http: { method: "GET", path: PATH, status: 200 },
        input: NotificationList,
        output: Notifications,
        faults: ["invalid_cursor"],
        ownData: {},
        run: ({ actor }, input) => notifications.list(actor, input),
      }),
      defineOperation({
        name: "notification.update",
        summary: "Mark a notification as read or unread",
        access: { scope: "notification.write" },
        http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
        input: NotificationUpdate,
        output: Notification,
        faults: ["not_found", "version_mismatch"],
        example: { id: exampleId("ntf"), readAt: "2026-03-01T12:00:00.000Z" },
        run: ({ actor }, input) => notifications.update(actor, input),
      }),
      defineOperation({
        name: "notification.read_all",
        summary: "Mark all notifications as read, or those up to one, or those of a room",
        access: { scope: "notification.write" },
        http: { method: "POST", path: `${PATH}/read`, status: 200 },
        input: NotificationReadAll,
        output: NotificationsRead,
        example: {},
        run: ({ actor }, input) => notifications.readAll(actor, input),
      }),
    ],
  };
}
