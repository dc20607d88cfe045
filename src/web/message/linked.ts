// Messages that a message links to: each reader sees of them what they may read.
import type { VNode } from "preact";
import { useComputed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { addressOf } from "../core/api.ts";
import { shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { hrefOf } from "../core/route.ts";
import { roomName, rooms } from "../room/rooms.ts";
import { knownMessage, lineOf, requestMessage } from "./quotes.ts";

const SHOWN_MAX = 2;
const AROUND_LINK = /[\s()[\]<>]+/;

export default function Linked({ text }: { text: string }): VNode {
  return html`${linkedIds(text).map((id) => html`<${Preview} key=${id} id=${id} />`)}`;
}

function Preview({ id }: { id: string }): VNode | null {
  const message = useComputed(() => knownMessage(id)).value;
  useEffect(() => requestMessage(id), [message]);
  if (message === undefined || message.deletedAt !== null) return null;
  const { roomId, senderId, createdAt } = message;
  const room = rooms.value.get(roomId);
  return html`
    <a class="linked" href=${hrefOf(["rooms", roomId], { message: id })}>
      <small
        class="dim"><b dir="auto">${nameOf(senderId)}</b>${room === undefined
          ? null
          : html`${" in "}<b dir="auto">${roomName(room)}</b>`}${" "}<time datetime=${createdAt}>${shortTimeOf(
            createdAt,
          )}</time></small>
      <span dir="auto">${lineOf(message)}</span>
    </a>
  `;
}

/** The messages of this gateway that a text has the addresses of. */
function linkedIds(text: string): string[] {
  const rooms = addressOf("#/rooms/");
  const queries = text.split(AROUND_LINK).flatMap((part) => part.startsWith(rooms) ? part.split("?")[1] ?? [] : []);
  return [...new Set(queries.flatMap((query) => new URLSearchParams(query).get("message") ?? []))].slice(0, SHOWN_MAX);
}
