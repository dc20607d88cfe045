// Permission: may this principal do that — answered from the same declarations that dispatch enforces.
export { permissionModule } from "./api.ts";
export { PermissionService } from "./service.ts";
