// Pinned messages of a room.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { get } from "../core/api.ts";
import { shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { useLatest } from "../core/notice.ts";
import { addPeople, nameOf } from "../core/people.ts";
import type { Message, Person, Room } from "../core/resources.ts";
import { markdown, mentionNames } from "../message/markdown.ts";
import { leavePane } from "../message/row.ts";
import { Heading } from "../part/dialog.ts";
import { Placeholder } from "../part/place.ts";

export default function PinsPane({ room }: { room: Room }): VNode {
  const [items, setItems] = useState<readonly Message[]>();
  const read = useLatest(
    () => get<{ items: Message[]; senders?: Person[] }>(`v1/rooms/${room.id}/pins`, { include: ["senders"] }),
    ({ items, senders = [] }) => {
      addPeople(senders);
      setItems(items);
    },
  );
  useLive(
    read,
    ({ type }, channel) =>
      /^message\.(?:pinned|unpinned|updated|deleted|expired)$/.test(type) && channel === `room:${room.id}`,
    [room.id],
  );
  return html`
    <aside class="pane" aria-label="Pinned messages">
      <${Heading} title="Pinned" onClose=${() => leavePane(room.id)} />
      <${Placeholder} items=${items} read=${read} text="Nothing is pinned. Pin a message from its menu." />
      <ul class="cards scroll">${(items ?? []).map((message) =>
        html`<li key=${message.id}><a href=${`#/rooms/${room.id}?pane=pins&message=${message.id}`}>
        <small class="dim"><b dir="auto">${nameOf(message.senderId)}</b> ${shortTimeOf(message.createdAt)}</small></a>
        <div class="text" dir="auto">${markdown(message.text ?? "", mentionNames(message.mentions))}</div></li>`
      )}</ul>
    </aside>
  `;
}
