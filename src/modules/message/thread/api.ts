// Operations on threads.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation } from "@/core/operation.ts";
import { MessageId } from "../schema.ts";
import { ThreadList, Threads, THREADS_MAX } from "./schema.ts";
import type { ThreadService } from "./service.ts";

const FOLLOW = {
  access: { scope: "message.write", room: "observer", archived: true, muted: true, ownOnly: true },
  input: z.strictObject({ id: MessageId.describe("Root message of the thread, or a reply in it") }),
  output: z.void(),
  faults: ["not_found"],
  example: { id: exampleId("msg") },
} as const;

export function threadOperations(threads: ThreadService): Operation[] {
  return [
    defineOperation({
      name: "thread.list",
      summary: "List the threads that the caller takes part in, those with the newest replies first",
      description:
        "Threads that the caller started, replied in, is mentioned in or follows, in rooms of which it is a member, without " +
        `those that it has unfollowed: the ${THREADS_MAX} in which it last took part. What is unread follows the read position of the room, see \`read.put\`.`,
      access: { scope: "message.read" },
      http: { method: "GET", path: "/v1/threads", status: 200 },
      input: ThreadList,
      output: Threads,
      faults: ["invalid_cursor"],
      run: ({ actor }, input) => threads.list(actor, input),
    }),
    defineOperation({
      name: "thread.follow",
      summary: "Follow a thread; idempotent",
      description: "The caller is notified of its replies, and it is listed once it has some.",
      ...FOLLOW,
      http: { method: "PUT", path: "/v1/threads/:id/follow", status: 204 },
      run: (context, { id }) => threads.follow(context, id, true),
    }),
    defineOperation({
      name: "thread.unfollow",
      summary: "Unfollow a thread; idempotent",
      description:
        "The caller is not notified of its replies, except where it is mentioned or a reply is to its own message, and it is " +
        "not listed, until the caller follows it again.",
      ...FOLLOW,
      http: { method: "DELETE", path: "/v1/threads/:id/follow", status: 204 },
      run: (context, { id }) => threads.follow(context, id, false),
    }),
  ];
}
