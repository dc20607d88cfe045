// Principals and tokens as JSON.
import type { Principal, Status, Token } from "./schema.ts";
import type { ListedToken, PrincipalRow } from "./store.ts";

/** The status of a principal; null once it has expired. */
export function presentStatus(
  { status_text: text, status_emoji: emoji, status_until: until }: Pick<
    PrincipalRow,
    "status_text" | "status_emoji" | "status_until"
  >,
  now: number,
): Status | null {
  const isExpired = until !== null && Date.parse(until) <= now;
  return isExpired || (text === null && emoji === null) ? null : { text, emoji, until };
}

/** A principal in the API; `now` decides whether its status has expired. */
export function presentPrincipal(row: PrincipalRow, now: number): Principal {
  return {
    id: row.id,
    kind: row.kind,
    handle: row.handle,
    displayName: row.display_name,
    role: row.role,
    ownerId: row.owner_id,
    externalId: row.external_id,
    avatarFileId: row.avatar_file_id,
    timeZone: row.timezone,
    locale: row.locale,
    status: presentStatus(row, now),
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
