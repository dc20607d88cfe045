// Operations on the caller's scheduled messages.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation } from "@/core/operation.ts";
import { ScheduledId, ScheduledList, ScheduledMessage, ScheduledMessages } from "./schema.ts";
import type { ScheduledService } from "./service.ts";

const PATH = "/v1/messages/scheduled";
const byId = z.strictObject({ id: ScheduledId });
const example = { id: exampleId("sch") };

export function scheduledOperations(scheduled: ScheduledService): Operation[] {
  return [
    defineOperation({
      name: "scheduled_message.list",
      summary: "List the caller's scheduled messages, including those that could not be sent",
      access: { scope: "message.read" },
      http: { method: "GET", path: PATH, status: 200 },
      input: ScheduledList,
      output: ScheduledMessages,
      faults: ["invalid_cursor"],
      ownData: {},
      run: ({ actor }, input) => scheduled.list(actor, input),
    }),
    defineOperation({
      name: "scheduled_message.read",
      summary: "Get a scheduled message of the caller",
      access: { scope: "message.read" },
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: byId,
      output: ScheduledMessage,
      faults: ["not_found"],
      example,
      run: ({ actor }, { id }) => scheduled.read(actor, id),
    }),
    defineOperation({
      name: "scheduled_message.cancel",
      summary: "Cancel a scheduled message",
      access: { scope: "message.write" },
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: byId,
      output: z.void(),
      faults: ["not_found"],
      example,
      run: ({ actor }, { id }) => scheduled.cancel(actor, id),
    }),
  ];
}
