// Notifications of the caller, read again when one of them changes.
import { signal } from "@preact/signals";
import { call, get, post } from "../core/api.ts";
import { onEvent } from "../core/live.ts";
import type { Notification } from "../core/resources.ts";

type Notifications = { items: Notification[]; unreadCount: number; nextCursor: string | null };

const READ_AGAIN_MS = 300;
const SHOWN = 50;
/** Size of a page of the API. */
const PAGE_MAX = 200;

export const notifications = signal<readonly Notification[] | undefined>(undefined);
export const unreadCount = signal(0);
export const hasUnreadThreads = signal(false);
/** Whether there are older ones than those that are shown. */
export const hasOlder = signal(false);
let wanted = SHOWN;
let timer: ReturnType<typeof setTimeout> | undefined;
/** Counts what was asked for: only the last response is shown. */
let place = 0;

/** Reads as many as are shown: any of them may have changed. */
export async function readNotifications(): Promise<void> {
  const mine = ++place;
  const items: Notification[] = [];
  let unread = 0;
  let cursor: string | undefined;
  do {
    const limit = Math.min(PAGE_MAX, wanted - items.length);
    const page = await get<Notifications>("v1/collaboration/notifications", { limit, cursor });
    items.push(...page.items);
    unread = page.unreadCount;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined && items.length < wanted);
  if (mine !== place) return;
  notifications.value = items;
  unreadCount.value = unread;
  hasOlder.value = cursor !== undefined;
}

/** From now on, no more than the newest ones are read. */
export function forgetOlder(): void {
  wanted = SHOWN;
}

export async function readOlder(): Promise<void> {
  wanted = (notifications.value ?? []).length + SHOWN;
  await readNotifications();
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
