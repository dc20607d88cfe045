// Notifications in the API, and their events on the stream of the recipient.
import { z } from "@zod/zod";
import { PrincipalKind } from "@/core/actor.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { Json } from "@/core/json.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { BaseVersion } from "@/core/patch.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";

/** How many notifications are stored per principal; beyond it, the oldest are deleted. */
export const NOTIFICATIONS_MAX = 1000;

const NotificationId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");
const Id = z.string().max(128);

/** Maximum length of a preview in UTF-16 code units. */
export const PREVIEW_MAX = 200;

/** The fields of a notification besides its id and kind. */
const FIELDS = {
  actor: z.object({ id: PrincipalId, kind: PrincipalKind }).meta({ id: "NotificationActor" }).nullable().describe(
    "Principal that caused it; null: the gateway",
  ),
  roomId: Id.nullable(),
  messageId: Id.nullable().describe(
    "Message it is about; read it for its text, or use the preview in lists, since it may have changed",
  ),
  seq: z.int().nullable().describe(
    "Position of the message; moving the read position of the room this far marks the notification as read",
  ),
  resource: z.object({ type: z.string().describe("Kind of resource"), id: z.string() }).meta({
    id: "NotificationResource",
  }).nullable().describe("Resource it is about, if not a message"),
  title: z.string().nullable().describe(
    "null also if the resource was deleted, is no longer visible to the caller, or its read scope is missing",
  ),
  data: z.record(z.string(), Json),
  agentHops: z.int().describe(
    "How many agents led to it, one after the other. An agent that acts on it passes it on, as `baggage: agent-hops=<it>`",
  ),
  readAt: z.iso.datetime().nullable(),
  version: z.int(),
  createdAt: z.iso.datetime(),
};

/**
 * The schemas that contain kinds of notifications. Modules register kinds, so `kinds` is not called before all of them are
 * built. The return type is inferred from the schemas.
 */
// deno-lint-ignore explicit-module-boundary-types
export function notificationSchemas(kinds: () => readonly string[]) {
  let named: z.ZodType<string> | undefined;
  const kindSchema = (): z.ZodType<string> => named ??= z.enum(kinds()).meta({ id: "NotificationKind" });
  const Kind = z.lazy(kindSchema);
  const Kinds = z.lazy(() => z.array(kindSchema()).max(kinds().length));

  const Notification = z.object({
    id: NotificationId,
    kind: Kind.describe("Kinds may be added; show unknown kinds by their title"),
    ...FIELDS,
  }).meta({ id: "Notification" });

  const NotificationList = z.strictObject({
    ...pageInput,
    unread: z.boolean().optional().describe("true: only unread ones; false: only read ones"),
    kind: Kinds.optional().describe("Only these kinds"),
    roomId: Id.optional(),
  });

  const ListedNotification = Notification.extend({
    preview: z.string().nullable().describe(
      `Current start of the message, at most ${PREVIEW_MAX} UTF-16 code units; null without a message, or if ` +
        "the caller may not read it. Requires the scope `message.read`",
    ),
  }).meta({ id: "ListedNotification" });

  const Notifications = pageSchema(ListedNotification).extend({
    unreadCount: z.int().describe("Unread notifications of all kinds and rooms"),
  }).meta({ id: "Notifications" });

  // Events are read later and by tokens of every scope. Lists have titles, within the rights that their reader has then.
  const NotificationReference = Notification.omit({ title: true, data: true }).meta({ id: "NotificationReference" });

  return {
    Notification,
    NotificationList,
    ListedNotification,
    Notifications,
    events: notificationEvents(NotificationReference),
  };
}

export type NotificationSchemas = ReturnType<typeof notificationSchemas>;
export type Notification = z.output<NotificationSchemas["Notification"]>;
export type NotificationList = z.output<NotificationSchemas["NotificationList"]>;
export type ListedNotification = z.output<NotificationSchemas["ListedNotification"]>;
export type Notifications = z.output<NotificationSchemas["Notifications"]>;

export const NotificationUpdate = z.strictObject({
  id: NotificationId,
  readAt: TimeInput.nullable().describe("When it was read, not in the future; null marks it as unread"),
  version: BaseVersion,
});
export type NotificationUpdate = z.output<typeof NotificationUpdate>;

export const NotificationReadAll = z.strictObject({
  upToId: NotificationId.optional().describe("Newest notification to mark; later ones stay unread. Default: all"),
  roomId: Id.optional().describe("Only notifications about this room"),
});
export type NotificationReadAll = z.output<typeof NotificationReadAll>;

export const NotificationsRead = z.object({
  readCount: z.int().describe("Number of notifications marked as read"),
  unreadCount: z.int().describe("Number of notifications that are still unread"),
}).meta({ id: "NotificationsRead" });
export type NotificationsRead = z.output<typeof NotificationsRead>;

/** Durable events on the stream of the recipient. */
function notificationEvents(notification: z.ZodType): readonly EventType[] {
  const data = z.object({ notification });
  return eventTypes("notification.read", [
    {
      type: "notification.created",
      streams: ["principal"],
      summary: "A notification was created; its title is in `notification.list`",
      data,
    },
    {
      type: "notification.updated",
      streams: ["principal"],
      summary: "A notification was marked as read or unread",
      data,
    },
    {
      type: "notification.read",
      streams: ["principal"],
      summary: "Several notifications were marked as read: those matching all non-null fields",
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
      summary: "A notification was withdrawn, because its resource was deleted or is no longer visible",
      data: z.object({ notificationIds: z.array(NotificationId) }),
    },
  ]);
}
