// Groups of people in the API, and their events on the streams of their members.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { nameSchema } from "@/core/text/name.ts";
import { pageInput } from "@/core/page.ts";
import { BaseVersion } from "@/core/patch.ts";
import { Handle, PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";

/** Groups of a tenant, members of a group, and groups of one person. */
export const GROUPS_MAX = 1000;
export const GROUP_MEMBERS_MAX = 1000;
export const GROUPS_OF_PERSON_MAX = 200;
/** Members that one request adds or removes. */
export const CHANGED_MEMBERS_MAX = 100;
export const GROUP_NAME_MAX = 200;
/** Groups that one text mentions: the members of each are looked up. */
export const GROUPS_MENTIONED_MAX = 5;
/** A stream without events: its lock serializes changes, which must not exceed the limits together. */
export const GROUPS_LOCK = "groups";

export const GroupId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");
const Name = nameSchema(GROUP_NAME_MAX).describe("Name of the group, unique within the tenant in any case");
const ExternalId = z.string().min(1).max(200).describe("Id of the group at the identity provider");
const Description = nameSchema(500).nullable().describe("What the group is for");

export const Group = z.object({
  id: GroupId,
  handle: z.string().nullable().describe(
    "Mentions the members who are in a room, as in `@design`; no principal of the tenant has it. null: it cannot be mentioned",
  ),
  name: z.string().describe("Name of the group, unique within the tenant in any case"),
  description: z.string().nullable().describe("What the group is for"),
  externalId: z.string().nullable().describe("Id of the group at the identity provider"),
  memberCount: z.int().nullable().describe("Number of members, disabled ones included; null for guests of the tenant"),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime().describe("When the group or its members last changed"),
}).meta({ id: "Group" });
export type Group = z.output<typeof Group>;

export const GroupMember = z.object({
  principalId: PrincipalId,
  displayName: z.string(),
  handle: z.string().nullable().describe("Handle of the person; null: mentioned by its id"),
  disabled: z.boolean().describe("Whether the person is disabled; such members are not mentioned"),
  addedAt: z.iso.datetime().describe("When the person became a member"),
}).meta({ id: "GroupMember" });
export type GroupMember = z.output<typeof GroupMember>;

export const GroupMention = z.strictObject({
  id: GroupId,
  handle: z.string().max(64).optional().describe("Its handle when the message was sent; ignored in requests"),
  state: z.enum(["mentioned", "empty", "too_many"]).optional().describe(
    "`mentioned`: its members in the room are among `principalIds`; `empty`: none but the sender is in the room; `too_many`: none is " +
      "mentioned, since a message mentions at most 100 principals. Ignored in requests",
  ),
}).meta({ id: "GroupMention" });
export type GroupMention = z.output<typeof GroupMention>;

export const GroupCreate = z.strictObject({
  name: Name,
  handle: Handle.optional().describe("Handle for mentions. Default: a free one like the name"),
  description: Description.default(null),
  externalId: ExternalId.optional(),
});
export type GroupCreate = z.output<typeof GroupCreate>;

export const GroupRef = z.strictObject({ id: GroupId });

export const GroupUpdate = z.strictObject({
  id: GroupId,
  name: Name.optional(),
  handle: Handle.nullable().optional(),
  description: Description.optional(),
  externalId: ExternalId.nullable().optional(),
  version: BaseVersion,
});
export type GroupUpdate = z.output<typeof GroupUpdate>;

export const GroupList = z.strictObject({
  ...pageInput,
  q: z.string().trim().min(1).max(100).optional().describe("Part of the name or the handle"),
  principalId: PrincipalRef.optional().describe("Only groups of this person"),
});
export type GroupList = z.output<typeof GroupList>;

export const GroupMemberList = z.strictObject({ ...pageInput, id: GroupId });
export type GroupMemberList = z.output<typeof GroupMemberList>;

export const GroupMembersChange = z.strictObject({
  id: GroupId,
  principalIds: z.array(PrincipalId).min(1).max(CHANGED_MEMBERS_MAX).describe("People, at most 100 at a time"),
});
export type GroupMembersChange = z.output<typeof GroupMembersChange>;

/** Members learn of their groups; others read them. */
const GroupOfMember = Group.omit({ memberCount: true }).meta({ id: "GroupOfMember" });

export const GROUP_EVENTS: readonly EventType[] = eventTypes("group.read", [
  {
    type: "group.joined",
    streams: ["principal"],
    summary: "The principal was added to a group",
    data: z.object({ group: GroupOfMember }),
  },
  {
    type: "group.updated",
    streams: ["principal"],
    summary: "A group of the principal has another name, handle or description",
    data: z.object({ group: GroupOfMember }),
  },
  {
    type: "group.left",
    streams: ["principal"],
    summary: "The principal was removed from a group, or the group was deleted",
    data: z.object({ groupId: GroupId }),
  },
]);

/** Names are compared by it: in any case. */
export function nameKeyOf(name: string): string {
  return name.toLowerCase();
}
