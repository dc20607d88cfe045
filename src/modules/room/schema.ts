// Rooms, members and bans in the API, and their events.
import { z } from "@zod/zod";
import { PrincipalKind, RoomRole } from "@/core/actor.ts";
import type { NoticeKind } from "@/core/event/channel.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { changesSchema, OmittedFields, shortenedSchema, snapshotSchema } from "@/core/event/event_data.ts";
import { Json } from "@/core/json.ts";
import { nameSchema } from "@/core/text/name.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { BaseVersion, patchSchema } from "@/core/patch.ts";
import { isLongerThan } from "@/core/text/text.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId, PrincipalRef, Status } from "@/modules/identity/mod.ts";
import { Direct, MessagePreview, RoomInclude } from "./view_schema.ts";

export const RoomId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

export const ROOM_KINDS = ["channel", "direct", "task", "meeting"] as const;
const RoomKind = z.enum(ROOM_KINDS).meta({ id: "RoomKind" });
export const VISIBILITIES = ["public", "private"] as const;
const RoomVisibility = z.enum(VISIBILITIES).meta({ id: "RoomVisibility" });
export const HISTORY_VISIBILITIES = ["shared", "joined"] as const;
const HistoryVisibility = z.enum(HISTORY_VISIBILITIES).meta({ id: "HistoryVisibility" });
const ROOM_STATES = ["active", "archived", "deleted"] as const;
export const DIRECT_MEMBERS_MAX = 8;
export const NAME_MAX = 120;
const METADATA_MAX_BYTES = 8192;
export const RETENTION_DAYS_MAX = 36_500;
/** Rooms with more subscribers publish neither presence nor read receipts. */
export const PRESENCE_MAX = 200;

/** Free JSON of the application, at most 8 KiB encoded; larger values are rejected before their fields are parsed. */
export const Metadata = z.preprocess((value, context) => {
  if (isLongerThan(JSON.stringify(value), METADATA_MAX_BYTES)) context.addIssue("at most 8 KiB of JSON");
  return value;
}, z.record(z.string().max(128), Json));

export const AgentPolicy = z.strictObject({
  mode: z.enum(["mention", "all", "off"]).meta({ id: "AgentMode" }).default("mention").describe(
    "Which messages agents are notified about. mention: mentions of the agent, and direct messages from " +
      "people; all: same as for people; off: none, including tasks and events, and agents have read-only access",
  ),
  maxAgentTurns: z.int().min(0).max(100).default(3).describe(
    "Number of times within five minutes an agent is notified about messages of agents; a message of a person " +
      "resets the count. 0: never",
  ),
  allowedAgentIds: z.array(PrincipalId).max(200).nullish().describe(
    "Agents that have more than read-only access and receive notifications; null or absent: all agents that " +
      "are members",
  ),
}).meta({ id: "AgentPolicy" });
export type AgentPolicy = z.output<typeof AgentPolicy>;

const RETENTION =
  "Days that messages are stored, including pinned ones. Older messages are deleted permanently about once " +
  "an hour, with their reactions, files and mentions, and removed from stored events. The tenant may have fewer days, " +
  "which then apply. null: those of the tenant, or unlimited";

const Name = nameSchema(NAME_MAX);
/** Unique among the public rooms of a tenant. */
export const Slug = z.string().max(64)
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, "expected lower-case letters, digits and single hyphens").describe(
    "Short name for URLs, unique within the tenant: lower-case letters, digits and single hyphens",
  );
const Topic = nameSchema(500, 0).describe("Purpose of the room, one line");
const Description = z.string().max(4000).describe("Description of the room, in Markdown");

export const NotifyLevel = z.enum(["all", "mentions", "none"]).meta({ id: "NotifyLevel" });
export type NotifyLevel = z.output<typeof NotifyLevel>;

const LEVEL =
  "Which messages in this room notify the caller, unless disabled by `notificationPrefs`. all: mentions of " +
  "the caller or the room, replies to the caller, direct messages; mentions: only mentions of the caller or " +
  "the room; none: none";
const MUTED = "Until when messages in this room do not notify and the badge is empty, regardless of the level";
const FAVORITE = "Order of the room among the caller's favorites, lowest first; null: not a favorite";

/** Settings of a member for a room; only the member sees them. */
export const RoomSettings = z.object({
  level: NotifyLevel.describe(LEVEL),
  mutedUntil: z.iso.datetime().nullable().describe(`${MUTED}; ignored once it has passed`),
  favoriteOrder: z.int().nullable().describe(FAVORITE),
}).meta({ id: "RoomSettings" });
export type RoomSettings = z.output<typeof RoomSettings>;

export const RoomSettingsUpdate = z.strictObject({
  id: RoomId,
  level: NotifyLevel.optional().describe(LEVEL),
  mutedUntil: TimeInput.nullable().optional()
    .describe(`${MUTED}; null unmutes, a date in the far future mutes permanently`),
  favoriteOrder: z.int().min(0).max(1_000_000).nullable().optional().describe(FAVORITE),
});
export type RoomSettingsUpdate = z.output<typeof RoomSettingsUpdate>;

export const Member = z.object({
  principalId: PrincipalId,
  kind: PrincipalKind,
  handle: z.string().nullable().describe("Handle for mentions as `@handle`. null: `@id`"),
  displayName: z.string(),
  avatarFileId: z.string().nullable().describe(
    "Current profile picture; every principal that can see this one may read its content",
  ),
  status: Status.nullable().describe("Current status; null if none"),
  disabled: z.boolean().describe("Whether the principal is disabled in the tenant"),
  role: RoomRole,
  joinedAt: z.iso.datetime(),
  lastReadSeq: z.int().nullable().describe(
    "Position up to which the member has read. For other members null unless they and the caller both share it " +
      `(\`readReceipts\` of \`me.update\`), and null in rooms with more than ${PRESENCE_MAX} members`,
  ),
}).meta({ id: "Member" });
export type Member = z.output<typeof Member>;

export const Room = z.object({
  id: RoomId,
  name: z.string().describe("Name of the room"),
  slug: z.string().nullable().describe(
    "Short name for URLs, unique among the public rooms of the tenant; null if none",
  ),
  topic: z.string().nullable().describe("Purpose of the room, one line"),
  description: z.string().nullable().describe("Description of the room, in Markdown"),
  kind: RoomKind,
  visibility: RoomVisibility,
  historyVisibility: HistoryVisibility.describe(
    "joined: members see only messages from after they joined, and no events about older ones",
  ),
  state: z.enum(ROOM_STATES),
  agentPolicy: AgentPolicy,
  retentionDays: z.int().nullable().describe(RETENTION),
  memberCount: z.int().describe("Number of members"),
  lastSeq: z.int().describe("Position of the newest event of the room"),
  epoch: z.string().describe("Changes when the stream is reset"),
  lastMessageAt: z.iso.datetime().nullable().describe("When the newest message was sent; null without messages"),
  unreadCount: z.int().describe("Messages of others after the caller's read position, at most 10000"),
  mentionCount: z.int().describe("Those that mention the caller or the room, at most 10000"),
  badgeCount: z.int().describe(
    "Count for a badge: `unreadCount` at notification level `all`, `mentionCount` at `mentions`, 0 at `none` " +
      "and while muted",
  ),
  lastReadSeq: z.int().describe("Read position of the caller; 0 if not a member"),
  mySettings: RoomSettings.nullable().describe("Settings of the caller for the room; null if not a member"),
  myRole: RoomRole.nullable().describe("Role of the caller; null if not a member"),
  metadata: z.record(z.string(), Json),
  version: z.int(),
  createdBy: PrincipalId,
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
  members: z.array(Member).optional().describe("With include=members: the first 200 members"),
  agents: z.array(Member).optional().describe("With include=agents: the first 200 members that are agents"),
  pins: z.array(MessagePreview).optional().describe(
    "With include=pins: the pinned messages visible to the caller, most recently pinned first",
  ),
  direct: Direct.optional().describe("Of a direct room: the other members, and the name shown to the caller"),
  lastMessage: MessagePreview.nullable().optional().describe(
    "With include=lastMessage: the newest message visible to the caller, including replies in threads; null " +
      "without one",
  ),
}).meta({ id: "Room" });
export type Room = z.output<typeof Room>;

/** What can be included with one room. */
export const RoomReadInclude = z.enum(["members", "agents", "pins", ...RoomInclude.options]);
export type RoomReadInclude = z.output<typeof RoomReadInclude>;

export const RoomCreate = z.strictObject({
  name: Name.optional().describe("Required, except for a direct room, whose name defaults to those of its members"),
  slug: Slug.optional().describe(
    "Must be unique among the public rooms of the tenant; slugs of private rooms need not be unique",
  ),
  topic: Topic.optional(),
  description: Description.optional(),
  kind: RoomKind.default("channel"),
  visibility: RoomVisibility.default("private"),
  historyVisibility: HistoryVisibility.default("shared"),
  memberIds: z.array(PrincipalId).max(200).default([]).describe(
    "Members in addition to the creator, with the role member",
  ),
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
  name: Name.optional().describe("New name of the room"),
  slug: Slug.nullable().optional(),
  topic: Topic.nullable().optional(),
  description: Description.nullable().optional(),
  visibility: RoomVisibility.optional(),
  historyVisibility: HistoryVisibility.optional(),
  state: z.enum(["active", "archived"]).optional(),
  agentPolicy: patchSchema(AgentPolicy).optional().describe("Agent policy; absent fields are unchanged"),
  retentionDays: z.int().min(1).max(RETENTION_DAYS_MAX).nullable().optional().describe(RETENTION),
  metadata: Metadata.optional(),
  version: BaseVersion,
});
export type RoomUpdate = z.output<typeof RoomUpdate>;

export const RoomList = z.strictObject({
  ...pageInput,
  q: z.string().trim().min(1).max(100).optional().describe("Part of the name"),
  kind: RoomKind.optional(),
  visibility: RoomVisibility.optional().describe("Only rooms with this visibility"),
  member: z.enum(["me", "any"]).default("any").describe("me: only rooms of the caller; any: public rooms as well"),
  state: z.enum(ROOM_STATES).optional()
    .describe("Default: active and archived ones; deleted: those that the caller owns, and so can restore"),
  sort: z.enum(["-lastMessageAt", "name"]).default("-lastMessageAt"),
  include: z.array(RoomInclude).max(1).default([])
    .describe("`lastMessage`: include the newest message of each; requires the scope `message.read`"),
  updatedSince: TimeInput.optional(),
});
export type RoomList = z.output<typeof RoomList>;

export const MemberList = z.strictObject({
  ...pageInput,
  id: RoomId,
  role: RoomRole.optional(),
  kind: PrincipalKind.optional(),
});
export type MemberList = z.output<typeof MemberList>;

export const MemberPut = z.strictObject({
  id: RoomId,
  principalId: PrincipalRef,
  role: RoomRole.optional().describe("Default: `member` for a new member, unchanged for an existing one"),
});
export type MemberPut = z.output<typeof MemberPut>;

export const MemberRemove = z.strictObject({
  id: RoomId,
  principalId: PrincipalRef,
  ban: z.boolean().default(false).describe("Also ban the member from joining again"),
  reason: z.string().trim().max(500).optional().describe("Reason, stored with the ban"),
});
export type MemberRemove = z.output<typeof MemberRemove>;

export const Ban = z.object({
  principalId: PrincipalId,
  reason: z.string().nullable().describe("Reason of the ban; null if none was given"),
  createdBy: PrincipalId,
  createdAt: z.iso.datetime(),
}).meta({ id: "Ban" });
export type Ban = z.output<typeof Ban>;

/** An event in REST: the publication of `/ws` and its position in the stream. */
export const RoomEvent = z.object({
  seq: z.int(),
  id: z.string(),
  type: z.string().describe("Type of the event, such as `message.created`"),
  at: z.iso.datetime(),
  actor: z.object({ id: z.string(), kind: PrincipalKind }).meta({ id: "EventActor" }).nullable().describe(
    "Principal that caused it; null for the gateway",
  ),
  agentHops: z.int().min(1).optional().describe("How many agents led to it, one after the other; absent if none did"),
  data: z.unknown(),
}).meta({ id: "RoomEvent" });

export const RoomEvents = z.object({
  epoch: z.string(),
  events: z.array(RoomEvent).describe("Events in order, oldest first"),
  lastSeq: z.int().describe("Position of the newest event of the room"),
  complete: z.boolean().describe("Whether the response reaches `lastSeq`"),
}).meta({ id: "RoomEvents" });
export type RoomEvents = z.output<typeof RoomEvents>;

export const Bans = pageSchema(Ban);

/** A room in events: the fields that are the same for all viewers. */
export const SharedRoom = Room.omit({
  members: true,
  lastSeq: true,
  unreadCount: true,
  mentionCount: true,
  badgeCount: true,
  lastReadSeq: true,
  mySettings: true,
  direct: true,
  lastMessage: true,
  myRole: true,
}).meta({ id: "SharedRoom" });
export type SharedRoom = z.output<typeof SharedRoom>;
/** The fields of a room that can be long. */
export const LONG_FIELDS = ["topic", "description", "agentPolicy", "metadata"] as const satisfies (keyof SharedRoom)[];

const changed = changesSchema(SharedRoom).extend({ roomId: RoomId });

const memberData = z.object({ roomId: RoomId, principalId: PrincipalId, role: RoomRole, memberCount: z.int() });

/** Durable events of rooms; those marked (principal) also appear on the stream of the principal concerned. */
export const ROOM_EVENTS: readonly EventType[] = eventTypes("room.read", [
  {
    type: "room_settings.updated",
    streams: ["principal"],
    summary: "The principal changed its settings of a room",
    data: z.object({ roomId: RoomId, settings: RoomSettings }),
  },
  { type: "room.created", summary: "The room was created", data: snapshotSchema("room", SharedRoom, LONG_FIELDS) },
  {
    type: "room.updated",
    streams: ["room", "principal"],
    summary: "The room was changed (principal: restored; read it again)",
    data: changed,
  },
  { type: "room.archived", summary: "The room was archived", data: changed },
  {
    type: "room.deleted",
    streams: ["room", "principal"],
    summary: "The room was deleted; subscriptions end (principal)",
    data: z.object({ roomId: RoomId }),
  },
  {
    type: "member.joined",
    streams: ["room", "principal"],
    summary: "A member was added (principal: with the room, while it is a member, and the position to read from)",
    data: memberData.extend({
      kind: PrincipalKind.optional(),
      handle: z.string().nullable().optional(),
      displayName: z.string().optional().describe("When the member joined; absent for members added by an import"),
      avatarFileId: z.string().nullable().optional(),
      status: Status.nullable().optional(),
      disabled: z.boolean().optional(),
      room: shortenedSchema(SharedRoom, LONG_FIELDS).optional(),
      omitted: OmittedFields.optional(),
      lastReadSeq: z.int().optional(),
    }),
  },
  {
    type: "member.updated",
    streams: ["room", "principal"],
    summary:
      "A member's role was changed (principal), or a member's name, handle, picture or status, or the member was disabled " +
      "or enabled. Without an actor: the ownership was transferred because the owner was disabled, or what else is " +
      "named here changed, which is published with a short delay and only the last of several changes",
    data: memberData.extend({
      kind: PrincipalKind.optional(),
      handle: z.string().nullable().optional(),
      displayName: z.string().optional().describe(
        "With `kind`, `handle`, `avatarFileId`, `status` and `disabled`; absent if only the role changed",
      ),
      avatarFileId: z.string().nullable().optional(),
      status: Status.nullable().optional(),
      disabled: z.boolean().optional(),
    }),
  },
  {
    type: "member.left",
    streams: ["room", "principal"],
    summary: "A member left, was removed or banned; its subscription ends (principal). Its agents follow, each in an " +
      "event of its own",
    data: z.object({
      roomId: RoomId,
      principalId: PrincipalId,
      reason: z.enum(["left", "removed", "banned"]),
      memberCount: z.int(),
    }),
  },
  {
    type: "principal.erased",
    summary:
      "A person who was a member was erased: replace the id by the pseudonym in what you have of the room. Later readers " +
      "find the pseudonym in both fields, and should read the room again",
    data: z.object({
      roomId: RoomId,
      principalId: PrincipalId,
      pseudonymId: PrincipalId.describe("The disabled principal that takes its place"),
    }),
  },
]);

const MemberRead = z.object({
  roomId: RoomId,
  principalId: PrincipalId.describe("The member"),
  lastReadSeq: z.int().describe("Position up to which the member has read"),
});
export type MemberRead = z.output<typeof MemberRead>;

export const RECEIPT_NOTICES: Readonly<Record<string, NoticeKind>> = {
  "member.read": {
    summary:
      "The read position of a member advanced. Published at most once a second per member; ignore a position lower than the " +
      `known one. Only in rooms with at most ${PRESENCE_MAX} members, and only to members who share their own position`,
    data: MemberRead,
  },
};
