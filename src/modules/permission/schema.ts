// Permission checks and their results.
import { z } from "@zod/zod";

export const PermissionCheck = z.strictObject({
  action: z.string().max(64).describe("Name of an operation, such as message.send"),
  resource: z.strictObject({
    type: z.enum(["tenant", "room"]).describe("Kind of resource"),
    id: z.string().max(128),
  }).optional().describe("Id of the resource. Default: the tenant"),
  principalId: z.string().max(128).default("me").describe(
    "Principal to check; others than the caller require the tenant role admin",
  ),
}).meta({ id: "PermissionCheck" });
export type PermissionCheck = z.output<typeof PermissionCheck>;

export const PermissionResult = z.object({
  allowed: z.boolean().describe("Whether the action is allowed"),
  reason: z.enum([
    "allowed",
    "unknown_action",
    "scope_missing",
    "tenant_role",
    "room_role",
    "agent_muted",
    "room_archived",
    "not_found",
  ]).describe("Rule that decided"),
  needs: z.object({
    scope: z.string().nullable().describe("Scope the token needs; null if any token is sufficient"),
    tenantRole: z.string().describe("Lowest sufficient role in the tenant"),
    roomRole: z.string().nullable().describe("Lowest sufficient role in the room; null if none is needed"),
  }).nullable().describe("What the action requires; null if the action is unknown"),
}).meta({ id: "PermissionResult" });
export type PermissionResult = z.output<typeof PermissionResult>;
