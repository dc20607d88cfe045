// Operations on threads.
import { defineOperation, type Operation } from "@/core/operation.ts";
import { ThreadList, Threads, THREADS_MAX } from "./schema.ts";
import type { ThreadService } from "./service.ts";

export function threadOperations(threads: ThreadService): Operation[] {
  return [
    defineOperation({
      name: "thread.list",
      summary: "List the threads that the caller takes part in, those with the newest replies first",
      description:
        "Threads that the caller started, replied in or is mentioned in, in rooms of which it is a member: the " +
        `${THREADS_MAX} in which it last took part. What is unread follows the read position of the room, see \`read.put\`.`,
      access: { scope: "message.read" },
      http: { method: "GET", path: "/v1/threads", status: 200 },
      input: ThreadList,
      output: Threads,
      faults: ["invalid_cursor"],
      run: ({ actor }, input) => threads.list(actor, input),
    }),
  ];
}
