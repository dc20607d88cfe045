// Commands of rooms that an endpoint handles, as clients see them.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput } from "@/core/page.ts";
import { nameSchema } from "@/core/text/name.ts";
import { BaseVersion, patchSchema } from "@/core/patch.ts";
import { CommandDescription, CommandName } from "@/modules/command/mod.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const SLASH_COMMANDS_PER_ROOM = 20;
const SlashCommandId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

/** Where endpoints post responses that follow. */
export const LATE_RESPONSE_PATH = "/v1/collaboration/slash-commands/responses";

const fields = z.strictObject({
  name: CommandName.describe("Name of the command, without the slash; unique among those of the room"),
  description: CommandDescription,
  url: z.url().max(2000).describe(
    "Address that is called when the command is run; https, or a private host that is allowed",
  ),
  displayName: nameSchema(100).describe("Name under which it posts in the room"),
});
export const SlashCommandCreate = z.strictObject({ roomId: RoomId, ...fields.shape });
export type SlashCommandCreate = z.output<typeof SlashCommandCreate>;

export const SlashCommandRef = z.strictObject({ id: SlashCommandId });
export const SlashCommandUpdate = patchSchema(fields).extend({ id: SlashCommandId, version: BaseVersion });
export type SlashCommandUpdate = z.output<typeof SlashCommandUpdate>;
export const SlashCommandList = z.strictObject({ roomId: RoomId, ...pageInput });
export type SlashCommandList = z.output<typeof SlashCommandList>;

export const SlashCommand = z.object({
  id: SlashCommandId,
  roomId: RoomId,
  name: CommandName.describe("Name of the command, without the slash"),
  description: z.string().describe("What it does"),
  url: z.string().describe("Address that is called"),
  displayName: z.string().describe("Name under which it posts"),
  principalId: PrincipalId.describe("Principal that sends its messages"),
  responsibleId: PrincipalId.describe(
    "Principal that created it, or last set its address or secret; the command works while it may post in the room",
  ),
  version: z.int().describe("Increases with every change"),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "SlashCommand" });
export type SlashCommand = z.output<typeof SlashCommand>;

export const NewSlashCommand = SlashCommand.extend({
  secret: z.string().describe("Signs the calls of the address (Standard Webhooks); shown only here"),
}).meta({ id: "CreatedSlashCommand" });
export type NewSlashCommand = z.output<typeof NewSlashCommand>;

const ref = z.object({ roomId: RoomId, slashCommandId: SlashCommandId, name: CommandName.describe("Its name") });
export const SLASH_COMMAND_EVENTS: readonly EventType[] = eventTypes("command.read", [
  { type: "slash_command.created", summary: "A command was added to the room", data: ref },
  { type: "slash_command.updated", summary: "A command of the room was changed", data: ref },
  { type: "slash_command.deleted", summary: "A command of the room was deleted", data: ref },
]);
