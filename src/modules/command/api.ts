// Operations on commands and their responses.
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome, type Rates } from "@/core/operation.ts";
import type { ActionService } from "./actions.ts";
import type { Interactions } from "./interactions.ts";
import {
  ActionInvoke,
  CommandList,
  CommandRun,
  Commands,
  INTERACTION_EVENTS,
  InteractionRespond,
  InteractionResult,
  Response,
} from "./schema.ts";
import type { CommandService } from "./service.ts";

const PATH = "/v1/collaboration/commands";
const ROOM = exampleId("room");
const RUN_RATE: Rates = { human: { perSecond: 1, burst: 20 } };

/** What operations that call a plugin or a program have in common. */
const CALLING = { callsOut: true, rate: RUN_RATE, output: InteractionResult } as const;
const CALL_FAULTS = [
  "not_found",
  "room_archived",
  "client_message_id_conflict",
  "command_failed",
  "plugin_failed",
  "plugin_timeout",
  "plugin_unavailable",
  "unavailable",
] as const;

type Deps = { commands: CommandService; actions: ActionService; interactions: Interactions };

export function commandApi({ commands, actions, interactions }: Deps): ModuleApi {
  return {
    tags: {
      commands: "Commands that plugins, webhooks and agents offer in rooms.",
      interactions: "Responses to commands and to elements of messages.",
    },
    events: INTERACTION_EVENTS,
    operations: [
      defineOperation({
        name: "command.list",
        summary: "List the commands that the caller can run in a room",
        access: { scope: "command.read", room: "observer" },
        http: { method: "GET", path: PATH, status: 200 },
        input: CommandList,
        output: Commands,
        faults: ["not_found"],
        example: { roomId: ROOM },
        async run(context, { roomId }) {
          return { items: await commands.list(context, roomId) };
        },
      }),
      defineOperation({
        name: "command.run",
        summary: "Run a command in a room",
        description:
          "Waits up to 10 s for the response. `ephemeral` is for the caller alone, `message` was sent to the room. " +
          "`accepted` (202): the response follows as the event `interaction.responded` of the caller. A repeat with the " +
          "same `clientMessageId` waits for the first call and returns its response. If the node of the first call has " +
          "ended, it calls again with the same id, which what responds can recognize.",
        access: { scope: "command.write", room: "member" },
        http: { method: "POST", path: `${PATH}/run`, status: 200, otherStatuses: [202] },
        ...CALLING,
        input: CommandRun,
        faults: [...CALL_FAULTS, "command_ambiguous"],
        example: { roomId: ROOM, text: "/poll Where do we have lunch?" },
        run: async (context, input) => outcomeOf(await commands.run(context, input)),
      }),
      defineOperation({
        name: "action.invoke",
        summary: "Use a button, a select or a form of a message",
        description:
          "The sender of the message, if it is still in the room, receives it and responds as to a command. Other senders " +
          "than plugins receive the event `action.invoked`.",
        access: { scope: "command.write", room: "observer" },
        http: {
          method: "POST",
          path: "/v1/messages/:id/elements/:elementId/action",
          status: 200,
          otherStatuses: [202],
        },
        ...CALLING,
        input: ActionInvoke,
        faults: [...CALL_FAULTS, "gone"],
        example: { id: exampleId("msg"), elementId: "vote-pizza" },
        run: async (context, input) => outcomeOf(await actions.invoke(context, input)),
      }),
      defineOperation({
        name: "interaction.respond",
        summary: "Respond to a command or an action that was accepted before",
        description:
          "Only what the command belongs to, or the sender of the message, may respond: once, within 15 minutes.",
        access: { scope: "command.write" },
        http: { method: "POST", path: "/v1/collaboration/interactions/:id/response", status: 200 },
        input: InteractionRespond,
        output: Response,
        faults: ["not_found", "conflict", "gone", "room_archived", "plugin_refused", "plugin_unavailable"],
        example: { id: exampleId("itx"), response: { kind: "ephemeral", text: "The poll is open." } },
        prepare: (context, input) => interactions.prepare(context, input),
        run: (context, input, filtered) => interactions.respond(context, input, filtered),
      }),
    ],
  };
}

function outcomeOf(result: InteractionResult): Outcome<InteractionResult> {
  return new Outcome(result, { status: result.response.kind === "accepted" ? 202 : 200 });
}
