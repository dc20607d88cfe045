// Who is calling: the principal behind a verified token, and what that token allows.

export const TENANT_ROLES = ["guest", "member", "admin", "owner"] as const;
export type TenantRole = (typeof TENANT_ROLES)[number];

export const ROOM_ROLES = ["observer", "member", "moderator", "owner"] as const;
export type RoomRole = (typeof ROOM_ROLES)[number];

export const PRINCIPAL_KINDS = ["human", "agent", "service"] as const;
export type PrincipalKind = (typeof PRINCIPAL_KINDS)[number];

/** The verified caller of one request or connection. */
export type Actor = {
  tenantId: string;
  principalId: string;
  kind: PrincipalKind;
  /** Effective role in the tenant: an agent's is never above its owner's. */
  role: TenantRole;
  displayName: string;
  /** Owner of an agent; its rights bound the agent's. */
  ownerId: string | null;
  /** `undefined` = every scope the role allows. */
  scopes: ReadonlySet<string> | undefined;
  /** `jti` of the JWT or id of the API token, when there is one. */
  tokenId: string | undefined;
  /** Expiry of the token, ms since the epoch. */
  expiresAt: number | undefined;
};

/** Whether `role` is `least` or above in its ladder. */
export function isAtLeast<Role extends string>(ladder: readonly Role[], role: Role, least: Role): boolean {
  return ladder.indexOf(role) >= ladder.indexOf(least);
}

/** Whether somebody is in the tenant only for the rooms it was asked into. */
export function isGuest({ role }: Pick<Actor, "role">): boolean {
  return role === "guest";
}

/** The lower of two roles of one ladder. */
export function lowerOf<Role extends string>(ladder: readonly Role[], a: Role, b: Role): Role {
  return isAtLeast(ladder, a, b) ? b : a;
}

/** Whether the token's scopes include `scope`: by name, as `<module>.*`, or as `*`; `null` is no scope at all. */
export function hasScope(actor: Actor, scope: string | null): boolean {
  if (actor.scopes === undefined || scope === null) return true;
  return actor.scopes.has(scope) || actor.scopes.has("*") ||
    actor.scopes.has(`${scope.slice(0, scope.indexOf("."))}.*`);
}

/** The first scope that a token lacks to hear of events, which hold messages. */
export function lacksToHear(actor: Actor): string | undefined {
  return ["room.read", "message.read"].find((scope) => !hasScope(actor, scope));
}
