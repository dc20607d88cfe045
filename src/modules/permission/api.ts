// Operations that answer questions about rights.
import { z } from "@zod/zod";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { PermissionCheck, PermissionResult } from "./schema.ts";
import type { PermissionService } from "./service.ts";

/** The permission module. */
export function permissionModule(permissions: PermissionService): Module {
  return {
    name: "permission",
    operations: [
      defineOperation({
        name: "permission.check",
        summary: "Ask whether actions are allowed, up to 50 at once",
        access: { scope: "permission.read" },
        http: { method: "POST", path: "/v1/collaboration/permissions/check", status: 200 },
        input: z.strictObject({ checks: z.array(PermissionCheck).min(1).max(50) }),
        output: z.object({ results: z.array(PermissionResult) }),
        faults: ["not_found"],
        example: { checks: [{ action: "room.create" }] },
        async run({ actor }, { checks }) {
          return { results: await Promise.all(checks.map((check) => permissions.check(actor, check))) };
        },
      }),
    ],
  };
}
