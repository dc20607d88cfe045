// The identity module: principals and tokens.
import type { Module, PrincipalChange } from "@/core/module.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Rate } from "@/core/operation.ts";
import type { TenantService } from "@/modules/tenant/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { PrincipalVisibility, type PrincipalVisibilityDeps } from "./principal_visibility.ts";
import { Admission } from "./admission.ts";
import { identityApi } from "./api.ts";
import { Authenticator } from "./authenticator.ts";
import { CredentialGuard } from "./credential_guard.ts";
import { RefreshTokenService } from "./refresh_tokens/service.ts";
import { AccessTokenSigner } from "./refresh_tokens/signer.ts";
import { IssuedTokens } from "./issued_tokens.ts";
import { migrations } from "./migrations.ts";
import { ErasedPrincipals, IDENTITY_ERASURE } from "./erasure.ts";
import { createProviderKeys } from "./provider_keys.ts";
import { IdentityService } from "./service.ts";
import { findPrincipals } from "./store.ts";
import { ServicePrincipals } from "./service_principals.ts";
import { TokenVerifier } from "./verifier.ts";

export type IdentitySettings = {
  /** Signs access tokens; `secrets`, including this one, verify them. */
  secret: Uint8Array;
  secrets: readonly Uint8Array[];
  issuer: string | undefined;
  audience: string | undefined;
  /** Audience of tokens that are for one endpoint only. */
  reservedAudience: string | undefined;
  jwksUrl: string | undefined;
  requiresExpiry: boolean;
  lifetimeMaxHours: number | undefined;
  refreshDays: number;
  agentsPerOwner: number;
  /** How often one address may use refresh tokens. */
  refreshRate: Rate;
  /** Limits in force, as shown to clients. */
  limits: Readonly<Record<string, number>>;
};

type Deps = IdentitySettings & {
  tenants: TenantService;
  filterSharingRoom: PrincipalVisibilityDeps["filterSharingRoom"];
  filterViewersSharingRoom: PrincipalVisibilityDeps["filterViewersSharingRoom"];
  lockPicture: ConstructorParameters<typeof IdentityService>[0]["lockPicture"];
};

export type IdentityModule = Module & {
  identity: IdentityService;
  authenticator: Authenticator;
  visibility: PrincipalVisibility;
  credentials: CredentialGuard;
  issuedTokens: IssuedTokens;
  admission: Admission;
  servicePrincipals: ServicePrincipals;
  erased: ErasedPrincipals;
};

export function identityModule(
  { store, clock, cursors, bus, outbound, modules }: Platform,
  deps: Deps,
): IdentityModule {
  const { tenants, secret, secrets, issuer, audience, agentsPerOwner } = deps;
  const jobsOf = (change: PrincipalChange, tenantId: string, id: string): JobDraft[] =>
    modules.flatMap(({ jobsOn }) => jobsOn?.[change]?.(tenantId, id) ?? []);
  const refreshTokens = new RefreshTokenService({
    store,
    clock,
    signer: new AccessTokenSigner({ secret, issuer, audience }),
    refreshDays: deps.refreshDays,
  });
  const visibility = new PrincipalVisibility({
    store,
    filterSharingRoom: deps.filterSharingRoom,
    filterViewersSharingRoom: deps.filterViewersSharingRoom,
  });
  const identity = new IdentityService({
    store,
    clock,
    cursors,
    refreshTokens,
    visibility,
    agentsPerOwner,
    lockPicture: deps.lockPicture,
    jobsOf,
  });
  const { jwksUrl, reservedAudience, requiresExpiry, lifetimeMaxHours } = deps;
  const authenticator = new Authenticator({
    store,
    clock,
    tenants,
    agentsPerOwner,
    jobsOnRename: (tenantId, principalId) => jobsOf("profile", tenantId, principalId),
    bus,
    verifier: new TokenVerifier({
      clock,
      secrets,
      providerKeys: jwksUrl === undefined ? undefined : createProviderKeys(jwksUrl, outbound),
      issuer,
      audience,
      reservedAudience,
      requiresExpiry,
      lifetimeMaxHours,
    }),
  });
  return {
    name: "identity",
    migrations,
    ...identityApi({ identity, modules, refreshTokens, tenants, limits: deps.limits, refreshRate: deps.refreshRate }),
    revalidate: (actor) => authenticator.revalidate(actor),
    findPrincipals,
    maintenance: { tokens: () => identity.purgeExpired() },
    erases: IDENTITY_ERASURE,
    identity,
    authenticator,
    visibility,
    credentials: new CredentialGuard({ store, clock }),
    servicePrincipals: new ServicePrincipals({ store, clock, jobsOf }),
    issuedTokens: new IssuedTokens({ store, clock, authenticator }),
    admission: new Admission({ store, clock, tenants }),
    erased: new ErasedPrincipals({ store, clock, identity, visibility, jobsOf }),
  };
}
