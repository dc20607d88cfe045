// What a caller may do to other principals and their tokens, and how many agents it may own.
import { type Actor, hasScope, isAdmin, outranks, TENANT_ROLES } from "@/core/actor.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import type { Transaction } from "@/ports/store.ts";
import type { PrincipalUpdate } from "./schema.ts";
import { IdentityStore, type IdentityTables, type PrincipalRow } from "./store.ts";

type Tx = Transaction<IdentityTables>;

/** Tokens of a principal, of every kind. */
export const TOKENS_MAX = 50;

/** A stream without events: its lock prevents two owners from being removed concurrently. */
const OWNERS_LOCK = "tenant:owners";

/** Whether the caller is a principal, its owner, or an admin above it. */
export function canManage(actor: Actor, target: Pick<PrincipalRow, "id" | "owner_id" | "role">): boolean {
  if (target.id === actor.principalId || target.owner_id === actor.principalId) return true;
  return isAdmin(actor) && outranks(TENANT_ROLES, actor.role, target.role);
}

/** Throws unless the caller is a principal, its owner, or an admin above it. */
export function assertCanManage(actor: Actor, target: PrincipalRow): void {
  if (canManage(actor, target)) return;
  throw new Fault("forbidden", "Tokens of others require the tenant role admin and a role above theirs, or owner");
}

/** Callers change only lower roles and grant only lower roles; owners may change and grant any. One owner must remain. */
export async function assertCanChange(
  tx: Tx,
  actor: Actor,
  target: PrincipalRow,
  { role, disabled }: Omit<PrincipalUpdate, "id">,
): Promise<void> {
  if (target.id !== actor.principalId && !outranks(TENANT_ROLES, actor.role, target.role)) {
    throw new Fault("forbidden", `The role ${actor.role} cannot change a principal with the role ${target.role}`);
  }
  if (role !== undefined && role !== target.role && !outranks(TENANT_ROLES, actor.role, role)) {
    throw new Fault("forbidden", `The role ${actor.role} cannot grant the role ${role}`);
  }
  const losesOwner = target.role === "owner" && (disabled === true || (role !== undefined && role !== "owner"));
  if (!losesOwner) return;
  await tx.lock(target.tenant_id, OWNERS_LOCK);
  if (await new IdentityStore(tx.db).countOtherOwners(target.tenant_id, target.id) === 0) {
    throw new Fault("forbidden", "The tenant needs at least one owner");
  }
}

/** Whether the caller's token includes a scope that it grants, wildcards included. */
export function coversScope(actor: Actor, scope: string): boolean {
  if (actor.scopes === undefined || actor.scopes.has("*")) return true;
  return scope === "*" ? false : hasScope(actor, scope);
}

/** `me` or an id, as an id. */
export function resolvePrincipalId(actor: Actor, ref: string): string {
  return ref === "me" ? actor.principalId : ref;
}

/** For a principal that does not exist, or that the caller cannot see. */
export function principalNotFound(id: string): Fault {
  return new Fault("not_found", `No principal ${id}`);
}

/** Throws unless the owner exists, is not an agent, and may have one more enabled agent. Locks the owner until the commit. */
export async function assertMayOwnAgent(tx: Tx, tenantId: string, ownerId: string, agentsMax: number): Promise<void> {
  await tx.lock(tenantId, principalStream(ownerId));
  const identities = new IdentityStore(tx.db);
  const owner = await identities.principal(tenantId, ownerId);
  if (owner === undefined) throw principalNotFound(ownerId);
  // When an owner loses rights, so do its agents. An agent in between would break that chain.
  if (owner.kind === "agent") throw invalidField("/ownerId", "an agent cannot own agents");
  if (await identities.countAgents(tenantId, ownerId) < agentsMax) return;
  throw new Fault("limit_reached", `A principal may own at most ${agentsMax} enabled agents`);
}
