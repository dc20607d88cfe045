// The members of a group who become members of a room, in the API.
import { z } from "@zod/zod";
import { RoomRole } from "@/core/actor.ts";
import { GroupId } from "@/modules/group/mod.ts";
import { RoomId } from "./schema.ts";

export const GroupAdd = z.strictObject({
  id: RoomId,
  groupId: GroupId.describe("Group whose members to add"),
  role: RoomRole.default("member").describe("Role of the new members; the others keep theirs"),
});
export type GroupAdd = z.output<typeof GroupAdd>;

export const GroupAdded = z.object({
  addedCount: z.int().describe("Number of new members of the room"),
  skippedCount: z.int().describe("Number of members of the group that are banned from the room"),
  memberCount: z.int().describe("Members of the room"),
}).meta({ id: "GroupAdded" });
export type GroupAdded = z.output<typeof GroupAdded>;
