// Checks permissions by the operations' own access declarations: tenant role, room role, token scope, state of the room.
import { type Actor, hasScope, isAdmin, isAtLeast, ROOM_ROLES, TENANT_ROLES } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { isReadOnly, type Operation, requiredRoomRole } from "@/core/operation.ts";
import { type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import { isMuted, type RoomAccess } from "@/modules/room/mod.ts";
import type { PermissionCheck, PermissionResult } from "./schema.ts";

type Deps = { operations: () => ReadonlyMap<string, Operation>; roomAccess: RoomAccess; identity: IdentityService };

export class PermissionService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async check(actor: Actor, check: PermissionCheck): Promise<PermissionResult> {
    const operation = this.#deps.operations().get(check.action);
    if (operation === undefined) return { allowed: false, reason: "unknown_action", needs: null };
    const { scope, tenant = "guest", room: defaultRole = null } = operation.access;
    const needs = { scope, tenantRole: tenant, roomRole: defaultRole };
    const isSelf = resolvePrincipalId(actor, check.principalId) === actor.principalId;
    if (!isSelf && !isAdmin(actor)) {
      throw new Fault("forbidden", "Checking the permissions of others requires the tenant role admin");
    }
    const subject = isSelf ? actor : await this.#deps.identity.subject(actor.tenantId, check.principalId);
    if (isSelf && !hasScope(actor, scope)) return { allowed: false, reason: "scope_missing", needs };
    if (!isAtLeast(TENANT_ROLES, subject.role, tenant)) return { allowed: false, reason: "tenant_role", needs };
    if (check.resource?.type === "tenant" && check.resource.id !== actor.tenantId) {
      return { allowed: false, reason: "not_found", needs };
    }
    if (check.resource?.type !== "room") {
      return { allowed: defaultRole === null, reason: defaultRole === null ? "allowed" : "room_role", needs };
    }
    const grant = await this.#deps.roomAccess.find(subject, check.resource.id);
    if (grant === undefined) return { allowed: false, reason: "not_found", needs };
    // The role is null for a subject that may browse the room without being a member.
    const { role, room: { kind, state } } = grant;
    const room = requiredRoomRole(kind, operation.access, subject) ?? null;
    const needsInRoom = { ...needs, roomRole: room };
    const isReading = isReadOnly(operation);
    const isAllowed = room === null ||
      (role === null ? room === "observer" && isReading : isAtLeast(ROOM_ROLES, role, room));
    if (isAllowed && room !== null && !isReading) {
      const { muted: isAllowedMuted = false, archived: isAllowedArchived = false } = operation.access;
      if (isMuted(subject, grant.room) && !isAllowedMuted) {
        return { allowed: false, reason: "agent_muted", needs: needsInRoom };
      }
      if (state === "archived" && !isAllowedArchived) {
        return { allowed: false, reason: "room_archived", needs: needsInRoom };
      }
    }
    return { allowed: isAllowed, reason: isAllowed ? "allowed" : "room_role", needs: needsInRoom };
  }
}
