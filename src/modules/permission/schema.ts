// Questions about rights, and their answers.
import { z } from "@zod/zod";

export const PermissionCheck = z.strictObject({
  action: z.string().max(64).describe("Name of an operation, such as message.send"),
  resource: z.strictObject({
    type: z.enum(["tenant", "room"]),
    id: z.string().max(128),
  }).optional().describe("What it is about; default the tenant"),
  principalId: z.string().max(128).default("me").describe(
    "Whose right; others than oneself need the tenant role admin",
  ),
}).meta({ id: "PermissionCheck" });
export type PermissionCheck = z.output<typeof PermissionCheck>;

export const PermissionResult = z.object({
  allowed: z.boolean(),
  reason: z.enum(["allowed", "unknown_action", "scope_missing", "tenant_role", "room_role", "agent_muted", "not_found"])
    .describe("What decided"),
  needs: z.object({
    scope: z.string().nullable(),
    tenantRole: z.string(),
    roomRole: z.string().nullable(),
  }).nullable().describe("What the action asks for; null when the action is unknown"),
}).meta({ id: "PermissionResult" });
export type PermissionResult = z.output<typeof PermissionResult>;
