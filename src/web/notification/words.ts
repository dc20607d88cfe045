// What a notification says, and where it leads: on pages, and in the service worker.
import { dateText } from "../core/format.ts";
import type { Notification } from "../core/resources.ts";
import { plainText } from "../message/plain_text.ts";

const WORDS: Readonly<Record<string, string>> = {
  mention: "mentioned you",
  reply: "replied",
  comment: "commented",
  comment_mention: "mentioned you in a comment",
  direct_message: "wrote to you",
  invitation: "invited you",
  event_moved: "moved an event",
  event_cancelled: "cancelled an event",
  event_declined: "declined an event",
  task_assigned: "assigned a task to you",
  task_due: "A task is due",
  reminder: "Reminder",
  message_reminder: "Reminder",
  missed_call: "called you",
  approval_requested: "needs an approval",
  question_asked: "has a question",
  export_ready: "Your data is ready",
  export_failed: "The copy of your data failed",
  scheduled_message_failed: "A scheduled message was not sent",
};

export function wordsOf(kind: string): string {
  return WORDS[kind] ?? kind.replaceAll("_", " ");
}

/** Who caused it. */
export function personIn({ actor, data }: Notification): string | undefined {
  return actor?.id ?? data.callerId;
}

/** Such as "Ada mentioned you". */
export function headlineOf(kind: string, who: string | undefined): string {
  return `${who ?? ""} ${wordsOf(kind)}`.trim();
}

export function textOf({ preview, title }: Notification): string {
  return preview ? plainText(preview) : title ?? "";
}

export function hrefOf({ roomId, messageId, resource, kind, data }: Notification): string {
  if (resource?.type === "task") return `#/tasks/${resource.id}`;
  if (resource?.type === "document") return `#/documents/${resource.id}`;
  if (resource?.type === "event" && kind === "invitation") return `#/calendar?event=${resource.id}`;
  if (resource?.type === "event" || kind === "event_cancelled") {
    return data.startAt === undefined ? "#/calendar" : `#/calendar?at=${dateText(new Date(data.startAt))}`;
  }
  if (resource?.type === "export") return "#/profile";
  if (resource?.type === "meeting" && roomId !== null) return `#/rooms/${roomId}/call`;
  if (roomId === null) return "#/inbox";
  return messageId === null ? `#/rooms/${roomId}` : `#/rooms/${roomId}?message=${messageId}`;
}
