// Operations on commands that endpoints handle.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import {
  NewSlashCommand,
  SLASH_COMMAND_EVENTS,
  SlashCommand,
  SlashCommandCreate,
  SlashCommandList,
  SlashCommandRef,
  SlashCommandUpdate,
} from "./schema.ts";
import type { LateResponses } from "./late_responses.ts";
import { lateResponseRoute } from "./route.ts";
import type { SlashCommandService } from "./service.ts";

const PATH = "/v1/collaboration/slash-commands";
const ROOM = exampleId("room");
const SLASH = exampleId("slash");
const MANAGE = { scope: "webhook.manage", room: "moderator" } as const;

export function slashCommandApi(commands: SlashCommandService, late: LateResponses): ModuleApi {
  return {
    tags: { "slash-commands": "Commands of rooms that an endpoint of yours handles." },
    events: SLASH_COMMAND_EVENTS,
    routes: [lateResponseRoute(late)],
    operations: [
      defineOperation({
        name: "slash_command.create",
        summary: "Create a command of a room that an endpoint handles",
        description: "When a member runs it, the address gets a form as from Slack or Mattermost, signed by Standard " +
          "Webhooks. It responds within 3 s with a text, or with JSON: `response_type` `in_channel` sends to the room, " +
          "all else is for the caller alone. What takes longer responds 202, then posts the same JSON to `response_url`: " +
          "up to 5 times, within 15 minutes. A call that is repeated has the same `webhook-id`. Agents that its " +
          "responses ask have the scopes of the caller's token. The secret is returned only here.",
        access: MANAGE,
        http: { method: "POST", path: PATH, status: 201 },
        isSecret: true,
        input: SlashCommandCreate,
        output: NewSlashCommand,
        faults: ["not_found", "room_archived", "limit_reached", "conflict", "address_not_allowed"],
        example: {
          roomId: ROOM,
          name: "deploy",
          description: "Deploy a version",
          url: "https://ci.example.com/deploy",
          displayName: "CI",
        },
        async run(context, input) {
          return new Outcome(await commands.create(context, input));
        },
      }),
      defineOperation({
        name: "slash_command.list",
        summary: "List the commands of a room that endpoints handle",
        access: { scope: "webhook.read", room: "moderator" },
        http: { method: "GET", path: PATH, status: 200 },
        input: SlashCommandList,
        output: pageSchema(SlashCommand),
        faults: ["not_found", "invalid_cursor"],
        example: { roomId: ROOM },
        run: (context, input) => commands.list(context, input),
      }),
      defineOperation({
        name: "slash_command.update",
        summary: "Change a command of a room",
        description:
          "A caller that changes its address becomes responsible for the command, with the scopes of its token.",
        access: MANAGE,
        http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
        input: SlashCommandUpdate,
        output: SlashCommand,
        faults: ["not_found", "room_archived", "conflict", "version_mismatch", "address_not_allowed"],
        example: { id: SLASH, description: "Deploy a version to production" },
        run: (context, input) => commands.update(context, input),
      }),
      defineOperation({
        name: "slash_command.rotate",
        summary: "Replace the secret of a command",
        description:
          "For 24 hours, calls are signed with both secrets. The caller becomes responsible for the command, which " +
          "loses scopes that the caller's token lacks. The secret is returned only here.",
        access: MANAGE,
        http: { method: "POST", path: `${PATH}/:id/rotate`, status: 200 },
        isSecret: true,
        input: SlashCommandRef,
        output: NewSlashCommand,
        faults: ["not_found", "room_archived"],
        example: { id: SLASH },
        run: (context, { id }) => commands.rotate(context, id),
      }),
      defineOperation({
        name: "slash_command.delete",
        summary: "Delete a command of a room",
        access: MANAGE,
        http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
        input: SlashCommandRef,
        output: z.void(),
        faults: ["not_found", "room_archived"],
        example: { id: SLASH },
        run: (context, { id }) => commands.delete(context, id),
      }),
    ],
  };
}
