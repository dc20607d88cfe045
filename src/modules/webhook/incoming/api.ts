// Operations on incoming hooks, and the endpoint that receives.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import type { HookReceiver } from "./receiver.ts";
import { hookRoute } from "./route.ts";
import { Hook, HOOK_EVENTS, HookCreate, HookList, HookRef, HookUpdate, NewHook } from "./schema.ts";
import type { HookService } from "./service.ts";

const PATH = "/v1/collaboration/incoming";
const HOOK = exampleId("hook");
const ROOM = exampleId("room");
const MANAGE = { scope: "webhook.manage", room: "moderator" } as const;
const READ = { scope: "webhook.read", room: "moderator" } as const;

export function hookApi(hooks: HookService, receiver: HookReceiver): ModuleApi {
  return {
    tags: {
      incoming: "Hooks: addresses to which other programs post messages, each in one room.",
      hooks: "Where other programs post.",
    },
    events: HOOK_EVENTS,
    routes: [hookRoute(receiver)],
    operations: [
      defineOperation({
        name: "hook.create",
        summary: "Create a hook in a room",
        description:
          "Adds a principal to the room, which posts what the hook receives while the caller may post there. " +
          "Agents that it asks have the scopes of the caller's token. The address and the signing secret are returned " +
          "only here.",
        access: MANAGE,
        http: { method: "POST", path: PATH, status: 201, hasLocation: true },
        isSecret: true,
        input: HookCreate,
        output: NewHook,
        faults: ["not_found", "room_archived", "limit_reached", "conflict"],
        example: { roomId: ROOM, displayName: "GitHub" },
        async run(context, input) {
          const hook = await hooks.create(context, input);
          return new Outcome(hook, { location: `${PATH}/${hook.id}` });
        },
      }),
      defineOperation({
        name: "hook.list",
        summary: "List the hooks of a room",
        access: READ,
        http: { method: "GET", path: PATH, status: 200 },
        input: HookList,
        output: pageSchema(Hook),
        faults: ["not_found", "invalid_cursor"],
        example: { roomId: ROOM },
        run: (context, input) => hooks.list(context, input),
      }),
      defineOperation({
        name: "hook.read",
        summary: "Get a hook",
        access: READ,
        http: { method: "GET", path: `${PATH}/:id`, status: 200 },
        input: HookRef,
        output: Hook,
        faults: ["not_found"],
        example: { id: HOOK },
        run: (context, { id }) => hooks.read(context, id),
      }),
      defineOperation({
        name: "hook.update",
        summary: "Change, enable or disable a hook",
        access: MANAGE,
        http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
        input: HookUpdate,
        output: Hook,
        faults: ["not_found", "room_archived", "version_mismatch"],
        example: { id: HOOK, displayName: "CI" },
        run: (context, input) => hooks.update(context, input),
      }),
      defineOperation({
        name: "hook.rotate",
        summary: "Replace the address of a hook",
        description:
          "The old address stops working at once; a signed hook also gets a new secret. The caller becomes " +
          "responsible for the hook, with the scopes of its token. Both are returned only here.",
        access: MANAGE,
        http: { method: "POST", path: `${PATH}/:id/rotate`, status: 200 },
        isSecret: true,
        input: HookRef,
        output: NewHook,
        faults: ["not_found", "room_archived"],
        example: { id: HOOK },
        run: (context, { id }) => hooks.rotate(context, id),
      }),
      defineOperation({
        name: "hook.delete",
        summary: "Delete a hook; its messages remain",
        access: MANAGE,
        http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
        input: HookRef,
        output: z.void(),
        faults: ["not_found", "room_archived"],
        example: { id: HOOK },
        run: (context, { id }) => hooks.delete(context, id),
      }),
    ],
  };
}
