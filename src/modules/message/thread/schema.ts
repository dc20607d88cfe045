// Threads of the caller in the API.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { RoomId, Senders } from "@/modules/room/mod.ts";
import { IncludeSenders, Message, MessageId } from "../schema.ts";

/** Threads of a principal that are listed: those in which it last took part. */
export const THREADS_MAX = 1000;
/** Replies of a thread that are read to count the unread ones. */
export const UNREAD_MAX = 100;
/** Replies that are listed with a thread. */
export const REPLIES_SHOWN = 3;
/** With its replies, a page has no more messages than a page of `message.list`. */
const LIMIT_MAX = 50;

export const ThreadList = z.strictObject({
  ...pageInput,
  roomId: RoomId.optional().describe("Only threads in this room"),
  unread: z.boolean().optional().describe("Only threads with unread replies, or only others"),
  include: IncludeSenders,
  limit: z.int().min(1).max(LIMIT_MAX).default(20).describe("Maximum number of threads on the page"),
});
export type ThreadList = z.output<typeof ThreadList>;

export const Thread = z.object({
  root: Message.describe("The message that the thread is about, with `replyCount` and `lastReplyAt`"),
  unreadCount: z.int().describe(
    `Replies by others after the caller's read position in the room, of the newest ${UNREAD_MAX}`,
  ),
  replies: z.array(Message).describe(
    `The newest ${REPLIES_SHOWN} replies in ascending order of \`seq\`, without deleted ones`,
  ),
}).meta({ id: "Thread" });
export type Thread = z.output<typeof Thread>;

export const Threads = pageSchema(Thread).extend({ senders: Senders }).meta({ id: "Threads" });
export type Threads = z.output<typeof Threads>;

const Followed = z.object({ roomId: RoomId, threadId: MessageId.describe("Root message of the thread") });

/** Durable events on the stream of who follows. */
export const THREAD_EVENTS: readonly EventType[] = eventTypes("message.read", [
  { type: "thread.followed", streams: ["principal"], summary: "The principal follows a thread", data: Followed },
  {
    type: "thread.unfollowed",
    streams: ["principal"],
    summary: "The principal does not follow a thread",
    data: Followed,
  },
]);
