// Principals and tokens as JSON.
import type { Principal, Token } from "./schema.ts";
import type { ListedToken, PrincipalRow } from "./store.ts";

/** A principal as others see it. */
export function presentPrincipal(row: PrincipalRow): Principal {
  return {
    id: row.id,
    kind: row.kind,
    handle: row.handle,
    displayName: row.display_name,
    role: row.role,
    ownerId: row.owner_id,
    externalId: row.external_id,
    avatarFileId: row.avatar_file_id,
    timezone: row.timezone,
    locale: row.locale,
    disabled: row.is_disabled === 1,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

/** A token without its secret. */
export function presentToken(row: ListedToken): Token {
  return {
    id: row.id,
    principalId: row.principal_id,
    name: row.name,
    scopes: row.scopes.split(" "),
    createdAt: row.created_at,
    expiresAt: row.access_expires_at ?? row.expires_at,
    refreshExpiresAt: row.access_expires_at === null ? null : row.expires_at,
    lastUsedAt: row.last_used_at,
  };
}
