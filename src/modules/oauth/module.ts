// The OAuth module: applications get tokens for `/mcp` from the people that they act for.
import { type Actor, isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { Encryptor, Signer } from "@/core/crypto.ts";
import type { Module } from "@/core/module.ts";
import type { IdentityService, IssuedTokens } from "@/modules/identity/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { isAccessToken } from "./access_token.ts";
import { oauthApi } from "./api.ts";
import { AuthorizationRequests } from "./authorization_request.ts";
import { Clients } from "./clients.ts";
import { ConsentService } from "./consent_service.ts";
import { GrantService } from "./grant_service.ts";
import { Issuer, metadataRoutes } from "./metadata.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { oauthRoutes } from "./routes.ts";

type Deps = {
  identity: IdentityService;
  issuedTokens: IssuedTokens;
  secrets: readonly Uint8Array[];
  publicUrl: string | undefined;
  /** Issuer of the identity provider, when there is one. */
  provider: string | undefined;
  refreshDays: number;
};

/** What the endpoint of MCP needs of it. */
type OauthAuthenticator = {
  /** Whether a token was issued for an application. */
  isApplicationToken(token: string): boolean;
  /** The actor of such a token, if it is for this resource; throws like any authentication. */
  authenticate(token: string, resource: string | undefined): Promise<Actor>;
  issuer: Issuer;
};
export type OauthModule = Module & { oauth: OauthAuthenticator };

export function oauthModule({ store, clock, outbound, metrics, modules }: Platform, deps: Deps): OauthModule {
  const { identity, issuedTokens, secrets, refreshDays } = deps;
  const issuer = new Issuer({ ...deps, scopes: () => offeredScopes(modules) });
  const clients = new Clients({ encryptor: new Encryptor(secrets, "oauth client"), outbound, clock });
  const requests = new AuthorizationRequests({
    clients,
    encryptor: new Encryptor(secrets, "oauth request"),
    clock,
    issuer,
  });
  const grants = new GrantService({
    store,
    clock,
    metrics,
    identity,
    issuedTokens,
    access: new Signer(secrets, "oauth access token"),
    rotation: new Signer(secrets, "oauth refresh token"),
    refreshDays,
  });
  return {
    name: "oauth",
    migrations,
    erases,
    ...oauthApi(new ConsentService({ store, clock, requests, issuedTokens })),
    routes: [...metadataRoutes(issuer), ...oauthRoutes({ issuer, clients, requests, grants, now: () => clock.now() })],
    maintenance: { authorizations: () => grants.purgeExpired() },
    capability: () => ({
      enabled: issuer.provider === undefined,
      clientIdMetadataDocuments: true,
      dynamicRegistration: true,
    }),
    oauth: { isApplicationToken: isAccessToken, authenticate: (...of) => grants.authenticate(...of), issuer },
  };
}

/** What people do by themselves: a token that outlives the application, and an erasure, which cannot be undone. */
const PERSONAL_SCOPES: ReadonlySet<string> = new Set(["token.manage", "erasure.manage"]);

/** Scopes of what an application can reach: nothing of administration, and nothing that returns secrets. */
function offeredScopes(modules: readonly Module[]): string[] {
  const reachable = modules.flatMap((module) => module.operations)
    .filter(({ access, isSecret }) => isSecret !== true && isAtLeast(TENANT_ROLES, "member", access.tenant ?? "guest"));
  return [...new Set(reachable.flatMap(({ access }) => access.scope ?? []))].filter((scope) =>
    !PERSONAL_SCOPES.has(scope)
  ).sort();
}
