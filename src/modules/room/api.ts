// Operations and channel of rooms.
import { z } from "@zod/zod";
import { hasScope } from "@/core/actor.ts";
import type { ChannelKind, PresenceVisibility } from "@/core/event/channel.ts";
import { Fault } from "@/core/fault.ts";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { type Context, defineOperation, Outcome } from "@/core/operation.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { PrincipalRef } from "@/modules/identity/mod.ts";
import type { RoomDeletion } from "./room_deletion.ts";
import { assertCanReceiveEvents, hiddenUpTo, type RoomAccess } from "./room_access.ts";
import type { RoomGroups } from "./group_members.ts";
import { GroupAdd, GroupAdded } from "./group_schema.ts";
import type { RoomMembers } from "./members.ts";
import {
  Bans,
  Member,
  MemberList,
  MemberPut,
  MemberRemove,
  PRESENCE_MAX,
  RECEIPT_NOTICES,
  Room,
  ROOM_EVENTS,
  RoomCreate,
  RoomEvents,
  RoomId,
  RoomList,
  RoomReadInclude,
  RoomSettings,
  RoomSettingsUpdate,
  RoomUpdate,
} from "./schema.ts";
import type { RoomService } from "./service.ts";
import type { RoomSettingsService } from "./room_settings.ts";

const PATH = "/v1/rooms";
const ROOM = exampleId("room");
const byId = z.strictObject({ id: RoomId });

type Deps = {
  rooms: RoomService;
  deletion: RoomDeletion;
  members: RoomMembers;
  groups: RoomGroups;
  settings: RoomSettingsService;
  roomAccess: RoomAccess;
  visibility: PresenceVisibility;
};

/** What clients see of rooms. */
export function roomApi({ rooms, deletion, members, groups, settings, roomAccess, visibility }: Deps): ModuleApi {
  return {
    tags: { rooms: "Rooms, their members and bans, and the event history of a room." },
    operations: [
      ...roomOperations(rooms, deletion),
      ...memberOperations(members, groups),
      ...settingOperations(settings),
    ],
    channels: [roomChannel(roomAccess, visibility)],
    events: ROOM_EVENTS,
  };
}

function roomOperations(rooms: RoomService, deletion: RoomDeletion) {
  return [
    defineOperation({
      name: "room.create",
      summary: "Create a room",
      description: "If a direct room of the same principals exists, returns it with 200.",
      access: { scope: "room.write", tenant: "member" },
      http: { method: "POST", path: PATH, status: 201, otherStatuses: [200], hasLocation: true },
      input: RoomCreate,
      output: Room,
      faults: ["slug_taken", "limit_reached"],
      example: { name: "Operations", visibility: "public" },
      rate: { human: { perSecond: 0.5, burst: 30 } },
      async run(context, input) {
        const { room, isNew } = await rooms.create(context, input);
        return new Outcome(room, { status: isNew ? 201 : 200, location: `${PATH}/${room.id}` });
      },
    }),
    defineOperation({
      name: "room.list",
      summary: "List rooms, most recent message first",
      access: { scope: "room.read" },
      http: { method: "GET", path: PATH, status: 200 },
      input: RoomList,
      output: pageSchema(Room),
      faults: ["invalid_cursor"],
      ownData: { inputs: () => [{ member: "me" }] },
      run: (context, input) => rooms.list(context, input),
    }),
    defineOperation({
      name: "room.read",
      summary: "Get a room",
      access: { scope: "room.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: z.strictObject({
        id: RoomId,
        include: z.array(RoomReadInclude).max(10).default([]).describe(
          "Related data to include; pins and the newest message require the scope `message.read`",
        ),
      }),
      output: Room,
      faults: ["not_found"],
      example: { id: ROOM },
      run: (context, { id, include }) => rooms.read(context, id, include),
    }),
    defineOperation({
      name: "room.update",
      summary: "Update a room, archive it or activate it again",
      description:
        "Moderators can change name, topic, description and metadata; owners everything. In a direct room, every " +
        "member can change these and the `agentPolicy`; archiving it and settings such as `retentionDays` are not " +
        "available.",
      access: { scope: "room.write", room: "moderator", direct: "member", archived: true },
      audited: true,
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: RoomUpdate,
      output: Room,
      faults: ["not_found", "slug_taken", "room_archived", "version_mismatch"],
      example: { id: ROOM, topic: "On call this week: Bob" },
      run: (context, input) => rooms.update(context, input),
    }),
    defineOperation({
      name: "room.delete",
      summary: "Delete a room; restorable for 30 days",
      description:
        "A direct room cannot be deleted; members can leave it. A room without enabled owners and without another " +
        "person to become owner can be purged by an admin of the tenant who is not a member.",
      access: { scope: "room.write", room: "owner", archived: true },
      audited: true,
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: z.strictObject({
        id: RoomId,
        purge: z.boolean().default(false).describe(
          "Delete permanently, without the option to restore; also for a deleted room. Requires the tenant role " +
            "admin in addition",
        ),
      }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: ROOM },
      run: (context, { id, purge }) => deletion.delete(context, id, purge),
    }),
    defineOperation({
      name: "room.restore",
      summary: "Restore a room deleted within the last 30 days",
      description: "Restores its state, such as being archived, and its slug if that is still available.",
      access: { scope: "room.write", room: "owner", archived: true },
      audited: true,
      http: { method: "POST", path: `${PATH}/:id/restore`, status: 200 },
      input: byId,
      output: Room,
      faults: ["not_found", "conflict", "gone"],
      example: { id: ROOM },
      async run(context, { id }) {
        await deletion.restore(context, id);
        return await rooms.read(context, id, []);
      },
    }),
    defineOperation({
      name: "room.events",
      summary: "List events of a room after a position",
      description:
        "Has the same events, order and positions as a subscription to `room:<id>`. Events about messages hidden " +
        "from the caller are returned as `message.hidden`, without content; so are events whose scope the token " +
        "lacks. Also requires the scope `message.read`.",
      access: { scope: "room.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id/events`, status: 200 },
      input: z.strictObject({
        id: RoomId,
        after: z.int().min(0).describe("Last position already seen; 0 for all events"),
        epoch: z.string().max(64).optional(),
        limit: z.int().min(1).max(300).default(50).describe(
          "Maximum number of events; long ones make the response shorter, so `complete` says whether there are more",
        ),
      }),
      output: RoomEvents,
      faults: ["not_found", "stream_reset", "gone"],
      example: { id: ROOM, after: 0 },
      run(context, input) {
        assertCanReceiveEvents(context.actor);
        return rooms.events(context, input);
      },
    }),
  ];
}

function memberOperations(members: RoomMembers, groups: RoomGroups) {
  return [
    defineOperation({
      name: "member.list",
      summary: "List the members of a room",
      access: { scope: "room.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id/members`, status: 200 },
      input: MemberList,
      output: pageSchema(Member),
      faults: ["not_found", "invalid_cursor"],
      example: { id: ROOM },
      run: (context, input) => members.list(context, input),
    }),
    defineOperation({
      name: "member.put",
      summary: "Add a member, join a public room, or change a role",
      description:
        "Owners can grant any role, moderators only roles below their own. A direct room has a fixed list of " +
        "members, who all have the same role.",
      access: { scope: "room.write", archived: true },
      audited: true,
      http: { method: "PUT", path: `${PATH}/:id/members/:principalId`, status: 200, otherStatuses: [201] },
      input: MemberPut,
      output: Member,
      faults: ["not_found", "agent_muted", "banned", "room_archived", "last_owner", "limit_reached", "conflict"],
      example: { id: ROOM, principalId: "me" },
      rate: { human: { perSecond: 1, burst: 20 } },
      async run(context, input) {
        const { member, isNew } = await members.put(context, input);
        return new Outcome(member, { status: isNew ? 201 : 200 });
      },
    }),
    defineOperation({
      name: "member.add_group",
      summary: "Add the members of a group to a room",
      description:
        "Adds those who are in the group now, up to the limit of the room; later changes of the group change no room. Those who " +
        "are members keep their role, and those who are banned stay out.",
      access: { scope: "room.write", room: "moderator" },
      audited: true,
      http: { method: "POST", path: `${PATH}/:id/members`, status: 200 },
      input: GroupAdd,
      output: GroupAdded,
      faults: ["not_found", "room_archived", "limit_reached", "conflict"],
      example: { id: ROOM, groupId: exampleId("grp") },
      rate: { human: { perSecond: 0.1, burst: 10 } },
      run: (context, input) => groups.add(context, input),
    }),
    defineOperation({
      name: "member.remove",
      summary: "Remove or ban a member, or leave a room",
      description:
        "Callers can remove members with a lower role than their own; owners can remove all. Members of a direct " +
        "room cannot be removed or banned. The agents owned by a removed member are removed as well: an agent has access only to rooms of " +
        "its owner.",
      access: { scope: "room.write", archived: true },
      audited: true,
      http: { method: "DELETE", path: `${PATH}/:id/members/:principalId`, status: 204 },
      input: MemberRemove,
      output: z.void(),
      faults: ["not_found", "agent_muted", "last_owner"],
      example: { id: ROOM, principalId: "me" },
      run: (context, input) => members.remove(context, input),
    }),
    defineOperation({
      name: "ban.list",
      summary: "List the bans of a room",
      access: { scope: "room.read", room: "moderator" },
      http: { method: "GET", path: `${PATH}/:id/bans`, status: 200 },
      input: z.strictObject({ ...pageInput, id: RoomId }),
      output: Bans,
      faults: ["not_found", "invalid_cursor"],
      example: { id: ROOM },
      run: (context, input) => members.bans(context, input),
    }),
    defineOperation({
      name: "ban.remove",
      summary: "Lift a ban",
      access: { scope: "room.write", room: "moderator" },
      audited: true,
      http: { method: "DELETE", path: `${PATH}/:id/bans/:principalId`, status: 204 },
      input: z.strictObject({ id: RoomId, principalId: PrincipalRef }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: ROOM, principalId: "bob" },
      run: (context, { id, principalId }) => members.unban(context, id, principalId),
    }),
  ];
}

function settingOperations(settings: RoomSettingsService) {
  return [
    defineOperation({
      name: "room_settings.update",
      summary: "Update the caller's settings of a room: notifications, muting, favorites",
      description:
        "Returned as `mySettings` of rooms. Settings belong to the caller, end with the membership, and are not " +
        "exported. Invitations, tasks, reminders and calls notify regardless of them.",
      access: { scope: "room.write", room: "observer", archived: true, muted: true, ownOnly: true },
      http: { method: "PATCH", path: `${PATH}/:id/settings`, status: 200 },
      input: RoomSettingsUpdate,
      output: RoomSettings,
      faults: ["not_found"],
      example: { id: ROOM, level: "mentions", favoriteOrder: 1 },
      run: (context, input) => settings.update(context, input),
    }),
  ];
}

function roomChannel(roomAccess: RoomAccess, presenceVisibility: PresenceVisibility): ChannelKind {
  return {
    prefix: "room",
    summary: "All events of a room; requires the scopes `room.read` and `message.read`",
    isDurable: true,
    presenceMax: PRESENCE_MAX,
    presenceVisibility,
    async authorize(actor, id, intent) {
      const grant = await roomAccess.require(subscriptionContext(actor, intent), id, {
        least: intent === "publish" ? "member" : "observer",
      });
      return { hiddenUpTo: hiddenUpTo(grant) };
    },
    ephemeral: {
      typing: {
        summary: "A member is typing; clients show it for a few seconds",
        data: z.strictObject({ typing: z.boolean(), threadId: z.string().max(64).optional() }),
      },
    },
    notices: RECEIPT_NOTICES,
  };
}

/** The context of a subscription or publication; throws unless the token has the scopes for it. */
function subscriptionContext(actor: Context["actor"], intent: "subscribe" | "publish"): Context {
  if (intent === "publish" && !hasScope(actor, "room.write")) {
    throw new Fault("scope_missing", "Requires the scope room.write");
  }
  assertCanReceiveEvents(actor);
  return {
    actor,
    requestId: "",
    access: { scope: "room.read", room: "observer" },
    operation: intent,
    isReadOnly: intent === "subscribe",
  };
}
