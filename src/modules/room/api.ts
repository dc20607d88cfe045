// Operations, channel and jobs of rooms.
import { z } from "@zod/zod";
import { hasScope } from "@/core/actor.ts";
import type { ChannelKind } from "@/core/channel.ts";
import { Fault } from "@/core/fault.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import { type Context, defineOperation, Outcome } from "@/core/operation.ts";
import { pageInput, pageOf } from "@/core/page.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import type { RoomBin } from "./bin.ts";
import { checkHears, hiddenUpTo, type RoomGate } from "./gate.ts";
import type { RoomMembers } from "./members.ts";
import { PROFILE_JOB, type RoomProfiles } from "./profile/service.ts";
import {
  Bans,
  Member,
  MemberList,
  MemberPut,
  MemberRemove,
  PRESENCE_MAX,
  Room,
  ROOM_EVENTS,
  RoomCreate,
  RoomEvents,
  RoomId,
  RoomList,
  RoomUpdate,
} from "./schema.ts";
import type { RoomService } from "./service.ts";
import { type RoomSuccession, SUCCESSION_JOB } from "./succession/service.ts";

const PATH = "/v1/rooms";
const ROOM = "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const byId = z.strictObject({ id: RoomId });

type Deps = {
  rooms: RoomService;
  bin: RoomBin;
  members: RoomMembers;
  succession: RoomSuccession;
  profiles: RoomProfiles;
  gate: RoomGate;
};

/** The room module. */
export function roomModule({ rooms, bin, members, succession, profiles, gate }: Deps): Module {
  return {
    name: "room",
    operations: [...roomOperations(rooms, bin), ...memberOperations(members)],
    channels: [roomChannel(gate)],
    events: ROOM_EVENTS,
    jobs: [
      defineJob({
        kind: "room.purge",
        payload: z.strictObject({ roomId: RoomId }),
        isLong: true,
        run: ({ tenantId, payload }) => bin.purge(tenantId, payload.roomId),
      }),
      defineJob({
        kind: SUCCESSION_JOB,
        payload: z.strictObject({ principalId: PrincipalId }),
        run: ({ tenantId, payload }) => succession.passOn(tenantId, payload.principalId),
      }),
      defineJob({
        kind: PROFILE_JOB,
        payload: z.strictObject({ principalId: PrincipalId }),
        isLong: true,
        run: ({ tenantId, payload }) => profiles.tell(tenantId, payload.principalId),
      }),
    ],
  };
}

function roomOperations(rooms: RoomService, bin: RoomBin) {
  return [
    defineOperation({
      name: "room.create",
      summary: "Create a room",
      description: "A direct room that exists for the same people is answered with 200 instead.",
      access: { scope: "room.write", tenant: "member" },
      http: { method: "POST", path: PATH, status: 201, also: [200] },
      input: RoomCreate,
      output: Room,
      faults: ["slug_taken", "limit_reached"],
      example: { name: "Operations", visibility: "public" },
      rate: { human: { perSecond: 0.1, burst: 10 } },
      async run(context, input) {
        const { room, isNew } = await rooms.create(context, input);
        return new Outcome(room, { status: isNew ? 201 : 200, location: `${PATH}/${room.id}` });
      },
    }),
    defineOperation({
      name: "room.list",
      summary: "List rooms, those with the newest messages first",
      access: { scope: "room.read" },
      http: { method: "GET", path: PATH, status: 200 },
      input: RoomList,
      output: pageOf(Room),
      faults: ["invalid_cursor"],
      run: (context, input) => rooms.list(context, input),
    }),
    defineOperation({
      name: "room.read",
      summary: "Read a room's state",
      access: { scope: "room.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: z.strictObject({ id: RoomId, include: z.array(z.enum(["members"])).max(3).default([]) }),
      output: Room,
      faults: ["not_found"],
      example: { id: ROOM },
      run: (context, { id, include }) => rooms.read(context, id, include),
    }),
    defineOperation({
      name: "room.update",
      summary: "Change a room; archive it or make it active again",
      description: "Moderators change name, topic, description and metadata; owners everything.",
      access: { scope: "room.write", room: "moderator", archived: true },
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: RoomUpdate,
      output: Room,
      faults: ["not_found", "slug_taken", "room_archived", "version_mismatch"],
      example: { id: ROOM, topic: "On call this week: Bob" },
      run: (context, input) => rooms.update(context, input),
    }),
    defineOperation({
      name: "room.delete",
      summary: "Delete a room; it can be restored for 30 days",
      description:
        "A room that is left to nobody, no enabled owner and no other person it could pass to, is purged by an " +
        "admin of the tenant who is not in it.",
      access: { scope: "room.write", room: "owner", archived: true },
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: z.strictObject({
        id: RoomId,
        purge: z.boolean().default(false).describe(
          "Remove it for good now, also when it is deleted; needs the tenant role admin as well",
        ),
      }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: ROOM },
      run: (context, { id, purge }) => bin.delete(context, id, purge),
    }),
    defineOperation({
      name: "room.restore",
      summary: "Bring a deleted room back within 30 days",
      description: "As it was: archived if it was, with its slug unless another room has it by now.",
      access: { scope: "room.write", room: "owner", archived: true },
      http: { method: "POST", path: `${PATH}/:id/restore`, status: 200 },
      input: byId,
      output: Room,
      faults: ["not_found", "conflict", "gone"],
      example: { id: ROOM },
      async run(context, { id }) {
        await bin.restore(context, id);
        return await rooms.read(context, id, []);
      },
    }),
    defineOperation({
      name: "room.events",
      summary: "Read the room's events after a position",
      description:
        "The same events, in the same order and with the same positions, as a subscription to `room:<id>`. " +
        "What became of a message that is hidden from the caller comes as `message.hidden`, without anything of it. " +
        "Needs the scope `message.read` as well.",
      access: { scope: "room.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id/events`, status: 200 },
      input: z.strictObject({
        id: RoomId,
        after: z.int().min(0).describe("Position already seen; 0 = from the beginning"),
        epoch: z.string().max(64).optional(),
        limit: z.int().min(1).max(300).default(50),
      }),
      output: RoomEvents,
      faults: ["not_found", "epoch_changed", "gone"],
      example: { id: ROOM, after: 0 },
      run(context, input) {
        checkHears(context.actor);
        return rooms.events(context, input);
      },
    }),
  ];
}

function memberOperations(members: RoomMembers) {
  return [
    defineOperation({
      name: "member.list",
      summary: "List the members of a room",
      access: { scope: "room.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id/members`, status: 200 },
      input: MemberList,
      output: pageOf(Member),
      faults: ["not_found", "invalid_cursor"],
      example: { id: ROOM },
      run: (context, input) => members.list(context, input),
    }),
    defineOperation({
      name: "member.put",
      summary: "Join a public room, add somebody, or change a role",
      access: { scope: "room.write", archived: true },
      http: { method: "PUT", path: `${PATH}/:id/members/:principalId`, status: 200, also: [201] },
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
      name: "member.remove",
      summary: "Leave a room, or remove or ban somebody",
      description: "The agents that somebody owns leave with them: an agent sees of a room only what its owner sees.",
      access: { scope: "room.write", archived: true },
      http: { method: "DELETE", path: `${PATH}/:id/members/:principalId`, status: 204 },
      input: MemberRemove,
      output: z.void(),
      faults: ["not_found", "agent_muted", "last_owner"],
      example: { id: ROOM, principalId: "me" },
      run: (context, input) => members.remove(context, input),
    }),
    defineOperation({
      name: "ban.list",
      summary: "List who is banned from a room",
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
      http: { method: "DELETE", path: `${PATH}/:id/bans/:principalId`, status: 204 },
      input: z.strictObject({ id: RoomId, principalId: PrincipalRef }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: ROOM, principalId: "bob" },
      run: (context, { id, principalId }) => members.unban(context, id, principalId),
    }),
  ];
}

function roomChannel(gate: RoomGate): ChannelKind {
  return {
    prefix: "room",
    summary: "Everything that happens in a room; takes the scopes `room.read` and `message.read`",
    isDurable: true,
    presenceMax: PRESENCE_MAX,
    async authorize(actor, id, intent) {
      const entry = await gate.enter(subscribing(actor, intent), id, intent === "publish" ? "member" : "observer");
      return { hiddenUpTo: hiddenUpTo(entry) };
    },
    ephemeral: {
      typing: {
        summary: "Somebody is writing; clients show it for a few seconds",
        data: z.strictObject({ isTyping: z.boolean(), threadId: z.string().max(64).optional() }),
      },
    },
  };
}

/** A subscription as the gate wants to be asked: with the scopes that hearing the room, or saying something there, takes. */
function subscribing(actor: Context["actor"], intent: "subscribe" | "publish"): Context {
  if (intent === "publish" && !hasScope(actor, "room.write")) throw new Fault("scope_missing", "Needs room.write");
  checkHears(actor);
  return {
    actor,
    requestId: "",
    access: { scope: "room.read", room: "observer" },
    operation: intent,
    isRead: intent === "subscribe",
  };
}
