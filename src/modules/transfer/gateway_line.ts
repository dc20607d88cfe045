// The lines of our own NDJSON export. What is not among their fields is of a later version, and left alone.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS, ROOM_ROLES, TENANT_ROLES } from "@/core/actor.ts";
import { Json } from "@/core/json.ts";
import { isLongerThan } from "@/core/text.ts";
import {
  ACCESS_ROLES,
  AUTHORS_MAX,
  COMMENT_MAX,
  CommentId,
  DOCUMENT_STATES,
  DocumentId,
  QUOTE_MAX,
  REVISION_KINDS,
  TEXT_MAX_BYTES,
} from "@/modules/document/mod.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { Mentions, MESSAGE_TYPES, MessageFile, MessageId } from "@/modules/message/mod.ts";
import {
  AgentPolicy,
  HISTORY_VISIBILITIES,
  RETENTION_DAYS_MAX,
  ROOM_KINDS,
  RoomId,
  Slug,
  VISIBILITIES,
} from "@/modules/room/mod.ts";
import { Counter, Time } from "./line_value.ts";

const Reacted = z.object({ key: z.string(), principalId: PrincipalId, at: Time });
const Edited = z.object({ version: Counter.min(1), text: z.string().nullable(), editorId: PrincipalId, at: Time });

export const HeadLine = z.object({ type: z.literal("export"), version: z.literal(1) });
export const PrincipalLine = z.object({
  id: PrincipalId,
  kind: z.enum(PRINCIPAL_KINDS),
  handle: z.string().nullable(),
  displayName: z.string(),
  role: z.enum(TENANT_ROLES),
  ownerId: PrincipalId.nullable(),
  externalId: z.string().max(200).nullable(),
  timezone: z.string().max(64).nullable(),
  locale: z.string().max(35).nullable(),
  disabled: z.boolean(),
  createdAt: Time,
});
export const RoomLine = z.object({
  id: RoomId,
  kind: z.enum(ROOM_KINDS),
  name: z.string(),
  slug: Slug.nullable(),
  topic: z.string().max(2000).nullable(),
  description: z.string().max(16_000).nullable(),
  visibility: z.enum(VISIBILITIES),
  historyVisibility: z.enum(HISTORY_VISIBILITIES),
  state: z.enum(["active", "archived"]),
  agentPolicy: AgentPolicy,
  retentionDays: Counter.min(1).max(RETENTION_DAYS_MAX).nullable(),
  metadata: z.record(z.string(), Json),
  createdBy: PrincipalId,
  createdAt: Time,
  memberIds: z.array(PrincipalId).max(8).default([]).describe("Of direct rooms"),
});
export const MemberLine = z.object({
  roomId: RoomId,
  principalId: PrincipalId,
  role: z.enum(ROOM_ROLES),
  joinedAt: Time,
});
export const BanLine = z.object({
  roomId: RoomId,
  principalId: PrincipalId,
  reason: z.string().max(500).nullable(),
  createdBy: PrincipalId,
  createdAt: Time,
});
export const MessageLine = z.object({
  id: MessageId,
  roomId: RoomId,
  senderId: PrincipalId,
  kind: z.enum(MESSAGE_TYPES),
  text: z.string().nullable(),
  format: z.enum(["markdown", "plain"]),
  threadId: MessageId.nullable(),
  replyToId: MessageId.nullable(),
  mentions: Mentions,
  files: z.array(MessageFile),
  reactions: z.array(Reacted),
  edits: z.array(Edited),
  metadata: z.record(z.string(), Json),
  clientMessageId: z.string().max(128).nullable(),
  pinnedAt: Time.nullable(),
  editedAt: Time.nullable(),
  editCount: Counter,
  deletedAt: Time.nullable(),
  version: Counter.min(1),
  createdAt: Time,
});

const origin = {
  kind: z.enum(REVISION_KINDS),
  principalIds: z.array(PrincipalId).max(AUTHORS_MAX),
  startedAt: Time,
  at: Time,
};
export const DocumentLine = z.object({
  id: DocumentId,
  roomId: RoomId.nullable(),
  parentId: DocumentId.nullable(),
  title: z.string(),
  state: z.enum(DOCUMENT_STATES),
  locked: z.boolean(),
  revision: Counter.min(1),
  metadata: z.record(z.string(), Json),
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
  editedBy: PrincipalId,
  editedAt: Time,
  readers: z.array(z.object({ principalId: PrincipalId, role: z.enum(ACCESS_ROLES) })),
  origin: z.object(origin).optional(),
});
export const RevisionLine = z.object({
  documentId: DocumentId,
  revision: Counter.min(1),
  ...origin,
  text: z.string().refine((text) => !isLongerThan(text, TEXT_MAX_BYTES), `More than ${TEXT_MAX_BYTES} bytes`),
});
const Pinned = z.string().max(100);
export const CommentLine = z.object({
  documentId: DocumentId,
  id: CommentId,
  parentId: CommentId.nullable(),
  authorId: PrincipalId,
  text: z.string().min(1).max(COMMENT_MAX),
  anchor: z.object({ quote: z.string().min(1).max(QUOTE_MAX), start: Pinned, end: Pinned }).nullable(),
  resolvedBy: PrincipalId.nullable(),
  resolvedAt: Time.nullable(),
  version: Counter.min(1),
  createdAt: Time,
  updatedAt: Time,
}).refine(
  ({ resolvedBy, resolvedAt }) => (resolvedBy === null) === (resolvedAt === null),
  "Resolved by nobody, or at no time",
);
export const FileLine = z.object({
  // Contents are kept under these ids, and what is made of them under ids made of these.
  id: z.string().regex(/^file_[A-Za-z0-9]{1,59}$/, "no id of a file"),
  name: z.string(),
  contentType: z.string(),
  size: z.int().min(0),
  sha256: z.string(),
  uploaderId: PrincipalId,
  roomId: RoomId.nullable(),
  createdAt: Time,
});
