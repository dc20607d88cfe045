// Operations on principals, on oneself, and on API tokens.
import { z } from "@zod/zod";
import { type Actor, TenantRole } from "@/core/actor.ts";
import { iso } from "@/core/time/clock.ts";
import { exampleId } from "@/core/id.ts";
import { assertScopesExist } from "@/core/known_scopes.ts";
import type { Module, ModuleApi } from "@/core/module.ts";
import { defineOperation, type Operation, Outcome, type Rate } from "@/core/operation.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { Tenant, type TenantService } from "@/modules/tenant/mod.ts";
import { refreshRoute } from "./refresh_tokens/route.ts";
import type { RefreshTokenService } from "./refresh_tokens/service.ts";
import {
  IDENTITY_EVENTS,
  MeUpdate,
  NewToken,
  Preferences,
  Principal,
  PrincipalCreate,
  PrincipalList,
  PrincipalRef,
  PrincipalUpdate,
  Token,
  TokenCreate,
} from "./schema.ts";
import type { IdentityService } from "./service.ts";

const PATH = "/v1/collaboration";

const Me = z.object({
  principal: Principal,
  tenant: Tenant,
  roles: z.array(TenantRole).describe("Effective roles in the tenant"),
  scopes: z.array(z.string()).nullable().describe("Scopes of the token; null if it allows everything the role allows"),
  ...Preferences.shape,
  limits: z.record(z.string(), z.number()).describe("Limits in force, by name"),
  tokenExpiresAt: z.iso.datetime().nullable().describe("When the token expires; null if it does not expire"),
}).meta({ id: "Me" });

type Deps = {
  identity: IdentityService;
  /** All modules, whose scopes a token may have. */
  modules: readonly Module[];
  refreshTokens: RefreshTokenService;
  tenants: TenantService;
  limits: Readonly<Record<string, number>>;
  /** How often one address may use refresh tokens. */
  refreshRate: Rate;
};

export function identityApi(deps: Deps): ModuleApi {
  const { refreshTokens, refreshRate } = deps;
  return {
    tags: {
      me: "The caller: profile, preferences and limits.",
      principals: "People, agents and services of the tenant.",
      tokens: "API tokens: create, list and revoke them.",
      auth: "Exchange of refresh tokens for access tokens.",
    },
    events: IDENTITY_EVENTS,
    routes: [refreshRoute(refreshTokens, refreshRate)],
    operations: [...meOperations(deps), ...principalOperations(deps), ...tokenOperations(deps)],
  };
}

function meOperations({ identity, tenants, limits }: Deps): Operation[] {
  async function me(actor: Actor): Promise<z.output<typeof Me>> {
    return {
      principal: await identity.read(actor, "me"),
      tenant: await tenants.read(actor.tenantId),
      roles: [actor.role],
      scopes: actor.scopes === undefined ? null : [...actor.scopes],
      ...await identity.preferences(actor),
      limits: { ...limits },
      tokenExpiresAt: actor.expiresAt === undefined ? null : iso(actor.expiresAt),
    };
  }

  return [
    defineOperation({
      name: "me.read",
      summary: "Get the caller, its roles, scopes and limits",
      access: { scope: "principal.read" },
      http: { method: "GET", path: `${PATH}/me`, status: 200 },
      input: z.strictObject({}),
      output: Me,
      ownData: {},
      run: ({ actor }) => me(actor),
    }),
    defineOperation({
      name: "me.update",
      summary: "Update the caller's profile and preferences",
      description: "Changes of name, picture and status are published in all rooms of the caller.",
      access: { scope: "principal.write" },
      http: { method: "PATCH", path: `${PATH}/me`, status: 200, ifMatch: "version" },
      input: MeUpdate,
      output: Principal,
      faults: ["version_mismatch", "handle_taken"],
      example: { displayName: "Alice", status: { text: "At lunch", emoji: "🥪", until: null } },
      // Each change of a profile is published in all rooms of the principal.
      rate: { human: { perSecond: 0.2, burst: 20 } },
      run: ({ actor }, input) => identity.updateMe(actor, input),
    }),
  ];
}

function principalOperations({ identity }: Deps): Operation[] {
  return [
    defineOperation({
      name: "principal.list",
      summary: "List the principals of the tenant, or get several by id",
      description:
        "Guests of the tenant can get principals by id only, and only those that `principal.read` returns to " +
        "them.",
      access: { scope: "principal.read" },
      http: { method: "GET", path: `${PATH}/principals`, status: 200 },
      input: PrincipalList,
      output: pageSchema(Principal),
      faults: ["invalid_cursor"],
      run: ({ actor }, input) => identity.list(actor, input),
    }),
    defineOperation({
      name: "principal.create",
      summary: "Create a principal before its first token is used",
      description:
        "Members can create agents of their own; everything else requires the tenant role admin. Calls of an " +
        "agent count against the rate limits of its owner, and a principal can own a limited number of agents.",
      access: { scope: "principal.manage", tenant: "member" },
      http: { method: "POST", path: `${PATH}/principals`, status: 201, hasLocation: true },
      input: PrincipalCreate,
      output: Principal,
      faults: ["conflict", "handle_taken", "limit_reached", "not_found"],
      example: { kind: "agent", displayName: "Deploy bot", handle: "deploy-bot" },
      async run({ actor }, input) {
        const principal = await identity.create(actor, input);
        return new Outcome(principal, { location: `${PATH}/principals/${encodeURIComponent(principal.id)}` });
      },
    }),
    defineOperation({
      name: "principal.read",
      summary: "Get a principal",
      description:
        "Guests of the tenant can see themselves, their agents, the owner of an agent, and members of rooms they " +
        "are currently in. All other principals do not exist for them, here and wherever an id is accepted.",
      access: { scope: "principal.read" },
      http: { method: "GET", path: `${PATH}/principals/:id`, status: 200 },
      input: z.strictObject({ id: PrincipalRef }),
      output: Principal,
      faults: ["not_found"],
      example: { id: "me" },
      run: ({ actor }, { id }) => identity.read(actor, id),
    }),
    defineOperation({
      name: "principal.update",
      summary: "Update a principal's name, handle or role, or disable it",
      access: { scope: "principal.manage", tenant: "admin" },
      http: { method: "PATCH", path: `${PATH}/principals/:id`, status: 200, ifMatch: "version" },
      input: PrincipalUpdate,
      output: Principal,
      faults: ["not_found", "version_mismatch", "handle_taken", "limit_reached"],
      example: { id: "alice", role: "admin" },
      run: ({ actor }, input) => identity.update(actor, input),
    }),
    defineOperation({
      name: "principal.disable",
      summary: "Disable a principal: revoke its tokens and close its connections",
      description: "Ownership of rooms without another enabled owner is transferred to the longest-standing member, " +
        "moderators first. Enabling the principal again does not return them.",
      access: { scope: "principal.manage", tenant: "admin" },
      http: { method: "DELETE", path: `${PATH}/principals/:id`, status: 204 },
      input: z.strictObject({ id: PrincipalRef }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: "alice" },
      async run({ actor }, { id }) {
        await identity.update(actor, { id, disabled: true });
      },
    }),
  ];
}

function tokenOperations({ identity, modules }: Deps): Operation[] {
  return [
    defineOperation({
      name: "token.create",
      summary: "Create an API token; its secret is returned only once",
      description:
        "With `refreshable`, creates an access token that `POST /v1/collaboration/auth/refresh` renews, with at " +
        "most the role of the calling token. Any other API token has the role of its principal, which the calling " +
        "token must have as well.",
      access: { scope: "token.manage" },
      http: { method: "POST", path: `${PATH}/tokens`, status: 201 },
      input: TokenCreate,
      output: NewToken,
      isSecret: true,
      faults: ["not_found", "limit_reached"],
      example: { name: "laptop", scopes: ["room.read", "message.*"] },
      async run({ actor }, input) {
        assertScopesExist(modules, input.scopes, "/scopes");
        return await identity.createToken(actor, input);
      },
    }),
    defineOperation({
      name: "token.list",
      summary: "List API tokens, without their secrets; a refreshable token is one entry",
      access: { scope: "token.manage" },
      http: { method: "GET", path: `${PATH}/tokens`, status: 200 },
      input: z.strictObject({ ...pageInput, principalId: PrincipalRef.default("me") }),
      output: pageSchema(Token),
      faults: ["not_found", "invalid_cursor"],
      ownData: {},
      run: ({ actor }, input) => identity.listTokens(actor, input),
    }),
    defineOperation({
      name: "token.revoke",
      summary: "Revoke an API token and all tokens derived from it; closes connections that use them",
      access: { scope: "token.manage" },
      http: { method: "DELETE", path: `${PATH}/tokens/:id`, status: 204 },
      input: z.strictObject({ id: z.string().min(1).max(64) }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: exampleId("tok") },
      run: ({ actor }, { id }) => identity.revokeToken(actor, id),
    }),
    defineOperation({
      name: "session.end",
      summary: "Log out: revoke the token of this call",
      description: "Every token can revoke itself; a JWT requires a `jti`. Closes connections that use the token.",
      access: { scope: null },
      http: { method: "POST", path: `${PATH}/auth/logout`, status: 204 },
      input: z.strictObject({}),
      output: z.void(),
      faults: ["conflict"],
      example: {},
      run: ({ actor }) => identity.endSession(actor),
    }),
  ];
}
