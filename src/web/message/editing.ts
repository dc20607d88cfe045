// What is being written: drafts, which message is being edited, and which one the next message replies to.
import { computed, effect, signal } from "@preact/signals";
import { notify } from "../core/notice.ts";
import type { MessageFile } from "../core/resources.ts";
import { token } from "../core/session.ts";
import { uploads } from "./uploads.ts";

const DRAFTS = "gateway.drafts";
const REPLIES = "gateway.replies";

/** Texts that are not sent yet, by their `draftKey`, or by the message that is being edited. */
export const drafts = signal<ReadonlyMap<string, string>>(new Map(JSON.parse(sessionStorage.getItem(DRAFTS) ?? "[]")));

/** Their keys, in one text: it changes less often than what is written. */
const draftKeys = computed(() => [...drafts.value.keys()].join("\n"));

effect(() => {
  const text = JSON.stringify([...drafts.value]);
  if (token.value !== "") sessionStorage.setItem(DRAFTS, text);
});

/** What was in a composer; `giveBack` returns it there if it could not be used. */
export type Taken = { text: string; files: MessageFile[]; replyToId: string | undefined; giveBack: () => void };

export const editedId = signal("");

/** The key of the draft of an edit: it outlives leaving the room. */
export function editKey(messageId: string): string {
  return `edit ${messageId}`;
}

/** By room: the message that the next one replies to. */
export const replyTo = signal<ReadonlyMap<string, string>>(
  new Map(JSON.parse(sessionStorage.getItem(REPLIES) ?? "[]")),
);

effect(() => {
  const text = JSON.stringify([...replyTo.value]);
  if (token.value !== "") sessionStorage.setItem(REPLIES, text);
});

export function setReply(roomId: string, messageId: string | undefined): void {
  const next = new Map(replyTo.value);
  if (messageId === undefined) next.delete(roomId);
  else next.set(roomId, messageId);
  replyTo.value = next;
}

/** The key of what is written in a room, or in a thread of it. */
export function draftKey(roomId: string, threadId?: string): string {
  return threadId === undefined ? roomId : `${roomId} ${threadId}`;
}

/** Whether something is written in a room or its threads, and not sent yet. */
export function hasDraft(roomId: string): boolean {
  return draftKeys.value.split("\n").some((key) => key.startsWith(roomId));
}

/** A thread of a room in which something is written, and not sent yet; `except` the one that is open. */
export function threadWithDraft(roomId: string, except: string | null): string | undefined {
  const threads = draftKeys.value.split("\n").filter((key) => key.startsWith(`${roomId} `));
  return threads.map((key) => key.slice(roomId.length + 1)).find((id) => id !== except);
}

export function setDraft(key: string, text: string): void {
  const next = new Map(drafts.value).set(key, text);
  if (text === "") next.delete(key);
  drafts.value = next;
}

/** Empties a composer, if what is in it can be sent. */
export function takeDraft(key: string, roomId: string): Taken | undefined {
  const text = drafts.value.get(key) ?? "";
  const files = uploads.value.get(key) ?? [];
  const ready = files.flatMap(({ file }) => file ?? []);
  if (files.some(({ state }) => state === "uploading")) return void notify("Files are still being uploaded", true);
  if (text.trim() === "" && ready.length === 0) return undefined;
  setDraft(key, "");
  // What could not be uploaded is not forgotten.
  uploads.value = new Map(uploads.value).set(key, files.filter(({ state }) => state === "failed"));
  const reply = key === roomId ? replyTo.value.get(roomId) : undefined;
  if (reply !== undefined) setReply(roomId, undefined);
  const giveBack = (): void => {
    if (!drafts.value.has(key)) {
      setDraft(key, text);
      if (reply !== undefined) setReply(roomId, reply);
    }
    uploads.value = new Map(uploads.value).set(key, files);
  };
  return { text: text.trim(), files: ready, replyToId: reply, giveBack };
}
