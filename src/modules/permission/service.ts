// Answers "may they?" from the operations' own access declarations: tenant role ∧ room role ∧ token scope.
import { type Actor, hasScope, isAtLeast, ROOM_ROLES, type RoomRole, TENANT_ROLES } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { isRead, type Operation, roomRoleIn } from "@/core/operation.ts";
import type { PermissionCheck, PermissionResult } from "./schema.ts";

type Subject = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId" | "kind">;

/**
 * Looks up how somebody stands in a room; `undefined` = does not see it. `role` is null for one who may look in without
 * being a member, `isMuted` is an agent that may only read.
 */
type StandingInRoom = (
  who: Subject,
  roomId: string,
) => Promise<{ kind: string; role: RoomRole | null; isMuted: boolean } | undefined>;

type Deps = {
  operations: () => ReadonlyMap<string, Operation>;
  standingInRoom: StandingInRoom;
  /** A principal of the tenant as a subject of rights; throws `not_found`. */
  subject: (tenantId: string, principalId: string) => Promise<Subject>;
};

export class PermissionService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async check(actor: Actor, check: PermissionCheck): Promise<PermissionResult> {
    const operation = this.#deps.operations().get(check.action);
    if (operation === undefined) return { allowed: false, reason: "unknown_action", needs: null };
    const { scope, tenant = "guest", room: usual = null } = operation.access;
    const needs = { scope, tenantRole: tenant, roomRole: usual };
    const isSelf = check.principalId === "me" || check.principalId === actor.principalId;
    if (!isSelf && !isAtLeast(TENANT_ROLES, actor.role, "admin")) {
      throw new Fault("forbidden", "The rights of others may be asked with the tenant role admin");
    }
    const subject = isSelf ? actor : await this.#deps.subject(actor.tenantId, check.principalId);
    if (isSelf && !hasScope(actor, scope)) return { allowed: false, reason: "scope_missing", needs };
    if (!isAtLeast(TENANT_ROLES, subject.role, tenant)) return { allowed: false, reason: "tenant_role", needs };
    if (check.resource?.type === "tenant" && check.resource.id !== actor.tenantId) {
      return { allowed: false, reason: "not_found", needs };
    }
    if (check.resource?.type !== "room") {
      return { allowed: usual === null, reason: usual === null ? "allowed" : "room_role", needs };
    }
    const standing = await this.#deps.standingInRoom(subject, check.resource.id);
    if (standing === undefined) return { allowed: false, reason: "not_found", needs };
    const { kind, role, isMuted } = standing;
    const room = roomRoleIn(kind, operation.access) ?? null;
    const here = { ...needs, roomRole: room };
    const isReading = isRead(operation);
    const isAllowed = room === null ||
      (role === null ? room === "observer" && isReading : isAtLeast(ROOM_ROLES, role, room));
    if (isAllowed && isMuted && room !== null && !isReading && operation.access.muted !== true) {
      return { allowed: false, reason: "agent_muted", needs: here };
    }
    return { allowed: isAllowed, reason: isAllowed ? "allowed" : "room_role", needs: here };
  }
}
