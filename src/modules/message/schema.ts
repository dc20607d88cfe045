// Messages as seen from outside, and the events they cause.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS } from "@/core/actor.ts";
import { type EventType, HIDDEN_TYPE } from "@/core/event.ts";
import { Json } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { FileIds } from "@/modules/file/mod.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { Metadata, RoomId } from "@/modules/room/mod.ts";

export const MESSAGE_TYPES = ["text", "notice", "system", "file", "custom"] as const;
export const TEXT_MAX_CODE_POINTS = 16_000;
export const TEXT_MAX_BYTES = 64_000;
export const MENTIONS_MAX = 50;

export const MessageId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");

const Text = z.string().superRefine((text, context) => {
  // Bytes first: most texts are short, and only long ones are worth counting in code points.
  if (text.length * 3 <= TEXT_MAX_CODE_POINTS) return;
  const bytes = new TextEncoder().encode(text).length;
  if (bytes > TEXT_MAX_BYTES) context.addIssue(`at most ${TEXT_MAX_BYTES} bytes of UTF-8, this has ${bytes}`);
  const codePoints = [...text].length;
  if (codePoints > TEXT_MAX_CODE_POINTS) {
    context.addIssue(`at most ${TEXT_MAX_CODE_POINTS} characters, this has ${codePoints}`);
  }
}).meta({
  description: `At most ${TEXT_MAX_CODE_POINTS} characters and ${TEXT_MAX_BYTES} bytes`,
  maxLength: TEXT_MAX_CODE_POINTS,
});

const Format = z.enum(["markdown", "plain"]);

export const Mentions = z.strictObject({
  principalIds: z.array(PrincipalId).max(MENTIONS_MAX).default([]),
  room: z.boolean().default(false).describe("Everybody; above 100 members only moderators may"),
}).meta({ id: "Mentions" });
export type Mentions = z.output<typeof Mentions>;

export const MessageFile = z.object({
  id: z.string(),
  name: z.string(),
  contentType: z.string(),
  size: z.int().describe("Bytes"),
  width: z.int().nullable().describe("Pixels, of an image"),
  height: z.int().nullable(),
}).meta({ id: "MessageFile" });
export type MessageFile = z.output<typeof MessageFile>;

export const Reaction = z.object({
  key: z.string(),
  count: z.int(),
  me: z.boolean().optional().describe("Whether I am among them; absent in events, which are the same for everybody"),
}).meta({ id: "Reaction" });
export type Reaction = z.output<typeof Reaction>;

export const Message = z.object({
  id: MessageId,
  roomId: RoomId,
  seq: z.int().describe("Position of the message in its room's stream"),
  senderId: PrincipalId,
  senderKind: z.enum(PRINCIPAL_KINDS),
  type: z.enum(MESSAGE_TYPES),
  text: z.string().nullable().describe("null once deleted"),
  format: Format,
  threadId: MessageId.nullable().describe("Root message of the thread this is a reply in"),
  replyToId: MessageId.nullable(),
  mentions: Mentions,
  files: z.array(MessageFile),
  reactions: z.array(Reaction).describe("In the order in which the keys came up"),
  pinned: z.boolean(),
  replyCount: z.int().describe("Replies in the thread under this message"),
  lastReplyAt: z.iso.datetime().nullable(),
  clientMessageId: z.string().nullable(),
  metadata: z.record(z.string(), Json),
  editedAt: z.iso.datetime().nullable(),
  editCount: z.int(),
  deletedAt: z.iso.datetime().nullable(),
  version: z.int(),
  createdAt: z.iso.datetime(),
}).meta({ id: "Message" });
export type Message = z.output<typeof Message>;

export const MessageSend = z.strictObject({
  roomId: RoomId,
  text: Text.default(""),
  fileIds: FileIds.optional().describe("Files of the caller's; with them the text may be left out"),
  type: z.enum(["text", "notice", "file", "custom"]).default("text").describe("Files without a text are always `file`"),
  format: Format.default("markdown"),
  threadId: MessageId.optional(),
  replyToId: MessageId.optional(),
  mentions: Mentions.default({ principalIds: [], room: false }),
  clientMessageId: z.string().min(1).max(128).optional()
    .describe("Yours, unique per room and sender for ever: a repeated send answers the first message"),
  metadata: Metadata.default({}),
  sendAt: z.iso.datetime().optional().describe("Send it then, at most a year ahead; answered with 202"),
}).superRefine(({ text, fileIds, type }, context) => {
  if (text === "" && fileIds === undefined) {
    context.addIssue({ code: "custom", path: ["text"], message: "Needed without files" });
  }
  if (type === "file" && fileIds === undefined) {
    context.addIssue({ code: "custom", path: ["fileIds"], message: "Needed by a message of type file" });
  }
});
export type MessageSend = z.output<typeof MessageSend>;

const Anchor = z.union([z.int().min(0), MessageId]).describe("A position or a message id");

export const MessageList = z.strictObject({
  roomId: RoomId,
  before: Anchor.optional(),
  after: Anchor.optional(),
  around: Anchor.optional(),
  threadId: MessageId.optional(),
  senderId: PrincipalRef.optional(),
  types: z.array(z.enum(MESSAGE_TYPES)).max(5).optional(),
  limit: z.int().min(1).max(200).default(50).describe("Rows wanted, 1 to 200"),
});
export type MessageList = z.output<typeof MessageList>;

export const Messages = z.object({
  items: z.array(Message).describe("Ascending by seq"),
  hasMore: z.boolean().describe("More in the direction asked for"),
  hasBefore: z.boolean(),
  hasAfter: z.boolean(),
  lastSeq: z.int().describe("Position of the newest event of the room; subscribe or read events from here"),
  epoch: z.string(),
}).meta({ id: "Messages" });
export type Messages = z.output<typeof Messages>;

export const MessageRead = z.strictObject({
  id: MessageId,
  include: z.array(z.enum(["thread", "history"])).max(2).default([]),
});
export type MessageRead = z.output<typeof MessageRead>;

export const MessageHistory = z.strictObject({ ...pageInput, id: MessageId });
export type MessageHistory = z.output<typeof MessageHistory>;

export const MessageUpdate = z.strictObject({
  id: MessageId,
  text: Text.min(1).optional(),
  format: Format.optional(),
  mentions: Mentions.optional(),
  metadata: Metadata.optional(),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type MessageUpdate = z.output<typeof MessageUpdate>;

export const MessageVersion = z.object({
  version: z.int(),
  text: z.string().nullable(),
  editorId: PrincipalId,
  at: z.iso.datetime(),
}).meta({ id: "MessageVersion" });
export type MessageVersion = z.output<typeof MessageVersion>;

export const MessageDetail = Message.extend({
  thread: z.object({ items: z.array(Message).describe("Ascending by seq"), hasMore: z.boolean() }).optional()
    .describe("With include=thread: the first 200 replies of its thread"),
  history: z.array(MessageVersion).optional().describe(
    "With include=history: the newest 50 versions, the current one last",
  ),
}).meta({ id: "MessageDetail" });
export type MessageDetail = z.output<typeof MessageDetail>;

const changed = z.object({
  message: Message,
  previousMentions: Mentions.describe("Whom it mentioned before, for those who count"),
});

/** Durable events of messages, on the stream of their room. */
export const MESSAGE_EVENTS: readonly EventType[] = [
  {
    type: "message.created",
    summary: "A message was sent; its seq is the event's, and its thread has one reply more, as of its createdAt",
    data: z.object({ message: Message }),
  },
  { type: "message.updated", summary: "A message was edited", data: changed },
  {
    type: "message.deleted",
    summary: "A message became a tombstone, without reactions and pin; the events before it no longer say what it said",
    data: changed,
  },
  {
    type: "message.expired",
    summary: "Messages up to a position are older than the room keeps them: they are gone, with all that hung on them",
    data: z.object({ roomId: RoomId, upToSeq: z.int() }),
  },
  {
    type: "message.pinned",
    summary: "A message was pinned",
    data: z.object({ roomId: RoomId, messageId: MessageId }),
  },
  {
    type: "message.unpinned",
    summary: "A message was unpinned",
    data: z.object({ roomId: RoomId, messageId: MessageId }),
  },
  {
    type: "thread.updated",
    summary: "A reply was deleted; what the root message now counts",
    data: z.object({
      roomId: RoomId,
      threadId: MessageId,
      replyCount: z.int(),
      lastReplyAt: z.iso.datetime().nullable(),
    }),
  },
  {
    type: HIDDEN_TYPE,
    summary:
      "Something became of a message that is hidden from the reader: keeps the place, tells nothing, has no actor",
    data: z.object({}),
  },
];
