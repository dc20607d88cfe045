// Operations on messages, their reactions and pins.
import { Buffer } from "node:buffer";
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { type Elements, isInteractive } from "@/core/interaction/element.ts";
import { Fault, RetryTransaction } from "@/core/fault.ts";
import { exampleId } from "@/core/id.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { ModuleApi } from "@/core/module.ts";
import { type Context, defineOperation, type Operation, Outcome, type Rates } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import { RoomId, Senders } from "@/modules/room/mod.ts";
import { filterUpdate, type MessageFilter } from "./filter.ts";
import type { PinService } from "./pins.ts";
import type { ReactionService } from "./reactions.ts";
import { readStateOperations } from "./read_state/api.ts";
import { READ_STATE_EVENTS } from "./read_state/schema.ts";
import type { ReadStateService } from "./read_state/service.ts";
import { scheduledOperations } from "./scheduled/api.ts";
import { SCHEDULED_EVENTS, ScheduledMessage } from "./scheduled/schema.ts";
import type { ScheduledService } from "./scheduled/service.ts";
import {
  IncludeSenders,
  Message,
  MESSAGE_EVENTS,
  MessageDetail,
  MessageHistory,
  MessageId,
  MessageList,
  MessageRead,
  Messages,
  MessageSend,
  MessageUpdate,
  MessageVersion,
  REACTION_EVENTS,
  ReactionList,
  ReactionRef,
  Reactions,
  Reactor,
} from "./schema.ts";
import { threadOperations } from "./thread/api.ts";
import { THREAD_EVENTS } from "./thread/schema.ts";
import type { ThreadService } from "./thread/service.ts";
import type { MessageSender } from "./sender.ts";
import type { MessageService } from "./service.ts";

const PATH = "/v1/messages";
const ROOM = exampleId("room");
const MESSAGE = exampleId("msg");
const REACTION_PATH = `${PATH}/:id/reactions/:key`;
const byId = z.strictObject({ id: MessageId });

type Deps = {
  sender: MessageSender;
  messages: MessageService;
  reactions: ReactionService;
  pins: PinService;
  readState: ReadStateService;
  scheduled: ScheduledService;
  threads: ThreadService;
  metrics: Metrics;
  rate: Rates;
  filter: MessageFilter;
};

export function messageApi(deps: Deps): ModuleApi {
  const { reactions, pins, readState, scheduled, threads } = deps;
  return {
    tags: {
      messages: "Messages, reactions, pins and scheduled messages.",
      threads: "Threads that the caller takes part in.",
      unreads: "Unread counts of all rooms.",
    },
    events: [...MESSAGE_EVENTS, ...REACTION_EVENTS, ...READ_STATE_EVENTS, ...SCHEDULED_EVENTS, ...THREAD_EVENTS],
    operations: [
      ...messageOperations(deps),
      ...reactionOperations(reactions),
      ...pinOperations(pins),
      ...readStateOperations(readState),
      ...scheduledOperations(scheduled),
      ...threadOperations(threads),
    ],
  };
}

function messageOperations({ sender, messages, scheduled, metrics, rate, filter }: Deps): Operation[] {
  return [
    defineOperation({
      name: "message.send",
      summary: "Send a message",
      description:
        "Returns 201 once the message is committed and has its position in the room. With `clientMessageId`, a " +
        "repeated send returns 200. With `sendAt`, returns 202 and a ScheduledMessage.",
      access: { scope: "message.write", room: "member" },
      http: { method: "POST", path: PATH, status: 201, otherStatuses: [200, 202], hasLocation: true },
      input: MessageSend,
      output: z.union([Message, ScheduledMessage]),
      outputs: { 200: Message, 201: Message, 202: ScheduledMessage },
      faults: [
        "not_found",
        "room_archived",
        "client_message_id_conflict",
        "limit_reached",
        "plugin_refused",
        "plugin_unavailable",
      ],
      example: { roomId: ROOM, text: "Hello, world", clientMessageId: "0c1f" },
      rate,
      concurrent: true,
      prepare: (context, input) =>
        filter.appliesTo(context.actor.tenantId, input.roomId) ? filter.apply(context, input.roomId, input) : undefined,
      async run(context, input, filtered = input) {
        assertMaySend(context.actor, input.elements);
        if (input.sendAt !== undefined) return await schedule(scheduled, context, filtered, input);
        const startedAt = performance.now();
        try {
          const { message, isNew, json } = await sender.send(context, filtered, input);
          metrics.messagesReceived.inc();
          if (isNew) countCommitted(metrics, message, startedAt);
          return new Outcome(message, { status: isNew ? 201 : 200, location: `${PATH}/${message.id}`, json });
        } catch (thrown) {
          if (!(thrown instanceof RetryTransaction)) metrics.messagesReceived.inc();
          throw thrown;
        }
      },
    }),
    defineOperation({
      name: "message.list",
      summary: "List messages of a room",
      description:
        "Without an anchor, lists the newest messages; `before`, `after` and `around` take a position or a " +
        "message id.",
      access: { scope: "message.read", room: "observer" },
      http: { method: "GET", path: PATH, status: 200 },
      input: MessageList,
      output: Messages,
      faults: ["not_found"],
      example: { roomId: ROOM },
      run: (context, input) => messages.list(context, input),
    }),
    defineOperation({
      name: "message.read",
      summary: "Get a message",
      access: { scope: "message.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: MessageRead,
      output: MessageDetail,
      faults: ["not_found"],
      example: { id: MESSAGE },
      run: (context, { id, include }) => messages.read(context, id, include),
    }),
    defineOperation({
      name: "message.update",
      summary: "Update a message of the caller; earlier versions are stored in its history",
      access: { scope: "message.write", room: "member" },
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: MessageUpdate,
      output: Message,
      faults: [
        "not_found",
        "room_archived",
        "edit_window_closed",
        "version_mismatch",
        "plugin_refused",
        "plugin_unavailable",
      ],
      example: { id: MESSAGE, text: "Hello, world!" },
      // Agents stream their responses as edits, so updates have the rate of sends.
      rate,
      prepare: (context, input) =>
        filter.isActive && input.text !== undefined
          ? messages.read(context, input.id).then((message) => filterUpdate(filter, context, message, input))
          : undefined,
      async run(context, input, filtered = input) {
        assertMaySend(context.actor, input.elements);
        return await messages.update(context, filtered);
      },
    }),
    defineOperation({
      name: "message.delete",
      summary: "Delete a message",
      description:
        "The message becomes a tombstone: its content is deleted permanently, also from its history and from " +
        "stored events.",
      access: { scope: "message.write", room: "member" },
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: byId,
      output: z.void(),
      faults: ["not_found", "room_archived"],
      example: { id: MESSAGE },
      run: (context, { id }) => messages.delete(context, id),
    }),
    defineOperation({
      name: "message.history",
      summary: "List the versions of a message, including the current one",
      access: { scope: "message.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id/history`, status: 200 },
      input: MessageHistory,
      output: pageSchema(MessageVersion),
      faults: ["not_found", "invalid_cursor"],
      example: { id: MESSAGE },
      run: (context, input) => messages.history(context, input),
    }),
  ];
}

function reactionOperations(reactions: ReactionService): Operation[] {
  return [
    defineOperation({
      name: "reaction.add",
      summary: "Add a reaction of the caller to a message; idempotent",
      access: { scope: "message.write", room: "member" },
      http: { method: "PUT", path: REACTION_PATH, status: 200 },
      input: ReactionRef,
      output: Reactions,
      faults: ["not_found", "room_archived", "reaction_limit"],
      example: { id: MESSAGE, key: "👍" },
      async run(context, input) {
        return { reactions: await reactions.add(context, input) };
      },
    }),
    defineOperation({
      name: "reaction.remove",
      summary: "Remove a reaction of the caller from a message; idempotent",
      access: { scope: "message.write", room: "member" },
      http: { method: "DELETE", path: REACTION_PATH, status: 204 },
      input: ReactionRef,
      output: z.void(),
      faults: ["not_found", "room_archived"],
      example: { id: MESSAGE, key: "👍" },
      run: (context, input) => reactions.remove(context, input),
    }),
    defineOperation({
      name: "reaction.list",
      summary: "List who reacted to a message, in the order of the reactions",
      access: { scope: "message.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id/reactions`, status: 200 },
      input: ReactionList,
      output: pageSchema(Reactor),
      faults: ["not_found", "invalid_cursor"],
      example: { id: MESSAGE },
      run: (context, input) => reactions.list(context, input),
    }),
  ];
}

function pinOperations(pins: PinService): Operation[] {
  return [
    defineOperation({
      name: "pin.add",
      summary: "Pin a message; at most 100 per room",
      access: { scope: "message.write", room: "moderator", direct: "member" },
      http: { method: "PUT", path: `${PATH}/:id/pin`, status: 204 },
      input: byId,
      output: z.void(),
      faults: ["not_found", "room_archived", "limit_reached"],
      example: { id: MESSAGE },
      run: (context, { id }) => pins.set(context, id, true),
    }),
    defineOperation({
      name: "pin.remove",
      summary: "Unpin a message",
      access: { scope: "message.write", room: "moderator", direct: "member" },
      http: { method: "DELETE", path: `${PATH}/:id/pin`, status: 204 },
      input: byId,
      output: z.void(),
      faults: ["not_found", "room_archived"],
      example: { id: MESSAGE },
      run: (context, { id }) => pins.set(context, id, false),
    }),
    defineOperation({
      name: "pin.list",
      summary: "List the pinned messages of a room, most recently pinned first",
      access: { scope: "message.read", room: "observer" },
      http: { method: "GET", path: "/v1/rooms/:id/pins", status: 200 },
      input: z.strictObject({ id: RoomId, include: IncludeSenders }),
      output: z.object({ items: z.array(Message), senders: Senders }).meta({ id: "Pins" }),
      faults: ["not_found"],
      example: { id: ROOM },
      run: (context, { id, include }) => pins.list(context, id, include),
    }),
  ];
}

/** People do not ask others for input in the name of a program: a form from a person would be a place to phish. */
function assertMaySend({ kind }: Actor, elements: Elements | undefined): void {
  if (kind === "human" && elements?.some(isInteractive) === true) {
    throw new Fault("forbidden", "/elements: only agents and services send buttons, selects and forms");
  }
}

async function schedule(
  scheduled: ScheduledService,
  context: Context,
  filtered: MessageSend,
  input: MessageSend,
): Promise<Outcome<Message | ScheduledMessage>> {
  const result = await scheduled.schedule(context, filtered, input);
  return "sendAt" in result
    ? new Outcome(result, { status: 202, location: `${PATH}/scheduled/${result.id}` })
    : new Outcome(result, { status: 200, location: `${PATH}/${result.id}` });
}

/** Counts a new message after its commit; `startedAt` is a time of `performance.now()`. */
export function countCommitted(metrics: Metrics, { type, text }: Message, startedAt: number): void {
  metrics.messagesSent.inc();
  metrics.messagesByType.inc({ type });
  metrics.messageSize.observe(Buffer.byteLength(text ?? ""));
  metrics.messageLatency.observe((performance.now() - startedAt) / 1000);
}
