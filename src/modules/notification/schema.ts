// Notifications as seen from outside, and the events they cause on the stream of their principal.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS } from "@/core/actor.ts";
import type { EventType } from "@/core/event.ts";
import { Json } from "@/core/json.ts";
import { pageInput, pageOf } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";

const NOTIFICATION_KINDS = [
  "mention",
  "direct_message",
  "reply",
  "invitation",
  "reminder",
  "scheduled_message_failed",
  "task_assigned",
  "task_due",
  "missed_call",
] as const;
export const NotificationKind = z.enum(NOTIFICATION_KINDS);
export type NotificationKind = z.output<typeof NotificationKind>;

/** How many a principal keeps; beyond it the oldest go. */
export const NOTIFICATIONS_MAX = 1000;

const NotificationId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");
const Id = z.string().max(128);

export const Notification = z.object({
  id: NotificationId,
  kind: NotificationKind.describe("More kinds may come; show those you do not know by their title"),
  actor: z.object({ id: PrincipalId, kind: z.enum(PRINCIPAL_KINDS) }).nullable().describe("null: the gateway itself"),
  roomId: Id.nullable(),
  messageId: Id.nullable().describe(
    "Read the message for its text, or see the preview in lists: it may have changed since",
  ),
  seq: z.int().nullable().describe("Position of the message; reading the room that far reads the notification"),
  resource: z.object({ type: z.string(), id: z.string() }).nullable().describe("What it is about when not a message"),
  title: z.string().nullable().describe("null as well when what it names is gone, or no longer the caller's to see"),
  data: z.record(z.string(), Json),
  readAt: z.iso.datetime().nullable(),
  version: z.int(),
  createdAt: z.iso.datetime(),
}).meta({ id: "Notification" });
export type Notification = z.output<typeof Notification>;

export const NotificationList = z.strictObject({
  ...pageInput,
  unread: z.boolean().optional().describe("true: only unread ones, false: only read ones"),
  kinds: z.array(NotificationKind).max(NOTIFICATION_KINDS.length).optional(),
  roomId: Id.optional(),
});
export type NotificationList = z.output<typeof NotificationList>;

/** How many UTF-16 units of a message a preview has at most. */
export const PREVIEW_MAX = 200;

const ListedNotification = Notification.extend({
  preview: z.string().nullable().describe(
    `How the message begins now, at most ${PREVIEW_MAX} UTF-16 units; null without one, or where the caller may not read it. ` +
      "Takes the scope `message.read`",
  ),
}).meta({ id: "ListedNotification" });
export type ListedNotification = z.output<typeof ListedNotification>;

export const Notifications = pageOf(ListedNotification).extend({
  unreadCount: z.int().describe("Unread ones of every kind and room"),
}).meta({ id: "Notifications" });
export type Notifications = z.output<typeof Notifications>;

export const NotificationUpdate = z.strictObject({
  id: NotificationId,
  readAt: z.iso.datetime().nullable().describe("When it was read, not later than now; null = unread again"),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type NotificationUpdate = z.output<typeof NotificationUpdate>;

export const NotificationReadAll = z.strictObject({
  upToId: NotificationId.optional().describe("The newest one seen; later ones stay unread. Default: all"),
  roomId: Id.optional().describe("Only those about this room"),
});
export type NotificationReadAll = z.output<typeof NotificationReadAll>;

export const NotificationsRead = z.object({
  readCount: z.int().describe("How many were unread before"),
  unreadCount: z.int(),
}).meta({ id: "NotificationsRead" });
export type NotificationsRead = z.output<typeof NotificationsRead>;

const one = z.object({ notification: Notification });

/** Durable events on the stream of the principal. */
export const NOTIFICATION_EVENTS: readonly EventType[] = [
  { type: "notification.created", streams: ["principal"], summary: "Something to look at", data: one },
  { type: "notification.updated", streams: ["principal"], summary: "It was read, or made unread again", data: one },
  {
    type: "notification.read",
    streams: ["principal"],
    summary: "Several were read at once: those that fit all fields that are not null",
    data: z.object({
      upToId: NotificationId.nullable(),
      roomId: Id.nullable(),
      upToSeq: z.int().nullable(),
      readAt: z.iso.datetime(),
    }),
  },
  {
    type: "notification.removed",
    streams: ["principal"],
    summary: "What it was about is gone",
    data: z.object({ notificationIds: z.array(NotificationId) }),
  },
];
