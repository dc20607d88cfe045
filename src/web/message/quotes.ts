// Messages that others reply or link to, and that are not on the screen: read one after the other, since there may be many.
import { signal } from "@preact/signals";
import { ApiError, get } from "../core/api.ts";
import { onEvent } from "../core/live.ts";
import { addPeople } from "../core/people.ts";
import type { Message, Person } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { plainText } from "./plain_text.ts";
import { findBeside } from "./timeline.ts";

/** A message that replies to another one. */
export type Reply = Pick<Message, "roomId" | "threadId" | "replyToId">;

const READ_MAX = 500;
const TEXT_MAX = 200;

/** By id; null: the caller cannot see it. */
const read = signal<ReadonlyMap<string, Message | null>>(new Map());
const requested = new Set<string>();
let isReading = false;

/** The message that another one replies to; `undefined` until it is read, and if the caller cannot see it. */
export function repliedTo(reply: Reply): Message | undefined {
  const id = reply.replyToId ?? "";
  return findBeside(reply, id) ?? read.value.get(id) ?? undefined;
}

/** Reads the message that another one replies to, unless it is known. */
export function requestRepliedTo(reply: Reply): void {
  const id = reply.replyToId ?? "";
  if (findBeside(reply, id) === undefined) requestMessage(id);
}

/** A message that was requested; `undefined` until it is read, and if the caller cannot see it. */
export function knownMessage(id: string): Message | undefined {
  return read.value.get(id) ?? undefined;
}

export function requestMessage(id: string): void {
  if (read.value.has(id)) return;
  requested.add(id);
  void readRequested();
}

/** A text in one line, to be cut where there is no more room. */
export function lineOf({ text, format, files, deletedAt }: Message): string {
  if (deletedAt !== null) return "a deleted message";
  const start = (text ?? "").slice(0, TEXT_MAX).replace(/[\ud800-\udbff]$/, "");
  const line = format === "plain" ? start.replaceAll(/\s+/g, " ").trim() : plainText(start);
  return line === "" ? files[0]?.name ?? "a message" : line;
}

async function readRequested(): Promise<void> {
  if (isReading) return;
  isReading = true;
  for (const id of requested) {
    try {
      const { senders = [], ...message } = await get<Message & { senders?: Person[] }>(`v1/messages/${id}`, {
        include: ["senders"],
      });
      addPeople(senders);
      remember(id, message);
    } catch (error) {
      // Else it is requested again when it is shown again.
      if (error instanceof ApiError && !error.isTemporary) remember(id, null);
    }
    requested.delete(id);
  }
  isReading = false;
}

function remember(id: string, message: Message | null): void {
  read.value = new Map([...read.value, [id, message] as const].slice(-READ_MAX));
}

onEvent(({ type, data }) => {
  const id = type === "message.deleted" ? data.message.id : type === "message.updated" ? data.messageId : undefined;
  const before = id === undefined ? undefined : read.value.get(id);
  if (before) remember(id, type === "message.deleted" ? data.message : { ...before, ...data.changes });
  const isLeft = type === "member.left" && data.principalId === myId();
  if (!isLeft && type !== "message.expired") return;
  const isHidden = (one: Message | null): boolean =>
    one !== null && one.roomId === data.roomId && (isLeft || one.seq <= data.upToSeq);
  read.value = new Map([...read.value].map(([key, one]) => [key, isHidden(one) ? null : one]));
});
