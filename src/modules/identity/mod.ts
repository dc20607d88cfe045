// Identity: principals, tokens and authentication.
export { Admission } from "./admission.ts";
export { addPrincipals, PrincipalArchiveStore } from "./archive_store.ts";
export { adoptAgent } from "./agent_adoption.ts";
export type { PrincipalVisibility } from "./principal_visibility.ts";
export { type CredentialSnapshot } from "./authenticator.ts";
export type { ErasedPrincipals } from "./erasure.ts";
export { assertHandleFree, findTakenHandles, freeHandle } from "./handle.ts";
export type { IssuedTokens } from "./issued_tokens.ts";
export { type IdentityModule, identityModule, type IdentitySettings } from "./module.ts";
export { presentPrincipal, presentStatus } from "./presenter.ts";
export {
  Claims,
  DisplayName,
  Handle,
  MENTION_ALL_HANDLES,
  NewToken,
  NotificationPrefs,
  Principal,
  PrincipalId,
  PrincipalRef,
  Status,
} from "./schema.ts";
export type { IdentityService } from "./service.ts";
export { canManage, coversScope, resolvePrincipalId } from "./principal_rules.ts";
export type { CredentialGuard } from "./credential_guard.ts";
export type { ServicePrincipals } from "./service_principals.ts";
export { HOOK_PREFIX, type IdentityTables, newPrincipal, principalChanged, type PrincipalRow } from "./store.ts";
export { addHookPrincipal, changeProfile } from "./hook_principals.ts";
export { prefsOf, sharesReadReceipts } from "./principal_settings.ts";
