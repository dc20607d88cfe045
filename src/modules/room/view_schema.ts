// What can be included with rooms: previews of messages, and the members of direct rooms.
import { z } from "@zod/zod";
import { PrincipalKind } from "@/core/actor.ts";
import { PrincipalId, Status } from "@/modules/identity/mod.ts";

export const Person = z.object({
  id: PrincipalId.describe("Id of the principal, as in `senderId`"),
  kind: PrincipalKind.describe("Whether it is a person, an agent or a service"),
  handle: z.string().nullable().describe("Handle for mentions as `@handle`. null: `@id`"),
  displayName: z.string().describe("Current display name"),
  avatarFileId: z.string().nullable().describe("Current profile picture; the caller may read its content"),
  status: Status.nullable().describe("Current status; null if none"),
  state: z.enum(["active", "left", "disabled"]).describe(
    "left: no longer a member of any of the rooms in this response; disabled: disabled in the tenant",
  ),
}).meta({ id: "Person" });
export type Person = z.output<typeof Person>;

/** The field of responses that `include=senders` adds. */
export const Senders = z.array(Person).optional().describe(
  "With include=senders: the senders of these messages, without duplicates. For guests of the tenant, " +
    "principals they share no room with have no handle, picture and status",
);

/** How many UTF-16 units of a message a preview has at most. */
export const PREVIEW_MAX = 200;

export const MessagePreview = z.object({
  id: z.string().describe("Id of the message"),
  seq: z.int().describe("Position of the message"),
  senderId: PrincipalId.describe("Principal that sent it"),
  senderKind: PrincipalKind,
  senderName: z.string().describe("Current name of the sender"),
  type: z.string().describe("Type of the message"),
  preview: z.string().nullable().describe(
    `Start of its text, at most ${PREVIEW_MAX} UTF-16 code units; null without a text, or once deleted`,
  ),
  hasFiles: z.boolean().describe("Whether it has attached files"),
  threadId: z.string().nullable().describe("Root message of the thread this is a reply in"),
  createdAt: z.iso.datetime(),
  deletedAt: z.iso.datetime().nullable().describe("When it was deleted; null if it is not deleted"),
}).meta({ id: "MessagePreview" });
export type MessagePreview = z.output<typeof MessagePreview>;

export const Direct = z.object({
  name: z.string().describe("Name shown to the caller: the names of the other members"),
  principals: z.array(Person).describe("The other members"),
}).meta({ id: "Direct" });
export type Direct = z.output<typeof Direct>;

/** What lists of rooms can include. */
export const RoomInclude = z.enum(["lastMessage"]);
export type RoomInclude = z.output<typeof RoomInclude>;
