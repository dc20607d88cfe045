// Commands and responses as clients see them.
import { z } from "@zod/zod";
import { RoomRole } from "@/core/actor.ts";
import { ElementId, Elements } from "@/core/interaction/element.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { FormField, FormValues } from "@/core/interaction/form.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { MessageId } from "@/modules/message/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const COMMAND_TEXT_MAX = 4000;
const RESPONSE_TEXT_MAX = 16_000;
/** How long after its call a response may follow. */
export const RESPONSE_MINUTES = 15;
/** Responses that may follow by the address that an endpoint is given. */
export const LATE_RESPONSES_MAX = 5;

export const CommandName = z.string().regex(
  /^[a-z0-9][a-z0-9_-]{0,31}$/,
  "expected 1 to 32 characters of a-z 0-9 _ -, the first no punctuation",
);
export const CommandDescription = z.string().trim().min(1).max(200).describe("What the command does, for people");
const SourceId = z.string().min(1).max(200);
export const InteractionId = z.string().regex(
  /^[A-Za-z0-9_-]{1,64}$/,
  "expected 1 to 64 characters of A-Z a-z 0-9 _ -",
);

const ClientId = z.string().min(1).max(128).optional();

export const Command = z.object({
  name: CommandName.describe("Name of the command, without the slash"),
  description: z.string().describe("What it does"),
  source: SourceId.describe("What offers it, such as `plugin:org.example.poll`; needed where two offer one name"),
  sourceName: z.string().describe("Name of what offers it"),
  ambiguous: z.boolean().describe("Whether another source offers a command of this name in the room"),
  fields: z.array(FormField).describe("Fields of the command, sent as `args`, besides its text"),
  role: RoomRole.describe("Lowest room role that can run it"),
}).meta({ id: "Command" });
export type Command = z.output<typeof Command>;

export const CommandList = z.strictObject({ roomId: RoomId });
export const Commands = z.object({
  items: z.array(Command).describe("Commands that the caller can run in the room, by name"),
}).meta({ id: "Commands" });

export const CommandRun = z.strictObject({
  roomId: RoomId,
  text: z.string().min(1).max(COMMAND_TEXT_MAX).optional()
    .describe("The command as typed: `/name`, then a text. Alternative to `name`"),
  name: CommandName.optional().describe("Name of the command, without the slash"),
  args: FormValues.optional().describe("Values of the command's fields; with `name` only"),
  source: SourceId.optional().describe("Runs the command of this source; needed where two offer one name"),
  threadId: MessageId.optional().describe("Root message of the thread in which the command is run"),
  clientMessageId: ClientId.describe(
    "Client-generated id, unique per room and caller: a repeat returns the first result",
  ),
}).superRefine(({ text, name, args }, context) => {
  if ((text === undefined) === (name === undefined)) {
    context.addIssue({ code: "custom", path: ["text"], message: "expected either text or name" });
  }
  if (text !== undefined && args !== undefined) {
    context.addIssue({ code: "custom", path: ["args"], message: "expected name instead of text with args" });
  }
});
export type CommandRun = z.output<typeof CommandRun>;

const responseText = z.string().min(1).max(RESPONSE_TEXT_MAX).describe("Text of the response");
const Format = z.enum(["markdown", "plain"]).meta({ id: "ResponseFormat" });
const format = Format.default("markdown").describe("Format of the text");

/** What a responder sends. */
export const ResponseInput = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("ephemeral").describe("Only the caller sees it; it is not stored with the room"),
    text: responseText,
    format,
  }).meta({ id: "EphemeralResponseDraft" }),
  z.strictObject({
    kind: z.literal("message").describe("The responder sends it to the room, in the thread of the command or message"),
    text: responseText,
    format,
    elements: Elements.optional().describe("Buttons, selects, links and forms below the text"),
  }).meta({ id: "MessageResponseDraft" }),
  z.strictObject({
    kind: z.literal("update").describe("Changes the message whose element was used; for actions only"),
    text: responseText.optional(),
    format: Format.optional().describe("Format of the text"),
    elements: Elements.optional().describe("Buttons, selects, links and forms below the text"),
  }).meta({ id: "UpdateResponseDraft" }),
]).meta({ id: "InteractionResponseDraft" });
export type ResponseInput = z.output<typeof ResponseInput>;

/** What the caller receives. */
export const Response = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("ephemeral").describe("A text for the caller alone"),
    text: z.string().describe("Text of the response"),
    format: Format.describe("Format of the text"),
  }).meta({ id: "EphemeralResponse" }),
  z.object({
    kind: z.literal("message").describe("A message was sent to the room, or changed"),
    messageId: MessageId.describe("The message"),
  }).meta({ id: "MessageResponse" }),
  z.object({
    kind: z.literal("accepted").describe("The response follows as the event `interaction.responded`"),
    expiresAt: z.iso.datetime().describe("No response follows after this time"),
  }).meta({ id: "AcceptedResponse" }),
]).meta({ id: "InteractionResponse" });
export type Response = z.output<typeof Response>;

export const InteractionResult = z.object({ id: InteractionId, response: Response }).meta({ id: "InteractionResult" });
export type InteractionResult = z.output<typeof InteractionResult>;

export const InteractionRespond = z.strictObject({
  id: InteractionId,
  response: ResponseInput.describe("The response"),
});
export type InteractionRespond = z.output<typeof InteractionRespond>;

export const ActionInvoke = z.strictObject({
  id: MessageId,
  elementId: ElementId.describe("Id of the button, select or form"),
  value: z.string().max(80).optional().describe("The selected option; for a select only"),
  values: FormValues.optional().describe("Values of the fields; for a form only"),
  clientMessageId: ClientId.describe(
    "Client-generated id, unique per room and caller: a repeat returns the first result",
  ),
});
export type ActionInvoke = z.output<typeof ActionInvoke>;

const Kind = z.enum(["command", "action"]).meta({ id: "InteractionKind" }).describe("What the caller did");

export const INTERACTION_EVENTS: readonly EventType[] = eventTypes("command.read", [{
  type: "interaction.responded",
  summary: "The response to a command or an action that was accepted before; only the caller receives it",
  streams: ["principal"],
  data: z.object({
    id: InteractionId,
    kind: Kind,
    roomId: RoomId,
    name: z.string().describe("Name of the command, or id of the element"),
    messageId: MessageId.nullable().describe("Message whose element was used; null for a command"),
    response: Response,
  }),
}, {
  type: "action.invoked",
  summary:
    "A button, select or form of a message was used; its sender receives it, and responds with `interaction.respond`",
  streams: ["principal"],
  data: z.object({
    id: InteractionId,
    roomId: RoomId,
    messageId: MessageId,
    elementId: ElementId,
    value: z.string().nullable().describe("Value of the button, or the selected option"),
    values: FormValues,
    callerId: PrincipalId.describe("Principal that used it"),
    expiresAt: z.iso.datetime(),
  }),
}]);
