// Who is typing in the open room.
import type { VNode } from "preact";
import { signal } from "@preact/signals";
import { html } from "../core/html.ts";
import { onEvent } from "../core/live.ts";
import { nameOf } from "../core/people.ts";
import { myId } from "../core/session.ts";

const SHOWN_MS = 5000;

/** By room and thread: who, and until when. */
const typing = signal<ReadonlyMap<string, ReadonlyMap<string, number>>>(new Map());

onEvent(({ type, actor, data }, channel) => {
  if (type === "typing" && actor !== null && actor.id !== myId()) {
    set(
      keyOf(channel.slice("room:".length), data?.threadId),
      actor.id,
      data?.typing === false ? 0 : Date.now() + SHOWN_MS,
    );
    setTimeout(expire, SHOWN_MS + 50);
  }
  // A message ends what its sender was typing.
  if (type === "message.created") {
    set(keyOf(data.message.roomId, data.message.threadId ?? undefined), data.message.senderId, 0);
  }
});

export function Typing({ roomId, threadId }: { roomId: string; threadId?: string }): VNode {
  const names = [...typing.value.get(keyOf(roomId, threadId))?.keys() ?? []].map(nameOf);
  const text = names.length === 0
    ? ""
    : names.length > 3
    ? "Several people are typing…"
    : `${names.join(", ")} ${names.length === 1 ? "is" : "are"} typing…`;
  return html`<p class="typing" aria-live="polite" dir="auto">${text}</p>`;
}

function keyOf(roomId: string, threadId: string | undefined): string {
  return threadId ?? roomId;
}

function set(key: string, id: string, until: number): void {
  const before = typing.value.get(key);
  if (until === 0 && before?.has(id) !== true) return;
  const next = new Map(before);
  if (until === 0) next.delete(id);
  else next.set(id, until);
  typing.value = new Map(typing.value).set(key, next);
}

function expire(): void {
  const now = Date.now();
  for (const [key, all] of typing.value) {
    for (const [id, until] of all) if (until <= now) set(key, id, 0);
  }
}
