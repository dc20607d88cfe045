// Notifications of the system, while the page is not in front: only where a person has asked for them in this browser.
import { signal } from "@preact/signals";
import { get } from "../core/api.ts";
import { onEvent } from "../core/live.ts";
import { goTo } from "../core/route.ts";
import type { Notification as Entry } from "../core/resources.ts";
import { token } from "../core/session.ts";
import { headlineOf, hrefOf, textOf } from "./words.ts";

const KEY = "gateway.desktop";
/** Among the newest ones is the one that an event is about. */
const READ = 10;

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
}

function permission(): NotificationPermission | undefined {
  return "Notification" in globalThis ? Notification.permission : undefined;
}

async function show(id: string): Promise<void> {
  const { items } = await get<{ items: Entry[] }>("v1/collaboration/notifications", { limit: READ });
  const entry = items.find((one) => one.id === id);
  if (entry === undefined || entry.readAt !== null || document.hasFocus()) return;
  // Of several tabs, one is enough.
  const shown = new Notification(headlineOf(entry), { body: textOf(entry), tag: id });
  shown.onclick = () => {
    focus();
    goTo(hrefOf(entry));
    shown.close();
  };
}

onEvent(({ type, data }) => {
  if (type !== "notification.created" || !isShown.value || document.hasFocus() || token.value === "") return;
  show(data.notification.id).catch(() => {
    // It is in the inbox. Some browsers on phones have no such notifications.
  });
});
