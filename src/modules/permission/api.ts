// The operation that checks permissions.
import { z } from "@zod/zod";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { PermissionCheck, PermissionResult } from "./schema.ts";
import type { PermissionService } from "./service.ts";

export function permissionApi(permissions: PermissionService): ModuleApi {
  return {
    tags: { permissions: "Checks of what a principal is allowed to do." },
    operations: [
      defineOperation({
        name: "permission.check",
        summary: "Check whether actions are allowed, up to 50 at once",
        description:
          "By scope, role and state of the room. An action may require more of its input: to edit a message, for " +
          "example, to be its author.",
        access: { scope: "permission.read" },
        http: { method: "POST", path: "/v1/collaboration/permissions/check", status: 200 },
        input: z.strictObject({ checks: z.array(PermissionCheck).min(1).max(50).describe("Checks to evaluate") }),
        output: z.object({
          results: z.array(PermissionResult).describe("One result per check, in the same order"),
        }).meta({ id: "PermissionResults" }),
        faults: ["not_found"],
        example: { checks: [{ action: "room.create" }] },
        async run({ actor }, { checks }) {
          return { results: await Promise.all(checks.map((check) => permissions.check(actor, check))) };
        },
      }),
    ],
  };
}
