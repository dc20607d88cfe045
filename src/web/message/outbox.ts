// Messages that are not acknowledged yet. Each is sent again with the same id until it is, so none is lost or sent twice.
import { effect, signal } from "@preact/signals";
import { ApiError, createId, post } from "../core/api.ts";
import { connection } from "../core/live.ts";
import { messageOf } from "../core/notice.ts";
import type { Message, MessageFile } from "../core/resources.ts";
import { token } from "../core/session.ts";
import { putMessage } from "./timeline.ts";

export type Unsent = {
  clientMessageId: string;
  roomId: string;
  threadId?: string | undefined;
  replyToId?: string | undefined;
  text: string;
  files: readonly MessageFile[];
  createdAt: string;
  /** Why it was rejected; it is not sent again by itself. */
  failure?: string;
};

const KEY = "gateway.unsent";
const RETRY_MS = 3000;

export const unsent = signal<readonly Unsent[]>(JSON.parse(sessionStorage.getItem(KEY) ?? "[]"));

/** Those sent from this page whose text may name somebody. */
const naming = new Set<string>();
let isSending = false;
let timer: ReturnType<typeof setTimeout> | undefined;

effect(() => {
  const text = JSON.stringify(unsent.value);
  if (token.value !== "") sessionStorage.setItem(KEY, text);
});
// What waits is sent as soon as the connection is back.
effect(() => {
  if (connection.value === "connected") void flush();
});

export function sendMessage(draft: Omit<Unsent, "clientMessageId" | "createdAt">): void {
  const added = { ...draft, clientMessageId: createId(), createdAt: new Date().toISOString() };
  unsent.value = [...unsent.value, added];
  void flush();
}

/** Sends a rejected message again. */
export function retry(id: string): void {
  unsent.value = unsent.value.map(({ failure: _failure, ...one }) =>
    one.clientMessageId === id || _failure === undefined ? one : { ...one, failure: _failure }
  );
  void flush();
}

/** Whether a message was sent from this page, and its text may name somebody. */
export function isSentNaming({ clientMessageId }: Message): boolean {
  return naming.has(clientMessageId ?? "");
}

export function discard(id: string): void {
  unsent.value = unsent.value.filter(({ clientMessageId }) => clientMessageId !== id);
}

async function flush(): Promise<void> {
  if (isSending) return;
  isSending = true;
  clearTimeout(timer);
  try {
    for (let next = waiting(); next !== undefined && token.value !== ""; next = waiting()) {
      const { clientMessageId: id, text } = next;
      if (text.includes("@")) naming.add(id);
      try {
        putMessage(await post<Message>("v1/messages", bodyOf(next)));
        discard(id);
      } catch (error) {
        if (error instanceof ApiError && error.isTemporary) {
          timer = setTimeout(flush, RETRY_MS);
          return;
        }
        const failure = messageOf(error);
        unsent.value = unsent.value.map((one) => one.clientMessageId === id ? { ...one, failure } : one);
      }
    }
  } finally {
    isSending = false;
  }
}

function waiting(): Unsent | undefined {
  return unsent.value.find(({ failure }) => failure === undefined);
}

function bodyOf({ clientMessageId, roomId, threadId, replyToId, text, files }: Unsent): Record<string, unknown> {
  return {
    roomId,
    text,
    clientMessageId,
    parseMentions: true,
    threadId,
    replyToId,
    ...files.length === 0 ? {} : { fileIds: files.map(({ id }) => id) },
  };
}
