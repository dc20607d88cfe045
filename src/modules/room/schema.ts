// Rooms and their members as seen from outside, and the events they cause.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS, ROOM_ROLES } from "@/core/actor.ts";
import type { EventType } from "@/core/event.ts";
import { Json } from "@/core/json.ts";
import { pageInput, pageOf } from "@/core/page.ts";
import { patchOf } from "@/core/patch.ts";
import { isLongerThan } from "@/core/text.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";

export const ROOM_KINDS = ["channel", "direct", "task", "meeting"] as const;
export const VISIBILITIES = ["public", "private"] as const;
export const HISTORY_VISIBILITIES = ["shared", "joined"] as const;
const ROOM_STATES = ["active", "archived", "deleted"] as const;
export const DIRECT_MEMBERS_MAX = 8;
export const NAME_MAX = 120;
export const RETENTION_DAYS_MAX = 36_500;
/** Above so many subscribers of a room nobody is told who they are. */
export const PRESENCE_MAX = 200;

export const RoomId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");

/** Free JSON of the application, at most 8 KiB encoded. */
export const Metadata = z.record(z.string().max(128), Json).refine(
  (value) => !isLongerThan(JSON.stringify(value), 8192),
  "at most 8 KiB of JSON",
);

export const AgentPolicy = z.strictObject({
  mode: z.enum(["mention", "all", "off"]).default("mention").describe(
    "Which messages agents are notified of. mention: those that mention them, and what people write to them; " +
      "all: the same as people; off: none, nor of tasks and events, and agents only read the room",
  ),
  maxAgentTurns: z.int().min(0).max(100).default(3).describe(
    "How often within five minutes an agent is notified of what agents write here; as soon as a person writes, the count " +
      "begins anew. 0: never",
  ),
  allowedAgentIds: z.array(PrincipalId).max(200).nullish().describe(
    "Agents that may do more than read the room, and are notified of what is there; null or absent: every agent that is a member",
  ),
}).meta({ id: "AgentPolicy" });
export type AgentPolicy = z.output<typeof AgentPolicy>;

const RETENTION =
  "Days that messages are kept, pinned ones too; about once an hour those older than that are removed for good, with their " +
  "reactions, files and mentions, and the events that told of them. null: for ever";

const Name = z.string().trim().min(1).max(NAME_MAX);
export const Slug = z.string().max(64)
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, "lower-case letters, digits and single hyphens");
const Topic = z.string().trim().max(500);
const Description = z.string().max(4000);

export const Member = z.object({
  principalId: PrincipalId,
  kind: z.enum(PRINCIPAL_KINDS),
  displayName: z.string(),
  avatarFileId: z.string().nullable().describe(
    "Its picture, whose content whoever may read the principal may read",
  ),
  role: z.enum(ROOM_ROLES),
  joinedAt: z.iso.datetime(),
  lastReadSeq: z.int().nullable().describe("Only of oneself; null for others"),
}).meta({ id: "Member" });
export type Member = z.output<typeof Member>;

export const Room = z.object({
  id: RoomId,
  name: z.string(),
  slug: z.string().nullable(),
  topic: z.string().nullable(),
  description: z.string().nullable(),
  kind: z.enum(ROOM_KINDS),
  visibility: z.enum(VISIBILITIES),
  historyVisibility: z.enum(HISTORY_VISIBILITIES).describe(
    "joined: members see only what came after they joined; of what becomes of older messages they hear nothing",
  ),
  state: z.enum(ROOM_STATES),
  agentPolicy: AgentPolicy,
  retentionDays: z.int().nullable().describe(RETENTION),
  memberCount: z.int(),
  lastSeq: z.int().describe("Position of the newest event of the room"),
  epoch: z.string().describe("Changes when positions start anew"),
  lastMessageAt: z.iso.datetime().nullable(),
  unreadCount: z.int().describe("Messages of others after my read position, at most 10000"),
  mentionCount: z.int().describe("Those that mention me or the room, at most 10000"),
  lastReadSeq: z.int().describe("My read position; 0 when not a member"),
  myRole: z.enum(ROOM_ROLES).nullable().describe("null: looking in without being a member"),
  metadata: z.record(z.string(), Json),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
  members: z.array(Member).optional().describe("With include=members: the first 200"),
}).meta({ id: "Room" });
export type Room = z.output<typeof Room>;

export const RoomCreate = z.strictObject({
  name: Name.optional().describe("Needed but for a direct room, which else is named after its members"),
  slug: Slug.optional(),
  topic: Topic.optional(),
  description: Description.optional(),
  kind: z.enum(ROOM_KINDS).default("channel"),
  visibility: z.enum(VISIBILITIES).default("private"),
  historyVisibility: z.enum(HISTORY_VISIBILITIES).default("shared"),
  memberIds: z.array(PrincipalId).max(200).default([]).describe("Members besides the creator, with the role member"),
  agentPolicy: AgentPolicy.default({ mode: "mention", maxAgentTurns: 3 }),
  retentionDays: z.int().min(1).max(RETENTION_DAYS_MAX).nullable().default(null).describe(RETENTION),
  metadata: Metadata.default({}),
}).refine(({ kind, name }) => kind === "direct" || name !== undefined, {
  path: ["name"],
  error: "a room needs a name, unless it is direct",
});
export type RoomCreate = z.output<typeof RoomCreate>;

export const RoomUpdate = z.strictObject({
  id: RoomId,
  name: Name.optional(),
  slug: Slug.nullable().optional(),
  topic: Topic.nullable().optional(),
  description: Description.nullable().optional(),
  visibility: z.enum(VISIBILITIES).optional(),
  historyVisibility: z.enum(HISTORY_VISIBILITIES).optional(),
  state: z.enum(["active", "archived"]).optional(),
  agentPolicy: patchOf(AgentPolicy).optional(),
  retentionDays: z.int().min(1).max(RETENTION_DAYS_MAX).nullable().optional().describe(RETENTION),
  metadata: Metadata.optional(),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type RoomUpdate = z.output<typeof RoomUpdate>;

export const RoomList = z.strictObject({
  ...pageInput,
  q: z.string().trim().min(1).max(100).optional().describe("Part of the name"),
  kind: z.enum(ROOM_KINDS).optional(),
  visibility: z.enum(VISIBILITIES).optional(),
  member: z.enum(["me", "any"]).default("any").describe("me: only rooms I am a member of; any: public rooms as well"),
  state: z.enum(["active", "archived"]).optional(),
  sort: z.enum(["-lastMessageAt", "name"]).default("-lastMessageAt"),
  updatedSince: z.iso.datetime().optional(),
});
export type RoomList = z.output<typeof RoomList>;

export const MemberList = z.strictObject({
  ...pageInput,
  id: RoomId,
  role: z.enum(ROOM_ROLES).optional(),
  kind: z.enum(PRINCIPAL_KINDS).optional(),
});
export type MemberList = z.output<typeof MemberList>;

export const MemberPut = z.strictObject({
  id: RoomId,
  principalId: PrincipalRef,
  role: z.enum(ROOM_ROLES).optional().describe("Default: member for someone new, unchanged for a member"),
});
export type MemberPut = z.output<typeof MemberPut>;

export const MemberRemove = z.strictObject({
  id: RoomId,
  principalId: PrincipalRef,
  ban: z.boolean().default(false).describe("Also keep them from coming back"),
  reason: z.string().trim().max(500).optional(),
});
export type MemberRemove = z.output<typeof MemberRemove>;

export const Ban = z.object({
  principalId: PrincipalId,
  reason: z.string().nullable(),
  createdBy: PrincipalId,
  createdAt: z.iso.datetime(),
}).meta({ id: "Ban" });
export type Ban = z.output<typeof Ban>;

/** An event as REST shows it: the publication of `/ws` plus its place in the stream. */
export const RoomEvent = z.object({
  seq: z.int(),
  id: z.string(),
  type: z.string(),
  at: z.iso.datetime(),
  actor: z.object({ id: z.string(), kind: z.enum(PRINCIPAL_KINDS) }).nullable(),
  data: z.unknown(),
}).meta({ id: "RoomEvent" });

export const RoomEvents = z.object({
  epoch: z.string(),
  events: z.array(RoomEvent),
  lastSeq: z.int(),
  complete: z.boolean().describe("Whether the answer reaches lastSeq"),
}).meta({ id: "RoomEvents" });
export type RoomEvents = z.output<typeof RoomEvents>;

export const Bans = pageOf(Ban);

/** A room as events carry it: what is the same for everybody. */
export const SharedRoom = Room.omit({
  members: true,
  lastSeq: true,
  unreadCount: true,
  mentionCount: true,
  lastReadSeq: true,
  myRole: true,
}).meta({ id: "SharedRoom" });
export type SharedRoom = z.output<typeof SharedRoom>;

const memberData = z.object({
  roomId: RoomId,
  principalId: PrincipalId,
  role: z.enum(ROOM_ROLES),
  memberCount: z.int(),
});

/** Durable events of rooms; those marked (principal) also appear on the stream of the principal concerned. */
export const ROOM_EVENTS: readonly EventType[] = [
  { type: "room.created", summary: "The room came to be", data: z.object({ room: SharedRoom }) },
  {
    type: "room.updated",
    streams: ["room", "principal"],
    summary: "The room changed (principal: it was restored; read it again)",
    data: z.object({ room: SharedRoom }),
  },
  { type: "room.archived", summary: "The room became read-only", data: z.object({ room: SharedRoom }) },
  {
    type: "room.deleted",
    streams: ["room", "principal"],
    summary: "The room was deleted; subscriptions end (principal)",
    data: z.object({ roomId: RoomId }),
  },
  {
    type: "member.joined",
    streams: ["room", "principal"],
    summary: "Someone became a member (principal: with the room, and where reading starts)",
    data: memberData.extend({
      kind: z.enum(PRINCIPAL_KINDS).optional(),
      displayName: z.string().optional().describe("At that time; absent when an import brought the member"),
      avatarFileId: z.string().nullable().optional(),
      room: SharedRoom.optional(),
      lastReadSeq: z.int().optional(),
    }),
  },
  {
    type: "member.updated",
    streams: ["room", "principal"],
    summary:
      "A member's role changed (principal), or a member has a new name or picture. By nobody: the room passed on " +
      "because its owner was disabled, or the name or picture changed, which is told soon after, the last of several at once",
    data: memberData.extend({
      kind: z.enum(PRINCIPAL_KINDS).optional(),
      displayName: z.string().optional().describe("With `kind` and `avatarFileId`; absent when only the role changed"),
      avatarFileId: z.string().nullable().optional(),
    }),
  },
  {
    type: "member.left",
    streams: ["room", "principal"],
    summary:
      "Someone left, was removed or banned; their subscription ends (principal). Their agents follow, each with its own",
    data: z.object({
      roomId: RoomId,
      principalId: PrincipalId,
      reason: z.enum(["left", "removed", "banned"]),
      memberCount: z.int(),
    }),
  },
];
