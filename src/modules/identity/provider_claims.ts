// Claims in tokens of an identity provider: some have a name of ours and are about something else.
import { z } from "@zod/zod";
import { TENANT_ROLES } from "@/core/actor.ts";
import { Claims } from "./schema.ts";

/** Scopes that are about the provider itself: what its tokens and its own API reveal of a person. */
const PROVIDER_SCOPES: ReadonlySet<string> = new Set([
  // OpenID Connect Core 1.0, sections 3.1.2.1, 5.4 and 11.
  ...["openid", "profile", "email", "address", "phone", "offline_access"],
  // Amazon Cognito, "Scopes, M2M, and resource servers": its API for people to manage their own account.
  "aws.cognito.signin.user.admin",
]);
/** The database role of everyone who is signed in, in tokens of Supabase ("JWT Claims Reference") and for PostgREST. */
const SIGNED_IN = "authenticated";

const ROLE_MESSAGE =
  "expected owner, admin, auditor, member or guest; let the identity provider map its roles to these, or omit it";

/** Like `Claims`. What is not known to be about something else counts: a typo in a scope must not give more rights. */
export const ProviderClaims = Claims.extend({
  role: z.preprocess((role) => role === SIGNED_IN ? undefined : role, z.enum(TENANT_ROLES, ROLE_MESSAGE).optional()),
  scope: Claims.shape.scope.transform((scope) => scope === undefined ? undefined : ownScopes(scope)),
});

/** Without the provider's; `undefined` if there were no others. A claim without any allows nothing, as in our own tokens. */
function ownScopes(scope: string): string | undefined {
  const all = scope.split(" ").filter((word) => word !== "");
  const own = all.filter((word) => !PROVIDER_SCOPES.has(word));
  return all.length > 0 && own.length === 0 ? undefined : own.join(" ");
}
