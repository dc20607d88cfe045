// The operation on contexts.
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation, type Rates } from "@/core/operation.ts";
import type { ContextAssembler } from "./assembler.ts";
import { BODY_MAX_BYTES, Context, ContextAssemble } from "./schema.ts";

const RATE: Rates = { human: { perSecond: 1, burst: 30 } };
const ROOM = exampleId("room");

export function contextOperations(contexts: ContextAssembler): Operation[] {
  return [
    defineOperation({
      name: "context.assemble",
      summary: "Assemble the context of a model within a number of tokens",
      description:
        "A stable prefix first (instructions, tools, pinned facts), then the thread, the room, facts and search results. " +
        "What a part does not use of its share flows on to the next. Everything is what the caller may read now, and so " +
        "may those who will read the response of the model. Messages and search results are included if the token has their scopes.",
      access: { scope: "memory.read", room: "observer" },
      http: { method: "POST", path: "/v1/collaboration/context", status: 200, bodyMaxBytes: BODY_MAX_BYTES },
      rate: RATE,
      input: ContextAssemble,
      output: Context,
      faults: ["not_found"],
      example: { roomId: ROOM, query: "When do we deploy?", budgetTokens: 2000 },
      run: (context, input) => contexts.assemble(context, input),
    }),
  ];
}
