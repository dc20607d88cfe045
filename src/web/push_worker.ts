// The service worker: shows what is pushed, also while no page of the client is open. It handles no requests.
import type { Notification } from "./core/resources.ts";
import { headlineOf, hrefOf, textOf } from "./notification/words.ts";

/** As in `push_subscription.create`. */
type Push = { notification: Notification; actorName: string | null; moreCount: number };

// Types of workers and of pages cannot be used together: of the former only what is used here.
type Waiting = { waitUntil(work: Promise<unknown>): void };
type Page = { focused: boolean; focus(): Promise<unknown>; postMessage(data: unknown): void };
type WorkerEvents = {
  push: Waiting & { data: { json(): Push } | null };
  notificationclick: Waiting & { notification: { data: { href: string }; close(): void } };
};
declare const self: {
  addEventListener<Type extends keyof WorkerEvents>(type: Type, listen: (event: WorkerEvents[Type]) => void): void;
  clients: {
    matchAll(options: { type: "window"; includeUncontrolled: boolean }): Promise<Page[]>;
    openWindow(url: URL): Promise<unknown>;
  };
  registration: {
    scope: string;
    showNotification(title: string, options: NotificationOptions): Promise<void>;
  };
};

self.addEventListener("push", (event) => {
  if (event.data !== null) event.waitUntil(show(event.data.json()));
});

self.addEventListener("notificationclick", (event) => {
  const { notification } = event;
  notification.close();
  event.waitUntil(open(notification.data.href));
});

function pages(): Promise<Page[]> {
  return self.clients.matchAll({ type: "window", includeUncontrolled: true });
}

async function show({ notification, actorName, moreCount }: Push): Promise<void> {
  // A person who looks at the client sees it there.
  if ((await pages()).some(({ focused }) => focused)) return;
  const headline = headlineOf(notification.kind, actorName ?? undefined);
  await self.registration.showNotification(moreCount === 0 ? headline : `${headline}, and ${moreCount} more`, {
    body: textOf(notification),
    tag: notification.id,
    data: { href: hrefOf(notification) },
  });
}

/** In a page of the client, if one is open. */
async function open(href: string): Promise<void> {
  const [page] = await pages();
  if (page === undefined) return void await self.clients.openWindow(new URL(href, self.registration.scope));
  page.postMessage({ href });
  await page.focus();
}
