// The inbox: mentions, replies, invitations and reminders.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { shortTimeOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import type { Notification } from "../core/resources.ts";
import { Avatar } from "../part/avatar.ts";
import { PlaceHead, Placeholder } from "../part/place.ts";
import { roomName, rooms } from "../room/rooms.ts";
import {
  forgetOlder,
  hasOlder,
  markAllNotifications,
  markNotification,
  notifications,
  readNotifications,
  readOlder,
  unreadCount,
} from "./inbox_state.ts";
import { hrefOf, personIn, textOf, wordsOf } from "./words.ts";

export default function InboxPage(): VNode {
  // Events change the list by themselves.
  const read = useLatest(readNotifications, () => {});
  useLive(read, () => false);
  useEffect(() => forgetOlder, []);
  const items = notifications.value;
  const list = useRef<HTMLUListElement>(null);
  /** The first of them has the focus: the button may have disappeared. */
  const more = (): Promise<boolean> =>
    attempt(async () => {
      const { length } = items ?? [];
      await readOlder();
      requestAnimationFrame(() => list.current?.children[length]?.querySelector("a")?.focus());
    });
  return html`
    <${PlaceHead} title="Inbox">
      ${unreadCount.value === 0
        ? null
        : html`<button type="button" onClick=${() => void attempt(markAllNotifications)}>Mark all as read</button>`}
    <//>
    <div class="body"><div class="narrow">
      <${Placeholder} items=${items} read=${read} text="Nothing here. Mentions, replies and reminders arrive in this list." />
      <ul class="rows" ref=${list}>${(items ?? []).map((one) =>
        html`<${Entry} key=${one.id} notification=${one} />`
      )}</ul>
      ${hasOlder.value ? html`<button type="button" onClick=${() => void more()}>Show more</button>` : null}
    </div></div>
  `;
}

function Entry({ notification }: { notification: Notification }): VNode {
  const { kind, roomId, readAt, createdAt } = notification;
  const who = personIn(notification);
  const room = roomId === null || kind === "direct_message" ? undefined : rooms.value.get(roomId);
  const text = textOf(notification);
  return html`
    <li class=${classes("notification", readAt === null && "unread")}>
      ${who === undefined ? null : html`<${Avatar} id=${who} />`}
      <div>
        <a href=${hrefOf(notification)} onClick=${() => void attempt(() => markNotification(notification))}>
          ${who === undefined ? null : html`<b dir="auto">${nameOf(who)}</b>`}${who === undefined ? "" : " "}
          ${wordsOf(kind)}${room === undefined ? "" : kind === "invitation" ? " to " : " in "}
          ${room === undefined ? null : html`<b dir="auto">${roomName(room)}</b>`}</a>
        ${text ? html`<p class="dim clip" dir="auto">${text}</p>` : null}
      </div>
      <time datetime=${createdAt}>${shortTimeOf(createdAt)}</time>
    </li>
  `;
}
