// The lines of our own NDJSON export. What is not among their fields is of a later version, and left alone.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS, ROOM_ROLES, TENANT_ROLES } from "@/core/actor.ts";
import { Json, JsonObject } from "@/core/json.ts";
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
import { Counter, listOf } from "@/core/archive/fields.ts";
import { TimeInput } from "@/core/time/time_input.ts";

const Reacted = z.object({ key: z.string(), principalId: PrincipalId, at: TimeInput });
const Edited = z.object({ version: Counter.min(1), text: z.string().nullable(), editorId: PrincipalId, at: TimeInput });

export const HeaderRecord = z.object({ type: z.literal("export"), version: z.literal(1) });
export const PrincipalRecord = z.object({
  id: PrincipalId,
  kind: z.enum(PRINCIPAL_KINDS),
  handle: z.string().nullable(),
  displayName: z.string(),
  role: z.enum(TENANT_ROLES),
  ownerId: PrincipalId.nullable(),
  externalId: z.string().max(200).nullable(),
  timeZone: z.string().max(64).nullable(),
  locale: z.string().max(35).nullable(),
  disabled: z.boolean(),
  createdAt: TimeInput,
});
export const RoomRecord = z.object({
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
  metadata: JsonObject,
  createdBy: PrincipalId,
  createdAt: TimeInput,
  memberIds: z.array(PrincipalId).max(8).default([]).describe("only for direct rooms"),
});
export const MemberRecord = z.object({
  roomId: RoomId,
  principalId: PrincipalId,
  role: z.enum(ROOM_ROLES),
  joinedAt: TimeInput,
});
export const BanRecord = z.object({
  roomId: RoomId,
  principalId: PrincipalId,
  reason: z.string().max(500).nullable(),
  createdBy: PrincipalId,
  createdAt: TimeInput,
});
export const MessageRecord = z.object({
  id: MessageId,
  roomId: RoomId,
  senderId: PrincipalId,
  kind: z.enum(MESSAGE_TYPES),
  text: z.string().nullable(),
  format: z.enum(["markdown", "plain"]),
  threadId: MessageId.nullable(),
  replyToId: MessageId.nullable(),
  mentions: Mentions,
  files: listOf(MessageFile),
  reactions: listOf(Reacted),
  edits: listOf(Edited),
  metadata: JsonObject,
  elements: Json.optional(),
  clientMessageId: z.string().max(128).nullable(),
  pinnedAt: TimeInput.nullable(),
  editedAt: TimeInput.nullable(),
  editCount: Counter,
  deletedAt: TimeInput.nullable(),
  version: Counter.min(1),
  createdAt: TimeInput,
});

export const FileRecord = z.object({
  // Contents are stored under these ids, and thumbnails under ids derived from them.
  id: z.string().regex(/^file_[A-Za-z0-9]{1,59}$/, "expected the id of a file"),
  name: z.string(),
  contentType: z.string(),
  size: z.int().min(0),
  sha256: z.string(),
  uploaderId: PrincipalId,
  roomId: RoomId.nullable(),
  createdAt: TimeInput,
});
