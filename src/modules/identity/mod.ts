// Identity: who calls, by which token, and which principals there are.
export { Acquaintances } from "./acquaintance.ts";
export { identityModule } from "./api.ts";
export { Authenticator, type Standing } from "./authenticator.ts";
export { FamilyService } from "./family/service.ts";
export { AccessTokenSigner } from "./family/signer.ts";
export { presentPrincipal } from "./presenter.ts";
export { Claims, NotificationPrefs, Principal, PrincipalId, PrincipalRef } from "./schema.ts";
export { IdentityService, idOf } from "./service.ts";
export { type IdentityTables, newPrincipal, type PrincipalRow } from "./store.ts";
export { TokenVerifier } from "./verifier.ts";
