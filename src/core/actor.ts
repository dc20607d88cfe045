// Who is calling: the principal behind a verified token, and what that token allows.
import { z } from "@zod/zod";

/** Each may do what those before it may; an auditor may also read the audit log. */
export const TENANT_ROLES = ["guest", "member", "auditor", "admin", "owner"] as const;
export const TenantRole = z.enum(TENANT_ROLES).meta({ id: "TenantRole" });
export type TenantRole = z.output<typeof TenantRole>;

export const ROOM_ROLES = ["observer", "member", "moderator", "owner"] as const;
export const RoomRole = z.enum(ROOM_ROLES).meta({ id: "RoomRole" });
export type RoomRole = z.output<typeof RoomRole>;

export const PRINCIPAL_KINDS = ["human", "agent", "service"] as const;
export const PrincipalKind = z.enum(PRINCIPAL_KINDS).meta({ id: "PrincipalKind" });
export type PrincipalKind = z.output<typeof PrincipalKind>;

/** The rooms that a caller may touch at most, when it acts on behalf of others who will read what it says. */
export interface RoomBounds {
  /** The highest role in a room and its history start; `undefined`: not this room. */
  boundIn(roomId: string): { role: RoomRole; joinedSeq: number } | undefined;
  /** All of them with their history starts, for lists across rooms. */
  rooms(): ReadonlyMap<string, number>;
  /** Reports who can read what a write leaves, besides the readers of the rooms that it checked. */
  addReaders(principalIds: Iterable<string>): void;
}

/** The verified caller of one request or connection. */
export type Actor = {
  tenantId: string;
  principalId: string;
  kind: PrincipalKind;
  /** Effective role in the tenant: an agent's is never above its owner's. */
  role: TenantRole;
  displayName: string;
  /** Owner of an agent; its rights bound the agent's, and it is charged for what the agent does. */
  ownerId: string | null;
  /** `undefined` = every scope the role allows. */
  scopes: ReadonlySet<string> | undefined;
  /** `jti` of the JWT or id of the API token, when there is one. */
  tokenId: string | undefined;
  /** Expiry of the token, ms since the epoch. */
  expiresAt: number | undefined;
  /** Bounds of an agent that acts on behalf of others. What is in no room is not accessible to it at all. */
  bounds?: RoomBounds | undefined;
};

/**
 * The principal that calls are charged to: an agent's calls are its owner's, whatever token they use. An agent cannot own
 * agents, so there is no chain to follow.
 */
export function chargedId({ ownerId, principalId }: Pick<Actor, "ownerId" | "principalId">): string {
  return ownerId ?? principalId;
}

/** The same as a key across tenants: rate limits, quotas and CPU budgets are counted under it. */
export function chargedTo(actor: Pick<Actor, "tenantId" | "ownerId" | "principalId">): string {
  return `${actor.tenantId}/${chargedId(actor)}`;
}

/** The tenant of a key that `chargedTo` returned. */
export function tenantOfCharged(key: string): string {
  return key.slice(0, key.indexOf("/"));
}

/** Whether `role` is `least` or above in its ladder. */
export function isAtLeast<Role extends string>(ladder: readonly Role[], role: Role, least: Role): boolean {
  return ladder.indexOf(role) >= ladder.indexOf(least);
}

/** Whether a principal is an admin of the tenant or, with more rights, one of its owners. */
export function isAdmin({ role }: Pick<Actor, "role">): boolean {
  return isAtLeast(TENANT_ROLES, role, "admin");
}

/** Whether a principal sees only the rooms it was invited to. */
export function isGuest({ role }: Pick<Actor, "role">): boolean {
  return role === "guest";
}

/**
 * Whether the role `own` may grant and revoke `role`, and act on principals that have it. The highest role of the ladder may do so
 * for all roles, any other only for those below it.
 */
export function outranks<Role extends string>(ladder: readonly Role[], own: Role, role: Role): boolean {
  return own === ladder.at(-1) || !isAtLeast(ladder, role, own);
}

/** The lower of two roles of one ladder. */
export function lowerOf<Role extends string>(ladder: readonly Role[], a: Role, b: Role): Role {
  return isAtLeast(ladder, a, b) ? b : a;
}

/** Whether the token's scopes include `scope`: by name, as `<module>.*`, or as `*`; `null` is no scope at all. */
export function hasScope(actor: Pick<Actor, "scopes">, scope: string | null): boolean {
  if (actor.scopes === undefined || scope === null) return true;
  return actor.scopes.has(scope) || actor.scopes.has("*") ||
    actor.scopes.has(`${scope.slice(0, scope.indexOf("."))}.*`);
}

/** What both allow. */
export function intersectScopes(one: Actor["scopes"], other: Actor["scopes"]): Actor["scopes"] {
  if (one === undefined || other === undefined) return one ?? other;
  // A scope such as `task.*` is in a set that has it or `*`, like any other scope of its module.
  const common = (own: ReadonlySet<string>, scopes: ReadonlySet<string>): string[] =>
    [...own].filter((scope) => hasScope({ scopes }, scope));
  return new Set([...common(one, other), ...common(other, one)]);
}

/** Scopes as text, as in columns and in tokens: separated by spaces, `null` for every scope. */
export function textOfScopes(scopes: Actor["scopes"]): string | null {
  return scopes === undefined ? null : [...scopes].join(" ");
}

/** Scopes from such a text. */
export function scopesOf(text: string | null): Actor["scopes"] {
  return text === null ? undefined : new Set(text.split(" ").filter((scope) => scope !== ""));
}

/** The first scope that a token lacks to receive events, which contain messages. */
export function missingEventScope(actor: Actor): string | undefined {
  return ["room.read", "message.read"].find((scope) => !hasScope(actor, scope));
}
