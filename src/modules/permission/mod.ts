// Permission: checks by the same declarations that dispatch enforces.
import { type Module, operationsOf } from "@/core/module.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { permissionApi } from "./api.ts";
import { PermissionService } from "./service.ts";

type Deps = { roomAccess: RoomAccess; identity: IdentityService };

export function permissionModule({ modules }: Platform, deps: Deps): Module {
  let operations: ReturnType<typeof operationsOf> | undefined;
  const permissions = new PermissionService({ ...deps, operations: () => operations ??= operationsOf(modules) });
  return { name: "permission", ...permissionApi(permissions) };
}
