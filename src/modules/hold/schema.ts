// Legal holds in the API.
import { z } from "@zod/zod";
import { Json } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { nameSchema } from "@/core/text/name.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const Hold = z.object({
  id: z.string(),
  roomId: z.string().nullable().describe("Room under the hold, with all that is in it"),
  principalId: z.string().nullable().describe(
    "Principal under the hold, with the rooms where it is a member or has written; the hold is on the tenant if this and `roomId` " +
      "are null",
  ),
  reason: z.string().describe("Why it was created"),
  createdBy: z.string(),
  createdAt: z.iso.datetime(),
  releasedBy: z.string().nullable().describe("Administrator that ended the hold; null while it is in force"),
  releasedAt: z.iso.datetime().nullable().describe("When it ended; null while it is in force"),
}).meta({ id: "Hold" });
export type Hold = z.output<typeof Hold>;

export const HoldCreate = z.strictObject({
  roomId: RoomId.optional().describe("The room to hold"),
  principalId: PrincipalId.optional().describe("The principal to hold; without both, the tenant"),
  reason: nameSchema(500).describe("Why, such as the number of the case; administrators see it"),
});
export type HoldCreate = z.output<typeof HoldCreate>;

export const HoldList = z.strictObject({
  ...pageInput,
  released: z.boolean().optional().describe("Only holds that were released, or only those in force"),
});
export type HoldList = z.output<typeof HoldList>;

export const HoldRef = z.strictObject({ id: z.string().min(1).max(64) });

const ResourceId = z.string().min(1).max(64);

export const HeldState = z.object({
  id: z.string(),
  type: z.string().describe("Type of the resource, such as task or event"),
  resourceId: z.string().describe("Id of the resource"),
  version: z.int().describe("Version of the resource that was replaced"),
  state: z.record(z.string(), Json).describe(
    "The resource as it was: a task as in `task.read`, an event as in archives",
  ),
  replacedBy: z.string().nullable().describe("Principal whose change replaced it; null: the gateway"),
  replacedAt: z.iso.datetime().describe("When it was replaced"),
}).meta({ id: "HeldState" });
export type HeldState = z.output<typeof HeldState>;

export const HeldStateList = z.strictObject({
  ...pageInput,
  resourceId: ResourceId.optional().describe("Only states of this task or event"),
});
export type HeldStateList = z.output<typeof HeldStateList>;
