// Notifications of the system, while the page is not in front: only where a person has asked for them in this browser. Where the
// gateway pushes, they are the service worker's, which shows them also when no page is open.
import { effect, signal } from "@preact/signals";
import { get } from "../core/api.ts";
import { onEvent } from "../core/live.ts";
import { goTo } from "../core/route.ts";
import type { Notification as Entry } from "../core/resources.ts";
import { nameOf } from "../core/people.ts";
import { me, token } from "../core/session.ts";
import { subscribe, unsubscribe } from "./push.ts";
import { headlineOf, hrefOf, personIn, textOf } from "./words.ts";

const KEY = "gateway.desktop";
/** Among the newest ones is the one that an event is about. */
const READ = 10;

/** Whether the service worker shows them. */
let isPushed = false;
/** Whether they are shown in this browser. */
export const isShown = signal(localStorage.getItem(KEY) === "on" && permission() === "granted");

export function isAvailable(): boolean {
  return permission() !== undefined;
}

/** Asks the browser for permission; it remembers a refusal, and asks a person only once. */
export async function setShown(wanted: boolean): Promise<void> {
  if (wanted && await Notification.requestPermission() !== "granted") {
    throw new Error(
      "Your browser does not allow this page to notify you. Change that in the settings beside its address",
    );
  }
  if (wanted) localStorage.setItem(KEY, "on");
  else localStorage.removeItem(KEY);
  isShown.value = wanted;
  if (wanted) return;
  isPushed = false;
  await unsubscribe();
}

function permission(): NotificationPermission | undefined {
  return "Notification" in globalThis ? Notification.permission : undefined;
}

async function show(id: string): Promise<void> {
  const { items } = await get<{ items: Entry[] }>("v1/collaboration/notifications", { limit: READ });
  const entry = items.find((one) => one.id === id);
  if (entry === undefined || entry.readAt !== null || document.hasFocus()) return;
  // Of several tabs, one is enough.
  const who = personIn(entry);
  const shown = new Notification(headlineOf(entry.kind, who === undefined ? undefined : nameOf(who)), {
    body: textOf(entry),
    tag: id,
  });
  shown.onclick = () => {
    focus();
    goTo(hrefOf(entry));
    shown.close();
  };
}

onEvent(({ type, data }) => {
  if (type !== "notification.created" || !isShown.value || isPushed || document.hasFocus() || token.value === "") {
    return;
  }
  show(data.notification.id).catch(() => {
    // It is in the inbox. Some browsers on phones have no such notifications.
  });
});

// Also at each start, as a subscription ends that is not renewed.
effect(() => {
  if (me.value === undefined || !isShown.value) return;
  subscribe().then((isSubscribed) => isPushed = isSubscribed, () => {
    // As long as a page is open, it shows them itself.
  });
});
