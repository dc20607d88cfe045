// Messages and reactions in the API, and their events.
import { z } from "@zod/zod";
import { PrincipalKind } from "@/core/actor.ts";
import { Emoji } from "@/core/text/name.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { REDACTED_TYPE } from "@/core/event/event_view.ts";
import { changesSchema } from "@/core/event/event_data.ts";
import { Element, Elements } from "@/core/interaction/element.ts";
import { Json } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { BaseVersion } from "@/core/patch.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { FileIds } from "@/modules/file/mod.ts";
import { GroupMention, GROUPS_MENTIONED_MAX } from "@/modules/group/mod.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { Metadata, Person, RoomId, Senders } from "@/modules/room/mod.ts";

export const MESSAGE_TYPES = ["text", "notice", "system", "file", "custom"] as const;
export const MessageType = z.enum(MESSAGE_TYPES).meta({ id: "MessageType" });
export const TEXT_MAX_CODE_POINTS = 16_000;
export const TEXT_MAX_BYTES = 64_000;
/** As many as `@all` mentions without a moderator. */
export const MENTIONS_MAX = 100;
/** How many principals a reaction of a message names. */
export const REACTORS_SHOWN = 10;

export const MessageId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

const Text = z.string().superRefine((text, context) => {
  // Most texts are short; only longer ones are encoded and counted in code points.
  if (text.length * 3 <= TEXT_MAX_CODE_POINTS) return;
  const bytes = new TextEncoder().encode(text).length;
  if (bytes > TEXT_MAX_BYTES) context.addIssue(`expected at most ${TEXT_MAX_BYTES} bytes of UTF-8, received ${bytes}`);
  const codePoints = [...text].length;
  if (codePoints > TEXT_MAX_CODE_POINTS) {
    context.addIssue(`expected at most ${TEXT_MAX_CODE_POINTS} characters, received ${codePoints}`);
  }
}).meta({
  description: `At most ${TEXT_MAX_CODE_POINTS} characters and ${TEXT_MAX_BYTES} bytes`,
  maxLength: TEXT_MAX_CODE_POINTS,
});

const Format = z.enum(["markdown", "plain"]).meta({ id: "MessageFormat" });

/** Names of a text that are looked up. */
export const NAMES_MAX = 50;

const IgnoredMention = z.strictObject({
  name: z.string().max(256).describe("What follows the @ in the text"),
  reason: z.enum(["not_allowed", "agent_muted", "too_many_groups", "too_many_principals", "too_many_names"]).describe(
    "`not_allowed`: in rooms with more than 100 members only moderators can mention everybody; `agent_muted`: the room allows this " +
      "agent to read only; `too_many_groups`: a text mentions at " +
      `most ${GROUPS_MENTIONED_MAX} groups; \`too_many_principals\`: at most ${MENTIONS_MAX} principals; \`too_many_names\`: neither ` +
      `this name nor those after it are read, since they follow ${NAMES_MAX} others`,
  ),
}).meta({ id: "IgnoredMention" });
export type IgnoredMention = z.output<typeof IgnoredMention>;

export const Mentions = z.strictObject({
  principalIds: z.array(PrincipalId).max(MENTIONS_MAX).default([]).describe(
    "Principals to mention; each is notified once",
  ),
  room: z.boolean().default(false).describe(
    "Mention everybody; in rooms with more than 100 members only moderators can",
  ),
  groups: z.array(GroupMention).max(GROUPS_MENTIONED_MAX).optional().describe(
    "Groups whose members in the room to mention; in responses also those that the text names. Absent if there are none",
  ),
  ignored: z.array(IgnoredMention).max(NAMES_MAX + 1).optional().describe(
    "Names in the text that are not mentioned, and why. Absent if there are none. Ignored in requests",
  ),
}).meta({ id: "Mentions" });
export type Mentions = z.output<typeof Mentions>;

export const MessageFile = z.object({
  id: z.string(),
  name: z.string().describe("File name"),
  contentType: z.string().describe("Media type of the content"),
  size: z.int().describe("Bytes"),
  width: z.int().nullable().describe("Width in pixels; images only"),
  height: z.int().nullable().describe("Height in pixels; images only"),
}).meta({ id: "MessageFile" });
export type MessageFile = z.output<typeof MessageFile>;

export const Reaction = z.object({
  key: z.string().describe("The emoji, or a name such as `:shipit:`"),
  count: z.int().describe("Number of principals with this reaction"),
  me: z.boolean().optional().describe(
    "Whether the caller is one of them; absent in events, which are the same for all recipients",
  ),
  principalIds: z.array(PrincipalId).max(REACTORS_SHOWN).optional().describe(
    `First principals with this reaction, at most ${REACTORS_SHOWN}, in the order of their reactions; absent ` +
      "in events, which name the principal that added or removed the reaction. `reaction.list` has all",
  ),
}).meta({ id: "Reaction" });
export type Reaction = z.output<typeof Reaction>;

export const Message = z.object({
  id: MessageId,
  roomId: RoomId,
  seq: z.int().describe("Position of the message in its room's stream"),
  senderId: PrincipalId.describe("Principal that sent it"),
  senderKind: PrincipalKind,
  type: MessageType,
  text: z.string().nullable().describe("Text of the message; null once deleted"),
  format: Format,
  threadId: MessageId.nullable().describe("Root message of the thread if this is a reply in one"),
  replyToId: MessageId.nullable().describe("Message this one replies to; null if none"),
  mentions: Mentions,
  files: z.array(MessageFile).describe("Attached files"),
  reactions: z.array(Reaction).describe("Reactions, in the order of their first use"),
  pinned: z.boolean().describe("Whether it is pinned in its room"),
  replyCount: z.int().describe("Number of replies in the thread of this message"),
  lastReplyAt: z.iso.datetime().nullable().describe(
    "When the newest reply of its thread was sent; null if it has none",
  ),
  clientMessageId: z.string().nullable(),
  metadata: z.record(z.string(), Json),
  elements: z.array(Element).optional().describe(
    "Buttons, selects, links and forms below the text; absent if it has none",
  ),
  editedAt: z.iso.datetime().nullable(),
  editCount: z.int().describe("Number of edits"),
  deletedAt: z.iso.datetime().nullable(),
  version: z.int(),
  createdAt: z.iso.datetime(),
}).meta({ id: "Message" });
export type Message = z.output<typeof Message>;

const ParseMentions = z.boolean().optional().describe(
  "Also mention the members that the text names as `@handle` or `@id`, those of a group that it names by its handle, and everybody " +
    `for \`@all\` or \`@here\` if the caller may. Of ${NAMES_MAX} names, with ${GROUPS_MENTIONED_MAX} groups, ${MENTIONS_MAX} members at ` +
    "most: what became of a group is in `mentions.groups`, and of other names in `mentions.ignored`. Code and escaped @ are ignored; unknown names remain text",
);

const ELEMENTS = "Buttons, selects, links and forms below the text; only agents and services send others than links. " +
  "At most 16 KiB of JSON. Clients without them show the text";

export const MessageSend = z.strictObject({
  roomId: RoomId,
  text: Text.default(""),
  fileIds: FileIds.optional().describe("Files of the caller; the text is then optional"),
  type: z.enum(["text", "notice", "file", "custom"]).default("text").describe("`file` is the only type without a text"),
  format: Format.default("markdown"),
  threadId: MessageId.optional(),
  replyToId: MessageId.optional().describe("Message in the same room this one replies to"),
  mentions: Mentions.default({ principalIds: [], room: false }),
  parseMentions: ParseMentions,
  clientMessageId: z.string().min(1).max(128).optional()
    .describe("Client-generated id, permanently unique per room and sender; a repeated send returns the first message"),
  metadata: Metadata.default({}),
  elements: Elements.optional().describe(ELEMENTS),
  sendAt: TimeInput.optional().describe("Time to send the message, at most one year ahead; returns 202"),
}).superRefine(({ text, fileIds, type }, context) => {
  if (fileIds === undefined && isBlank(text)) {
    context.addIssue({ code: "custom", path: ["text"], message: "required without files" });
  }
  if (type === "file" && fileIds === undefined) {
    context.addIssue({ code: "custom", path: ["fileIds"], message: "required for a message of type file" });
  }
});
export type MessageSend = z.output<typeof MessageSend>;

function isBlank(text: string): boolean {
  return text.trim() === "";
}

const Anchor = z.union([z.int().min(0), MessageId]).describe("A position or a message id");

export const IncludeSenders = z.array(z.enum(["senders"])).max(1).default([])
  .describe("`senders`: include names and pictures of the senders");

export const MessageList = z.strictObject({
  roomId: RoomId,
  before: Anchor.optional(),
  after: Anchor.optional(),
  around: Anchor.optional(),
  threadId: MessageId.optional(),
  senderId: PrincipalRef.optional(),
  types: z.array(MessageType).max(5).optional().describe("Only messages of these types"),
  include: IncludeSenders,
  limit: z.int().min(1).max(200).default(50).describe(
    "Maximum number of messages on the page; long ones make it shorter, so `hasMore` says whether there are more",
  ),
});
export type MessageList = z.output<typeof MessageList>;

export const Messages = z.object({
  items: z.array(Message).describe("Messages in ascending order of `seq`"),
  hasMore: z.boolean().describe("Whether there are more messages in the requested direction"),
  hasBefore: z.boolean().describe("Whether there are older messages"),
  hasAfter: z.boolean().describe("Whether there are newer messages"),
  lastSeq: z.int().describe("Position of the newest event of the room; subscribe or list events from here"),
  epoch: z.string(),
  senders: Senders,
}).meta({ id: "Messages" });
export type Messages = z.output<typeof Messages>;

export const MessageRead = z.strictObject({
  id: MessageId,
  include: z.array(z.enum(["thread", "following", "history", "senders"])).max(4).default([]).describe(
    "Related data to include: the thread of the message, whether the caller follows it, earlier versions of the message, names " +
      "and pictures of the senders",
  ),
});
export type MessageRead = z.output<typeof MessageRead>;

export const MessageHistory = z.strictObject({ ...pageInput, id: MessageId });
export type MessageHistory = z.output<typeof MessageHistory>;

export const MessageUpdate = z.strictObject({
  id: MessageId,
  text: Text.refine((text) => !isBlank(text), "expected more than white space").optional(),
  format: Format.optional(),
  mentions: Mentions.optional(),
  parseMentions: ParseMentions,
  metadata: Metadata.optional(),
  elements: Elements.optional().describe(ELEMENTS),
  version: BaseVersion,
});
export type MessageUpdate = z.output<typeof MessageUpdate>;

export const MessageVersion = z.object({
  version: z.int(),
  text: z.string().nullable().describe("Text of this version; null once deleted"),
  editorId: PrincipalId.describe("Principal that wrote this version"),
  at: z.iso.datetime(),
}).meta({ id: "MessageVersion" });
export type MessageVersion = z.output<typeof MessageVersion>;

export const MessageDetail = Message.extend({
  thread: z.object({ items: z.array(Message).describe("Replies in ascending order of `seq`"), hasMore: z.boolean() })
    .optional()
    .describe("With include=thread: the first 200 replies of its thread, fewer if they are long"),
  following: z.boolean().optional().describe(
    "With include=following: whether the caller follows its thread, or takes part in it and has not unfollowed it",
  ),
  history: z.array(MessageVersion).optional().describe(
    "With include=history: the newest 50 versions, in ascending order",
  ),
  senders: Senders,
}).meta({ id: "MessageDetail" });
export type MessageDetail = z.output<typeof MessageDetail>;

const previousMentions = Mentions.describe("Mentions before the edit, for clients that count mentions");

/** Durable events of messages, on the room's stream. */
export const MESSAGE_EVENTS: readonly EventType[] = eventTypes("message.read", [
  {
    type: "message.created",
    summary: "A message was sent; `seq` is the position of the event, and its thread gained one reply at `createdAt`",
    data: z.object({
      message: Message,
      thread: z.object({
        replyCount: z.int().describe("Replies in the thread, including this one"),
        lastReplyAt: z.iso.datetime(),
      }).optional().describe(
        "For a reply: reply count of the root message. Absent if `historyVisibility` is `joined`, because the " +
          "count would include replies that some members cannot see",
      ),
    }),
  },
  {
    type: "message.updated",
    summary: "A message was edited; the new text is always included",
    data: changesSchema(Message).extend({
      messageId: MessageId,
      roomId: RoomId,
      seq: z.int().describe("Position of the message"),
      senderId: PrincipalId.describe("Author of the message"),
      mentions: Mentions.describe("Mentions after the edit"),
      previousMentions,
    }),
  },
  {
    type: "message.deleted",
    summary:
      "A message was deleted: it lost its content, reactions and pin, and its content was removed from earlier " +
      "events",
    data: z.object({ message: Message, previousMentions }),
  },
  {
    type: "message.expired",
    summary:
      "Messages up to a position exceeded the retention period of the room: they were deleted with all related " +
      "data",
    data: z.object({ roomId: RoomId, upToSeq: z.int() }),
  },
  { type: "message.pinned", summary: "A message was pinned", data: z.object({ roomId: RoomId, messageId: MessageId }) },
  {
    type: "message.unpinned",
    summary: "A message was unpinned",
    data: z.object({ roomId: RoomId, messageId: MessageId }),
  },
  {
    type: "thread.updated",
    summary: "A reply was deleted; has the new reply count of the root message",
    data: z.object({
      roomId: RoomId,
      threadId: MessageId,
      replyCount: z.int(),
      lastReplyAt: z.iso.datetime().nullable(),
    }),
  },
  {
    type: REDACTED_TYPE,
    summary: "Placeholder for an event the recipient may not see, because it is about a message from before the " +
      "recipient joined or the token lacks its scope: has a position but no content and no actor",
    data: z.object({}),
  },
]);

export const REACTION_KINDS_MAX = 50;

export const ReactionKey = Emoji.describe("An emoji such as 👍, or a name such as `:shipit:`");

export const ReactionRef = z.strictObject({ id: MessageId, key: ReactionKey });
export type ReactionRef = z.output<typeof ReactionRef>;

export const Reactions = z.object({
  reactions: z.array(Reaction).describe("Reactions to the message, in the order of their first use"),
}).meta({ id: "Reactions" });

export const ReactionList = z.strictObject({
  ...pageInput,
  id: MessageId,
  key: ReactionKey.optional().describe("Only reactions with this key"),
});
export type ReactionList = z.output<typeof ReactionList>;

export const Reactor = z.object({
  key: z.string().describe("The emoji, or a name such as `:shipit:`"),
  principal: Person.describe(
    "The principal that reacted. For guests of the tenant, principals they share no room with have no handle, picture " +
      "and status",
  ),
  createdAt: z.iso.datetime().describe("When the principal reacted"),
}).meta({ id: "Reactor" });
export type Reactor = z.output<typeof Reactor>;

const reactionChange = z.object({
  roomId: RoomId,
  messageId: MessageId,
  key: z.string(),
  principalId: PrincipalId.describe("Principal that added or removed the reaction"),
  reactions: z.array(Reaction).describe("All reactions to the message after the change"),
});

/** Durable events of reactions, on the room's stream. */
export const REACTION_EVENTS: readonly EventType[] = eventTypes("message.read", [
  { type: "reaction.added", summary: "A reaction was added to a message", data: reactionChange },
  { type: "reaction.removed", summary: "A reaction was removed from a message", data: reactionChange },
]);
