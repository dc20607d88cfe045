// Permission: checks by the same declarations that dispatch enforces.
import { type Module, operationsOf } from "@/core/module.ts";
import type { Platform } from "@/ports/platform.ts";
import { permissionApi } from "./api.ts";
import { PermissionService, type RoomRoleLookup, type Subject } from "./service.ts";

export function permissionModule(
  { modules }: Platform,
  deps: {
    lookUpRoomRole: RoomRoleLookup;
    /** A principal of the tenant as a subject of rights; throws `not_found`. */
    subject: (tenantId: string, principalId: string) => Promise<Subject>;
  },
): Module {
  let operations: ReturnType<typeof operationsOf> | undefined;
  const permissions = new PermissionService({ ...deps, operations: () => operations ??= operationsOf(modules) });
  return { name: "permission", ...permissionApi(permissions) };
}
