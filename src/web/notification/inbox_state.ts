// Notifications of the caller, read again when one of them changes.
import { signal } from "@preact/signals";
import { call, get, post } from "../core/api.ts";
import { onEvent } from "../core/live.ts";
import type { Notification } from "../core/resources.ts";

type Notifications = { items: Notification[]; unreadCount: number; nextCursor: string | null };

const READ_AGAIN_MS = 300;

export const notifications = signal<readonly Notification[]>([]);
export const unreadCount = signal(0);
let timer: ReturnType<typeof setTimeout> | undefined;

export async function readNotifications(): Promise<void> {
  const { items, unreadCount: unread } = await get<Notifications>("v1/collaboration/notifications", { limit: 50 });
  notifications.value = items;
  unreadCount.value = unread;
}

export async function markNotification({ id, readAt }: Notification): Promise<void> {
  if (readAt !== null) return;
  await call("PATCH", `v1/collaboration/notifications/${id}`, { readAt: new Date().toISOString() });
  await readNotifications();
}

export async function markAllNotifications(): Promise<void> {
  await post("v1/collaboration/notifications/read", {});
  await readNotifications();
}

onEvent(({ type }) => {
  if (!type.startsWith("notification.")) return;
  clearTimeout(timer);
  timer = setTimeout(() => {
    readNotifications().catch(() => {
      // Read again with the next change.
    });
  }, READ_AGAIN_MS);
});
