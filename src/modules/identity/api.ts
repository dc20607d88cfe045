// Operations on principals, on oneself, and on API tokens.
import { z } from "@zod/zod";
import { type Actor, TENANT_ROLES } from "@/core/actor.ts";
import { iso } from "@/core/clock.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation, Outcome, type Rate } from "@/core/operation.ts";
import { pageInput, pageOf } from "@/core/page.ts";
import { Tenant, type TenantService } from "@/modules/tenant/mod.ts";
import { refreshRoute } from "./family/route.ts";
import type { FamilyService } from "./family/service.ts";
import {
  IDENTITY_EVENTS,
  MeUpdate,
  NewToken,
  NotificationPrefs,
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
  roles: z.array(z.enum(TENANT_ROLES)).describe("Effective roles in the tenant"),
  scopes: z.array(z.string()).nullable().describe("Scopes of the token; null = all that the role allows"),
  notificationPrefs: NotificationPrefs,
  limits: z.record(z.string(), z.number()).describe("Limits in force, by name"),
  tokenExpiresAt: z.iso.datetime().nullable(),
}).meta({ id: "Me" });

type Deps = {
  identity: IdentityService;
  families: FamilyService;
  tenants: TenantService;
  limits: Readonly<Record<string, number>>;
  /** How often one address may use refresh tokens. */
  refreshes: Rate;
};

/** The identity module. */
export function identityModule({ identity, families, tenants, limits, refreshes }: Deps): Module {
  async function me(actor: Actor): Promise<z.output<typeof Me>> {
    return {
      principal: await identity.read(actor, "me"),
      tenant: await tenants.read(actor.tenantId),
      roles: [actor.role],
      scopes: actor.scopes === undefined ? null : [...actor.scopes],
      notificationPrefs: await identity.notificationPrefs(actor.tenantId, actor.principalId),
      limits: { ...limits },
      tokenExpiresAt: actor.expiresAt === undefined ? null : iso(actor.expiresAt),
    };
  }

  return {
    name: "identity",
    events: IDENTITY_EVENTS,
    routes: [refreshRoute(families, refreshes)],
    operations: [
      defineOperation({
        name: "me.read",
        summary: "Who am I, what may I do",
        access: { scope: "principal.read" },
        http: { method: "GET", path: `${PATH}/me`, status: 200 },
        input: z.strictObject({}),
        output: Me,
        run: ({ actor }) => me(actor),
      }),
      defineOperation({
        name: "me.update",
        summary: "Change oneself",
        access: { scope: "principal.write" },
        http: { method: "PATCH", path: `${PATH}/me`, status: 200, ifMatch: "version" },
        input: MeUpdate,
        output: Principal,
        faults: ["version_mismatch"],
        example: { displayName: "Alice" },
        run: ({ actor }, input) => identity.updateMe(actor, input),
      }),
      defineOperation({
        name: "principal.list",
        summary: "List the principals of the tenant",
        access: { scope: "principal.read", tenant: "member" },
        http: { method: "GET", path: `${PATH}/principals`, status: 200 },
        input: PrincipalList,
        output: pageOf(Principal),
        faults: ["invalid_cursor"],
        run: ({ actor }, input) => identity.list(actor, input),
      }),
      defineOperation({
        name: "principal.create",
        summary: "Create a principal before its first token",
        description: "Members may create agents of their own; everything else needs the tenant role admin.",
        access: { scope: "principal.manage", tenant: "member" },
        http: { method: "POST", path: `${PATH}/principals`, status: 201 },
        input: PrincipalCreate,
        output: Principal,
        faults: ["conflict", "handle_taken", "not_found"],
        example: { kind: "agent", displayName: "Deploy bot", handle: "deploy-bot" },
        async run({ actor }, input) {
          const principal = await identity.create(actor, input);
          return new Outcome(principal, { location: `${PATH}/principals/${encodeURIComponent(principal.id)}` });
        },
      }),
      defineOperation({
        name: "principal.read",
        summary: "Read a principal",
        description:
          "Guests of the tenant read themselves, their agents, an agent its owner, and who is a member of a room that they " +
          "are a member of now; to them everybody else is absent, here and wherever an id is taken.",
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
        summary: "Change a principal's name, handle or role, or disable it",
        access: { scope: "principal.manage", tenant: "admin" },
        http: { method: "PATCH", path: `${PATH}/principals/:id`, status: 200, ifMatch: "version" },
        input: PrincipalUpdate,
        output: Principal,
        faults: ["not_found", "version_mismatch", "handle_taken"],
        example: { id: "alice", role: "admin" },
        run: ({ actor }, input) => identity.update(actor, input),
      }),
      defineOperation({
        name: "principal.disable",
        summary: "Disable a principal; its tokens stop working and its sockets close",
        description:
          "Rooms whose last enabled owner it was pass to the person who has been there longest, a moderator " +
          "before others, and stay theirs when it is enabled again.",
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
      defineOperation({
        name: "token.create",
        summary: "Create an API token, shown once",
        description:
          "With `refreshable` it is an access token that `POST /v1/collaboration/auth/refresh` renews, and that has no " +
          "higher role than the token of this call; any other has its principal's role, so this call must have that too.",
        access: { scope: "token.manage" },
        http: { method: "POST", path: `${PATH}/tokens`, status: 201 },
        input: TokenCreate,
        output: NewToken,
        isSecret: true,
        faults: ["not_found", "limit_reached"],
        example: { name: "laptop", scopes: ["room.read", "message.*"] },
        run: ({ actor }, input) => identity.createToken(actor, input),
      }),
      defineOperation({
        name: "token.list",
        summary: "List API tokens, without their secrets; a refreshable one is one entry",
        access: { scope: "token.manage" },
        http: { method: "GET", path: `${PATH}/tokens`, status: 200 },
        input: z.strictObject({ ...pageInput, principalId: PrincipalRef.default("me") }),
        output: pageOf(Token),
        faults: ["not_found", "invalid_cursor"],
        run: ({ actor }, input) => identity.listTokens(actor, input),
      }),
      defineOperation({
        name: "token.revoke",
        summary: "Revoke an API token and all that came of it; sockets opened with it close",
        access: { scope: "token.manage" },
        http: { method: "DELETE", path: `${PATH}/tokens/:id`, status: 204 },
        input: z.strictObject({ id: z.string().min(1).max(64) }),
        output: z.void(),
        faults: ["not_found"],
        example: { id: "tok_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" },
        run: ({ actor }, { id }) => identity.revokeToken(actor, id),
      }),
      defineOperation({
        name: "session.end",
        summary: "Log out: revoke the token of this call",
        description: "Whoever holds a token may end it. A JWT needs a `jti`; sockets opened with the token close.",
        access: { scope: null },
        http: { method: "POST", path: `${PATH}/auth/logout`, status: 204 },
        input: z.strictObject({}),
        output: z.void(),
        faults: ["conflict"],
        example: {},
        run: ({ actor }) => identity.endSession(actor),
      }),
    ],
  };
}
