// Resolves bearer tokens to actors: verifies them, creates principals just in time, and caches the result.
import { type Actor, hasScope, lowerOf, scopesOf, TENANT_ROLES, type TenantRole } from "@/core/actor.ts";
import { runAsSystem } from "@/core/caller.ts";
import { type Clock, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { principalEvent, principalStream } from "@/core/event/event.ts";
import { Fault, isFault } from "@/core/fault.ts";
import type { JobDraft } from "@/core/job.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { Bus } from "@/ports/bus.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import type { TenantService } from "@/modules/tenant/mod.ts";
import { assertMayOwnAgent } from "./principal_rules.ts";
import { familyIdOf, isStoredTokenId } from "./refresh_tokens/signer.ts";
import { assertNotErased, isIssuedAfter } from "./erased_token.ts";
import { addWithHandle } from "./handle.ts";
import type { Claims } from "./schema.ts";
import { presentPrincipal } from "./presenter.ts";
import { claimedName, initialName, nameSetByToken } from "./principal_settings.ts";
import {
  IdentityStore,
  type IdentityTables,
  newPrincipal,
  principalChanged,
  type PrincipalRow,
  type TokenRow,
} from "./store.ts";
import { lockCredential, principalLock } from "./credential_guard.ts";
import { readClaims, type TokenVerifier } from "./verifier.ts";

/** API tokens start with this, so they are never mistaken for a JWT. */
export const API_TOKEN_PREFIX = "svcpat_";
const CACHE_MAX = 20_000;
/** Maximum age of a cached actor: the node of a change may have died, or lost the bus, before it sent the signal. */
const RECHECK_MS = 5000;
const LAST_USED_PRECISION_MS = MINUTE_MS;

const log = logOf("identity");

type Deps = {
  store: Store<IdentityTables>;
  clock: Clock;
  verifier: TokenVerifier;
  tenants: TenantService;
  agentsPerOwner: number;
  /** Jobs to enqueue when a token changes the name. */
  jobsOnRename: (tenantId: string, principalId: string) => readonly JobDraft[];
  bus: Pick<Bus, "isCurrent">;
};
/** What is needed of an actor to revalidate its rights later, for a connection or a link. */
export type CredentialSnapshot = Pick<Actor, "tenantId" | "principalId" | "role" | "scopes" | "tokenId" | "expiresAt">;
type CachedActor = { actor: Actor; checkedAt: number };

/** Verified tokens are cached, up to a bound, until they expire, are revoked, or their principal changes. */
export class Authenticator {
  readonly #deps: Deps;
  readonly #cache = new LruMap<string, CachedActor>(CACHE_MAX);
  readonly #running = new Map<string, Promise<Actor>>();
  /** Counts invalidations: what was read before one must not be cached after it. */
  #invalidations = 0;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * The actor behind a token; throws `unauthenticated`, `token_expired` or `token_revoked`. `resource`: the endpoint, if tokens
   * may be for it alone.
   */
  authenticate(token: string, resource?: string): Actor | Promise<Actor> {
    const now = this.#deps.clock.now();
    const key = resource === undefined ? token : `${resource} ${token}`;
    // Otherwise a change that ended rights may have a response by now, although its signal has not arrived here.
    const { isCurrent } = this.#deps.bus;
    const cached = isCurrent ? this.#cache.get(key) : undefined;
    if (cached !== undefined && now - cached.checkedAt < RECHECK_MS) {
      if (cached.actor.expiresAt !== undefined && cached.actor.expiresAt <= now) {
        this.#cache.delete(key);
        throw new Fault("token_expired", "The token has expired");
      }
      return cached.actor;
    }
    const running = isCurrent ? this.#running.get(key) : undefined;
    if (running !== undefined) return running;
    const started = runAsSystem(() => this.#resolve(token, resource, key, now)).finally(() => {
      if (this.#running.get(key) === started) this.#running.delete(key);
    });
    this.#running.set(key, started);
    return started;
  }

  /** The actor of what the identity provider says of a person, as with a token of it; throws as `authenticate` does. */
  async resolveClaims(claims: unknown): Promise<Actor> {
    return await this.#byClaims(readClaims(claims, false));
  }

  /**
   * The actor with its current rights, `undefined` if it or its owner is disabled, or its token was revoked. Rights that it
   * gained take effect with its next token.
   */
  async revalidate(
    { tenantId, principalId, role, scopes, tokenId, expiresAt }: CredentialSnapshot,
  ): Promise<Actor | undefined> {
    const identities = new IdentityStore(this.#deps.store.db);
    const row = await identities.principal(tenantId, principalId);
    if (row === undefined || tokenId !== undefined && await this.#isRevoked(tenantId, tokenId)) return undefined;
    try {
      return await this.#actor(row, role, { scopes, tokenId, expiresAt });
    } catch (thrown) {
      if (isFault(thrown, "token_revoked")) return undefined;
      throw thrown;
    }
  }

  /** Invalidates the cached tokens of a principal and of its agents. */
  invalidate(tenantId: string, principalId: string): void {
    this.#invalidations++;
    this.#running.clear();
    for (const [key, { actor }] of this.#cache) {
      const concerns = actor.principalId === principalId || actor.ownerId === principalId;
      if (actor.tenantId === tenantId && concerns) this.#cache.delete(key);
    }
  }

  /** Clears the cache: signals may have been lost. */
  invalidateAll(): void {
    this.#invalidations++;
    this.#running.clear();
    this.#cache.clear();
  }

  async #resolve(token: string, resource: string | undefined, key: string, checkedAt: number): Promise<Actor> {
    const before = this.#invalidations;
    const actor = token.startsWith(API_TOKEN_PREFIX)
      ? await this.#byApiToken(token)
      : await this.#byJwt(token, resource);
    if (before === this.#invalidations) this.#cache.set(key, { actor, checkedAt });
    return actor;
  }

  async #byApiToken(token: string): Promise<Actor> {
    const { store, clock } = this.#deps;
    const identities = new IdentityStore(store.db);
    const row = await identities.tokenByHash(hashText(token));
    if (row === undefined) throw new Fault("unauthenticated", "The token is unknown or was revoked");
    const now = clock.now();
    if (Date.parse(row.expires_at) <= now) throw new Fault("token_expired", "The token has expired");
    const principal = await identities.principal(row.tenant_id, row.principal_id);
    if (principal === undefined) throw new Fault("unauthenticated", "The principal of the token no longer exists");
    await this.#markUsed(row, now);
    return await this.#actor(principal, undefined, {
      scopes: scopesOf(row.scopes),
      tokenId: row.id,
      expiresAt: Date.parse(row.expires_at),
    });
  }

  async #byJwt(token: string, resource: string | undefined): Promise<Actor> {
    const { store, verifier } = this.#deps;
    const claims = await verifier.verify(token, resource);
    const tenantId = tenantOf(claims);
    const familyId = familyIdOf(claims.jti);
    if (familyId !== undefined) return await this.#byFamilyToken(tenantId, familyId, claims);
    if (claims.jti !== undefined && await new IdentityStore(store.db).isRevoked(tenantId, claims.jti)) {
      throw new Fault("token_revoked", "The token was revoked");
    }
    return await this.#byClaims(claims);
  }

  /** Creates the principal of these claims, or updates it where they are newer. */
  async #byClaims(claims: Claims): Promise<Actor> {
    const tenantId = tenantOf(claims);
    const { db } = this.#deps.store;
    const row = await new IdentityStore(db).principal(tenantId, claims.sub);
    if (row !== undefined && !isIssuedAfter(claims, row.created_at)) await assertNotErased(db, tenantId, claims);
    const isCurrent = row !== undefined && Object.keys(claimedChanges(claims, row)).length === 0;
    const principal = isCurrent ? row : await this.#upsertFromToken(tenantId, claims);
    return await this.#actor(principal, claims.role, {
      scopes: scopesOf(claims.scope ?? null),
      tokenId: claims.jti,
      expiresAt: claims.exp === undefined ? undefined : Math.floor(claims.exp * 1000),
    });
  }

  /** An access token is valid while its family exists, with at most the role of the family. */
  async #byFamilyToken(tenantId: string, familyId: string, { sub, exp }: Claims): Promise<Actor> {
    const identities = new IdentityStore(this.#deps.store.db);
    const family = await identities.family(tenantId, familyId);
    const principal = await identities.principal(tenantId, sub);
    if (family?.principal_id !== sub || principal === undefined) {
      throw new Fault("token_revoked", "The token family has ended");
    }
    await this.#markUsed(family, this.#deps.clock.now());
    return await this.#actor(principal, family.role, {
      scopes: scopesOf(family.scopes),
      tokenId: familyId,
      expiresAt: exp === undefined ? undefined : Math.floor(exp * 1000),
    });
  }

  /** Creates the principal of a first token, or updates role and name from a newer token. */
  #upsertFromToken(tenantId: string, claims: Claims): Promise<PrincipalRow> {
    const { store, clock, tenants } = this.#deps;
    return store.write(async (tx) => {
      const identities = new IdentityStore(tx.db);
      const now = iso(clock.now());
      await tenants.ensure(tx, tenantId);
      const ownerId = claims.kind === "agent" ? claims.owner : undefined;
      if (await identities.principal(tenantId, claims.sub) === undefined) {
        await assertNotErased(tx.db, tenantId, claims);
        if (ownerId !== undefined) await this.#assertMayOwn(tx, tenantId, ownerId);
      }
      const draft = newPrincipal(now, {
        tenant_id: tenantId,
        id: claims.sub,
        kind: claims.kind ?? "human",
        ...initialName(claims),
        role: claims.role ?? "member",
        role_set_at: claims.role === undefined || claims.iat === undefined ? null : iso(claims.iat * 1000),
        owner_id: ownerId ?? null,
      });
      // An id is a mention as it is; one that is an address would be a link as well.
      const name = claimedName(claims) ?? (claims.sub.includes("@") ? claims.sub : undefined);
      const isNew = await addWithHandle(tx, draft, name) !== undefined;
      // As in every change of a principal: of two concurrent tokens, each sees what the other changed.
      if (!isNew) {
        await lockCredential(tx, store, principalLock(tenantId, claims.sub));
        await tx.lock(tenantId, principalStream(claims.sub));
      }
      const row = await identities.principal(tenantId, claims.sub);
      if (row === undefined) throw new Error("Expected the principal just written, received none");
      const changes = isNew ? {} : claimedChanges(claims, row);
      if (Object.keys(changes).length === 0) return row;
      const set = { ...changes, version: row.version + 1, updated_at: now };
      await identities.updatePrincipal(tenantId, claims.sub, set);
      const after = { ...row, ...set };
      if (changes.display_name !== undefined) {
        await tx.emit(
          principalEvent({ tenantId }, claims.sub, "principal.updated", {
            principal: presentPrincipal(after, clock.now()),
          }),
        );
        await tx.enqueue(...this.#deps.jobsOnRename(tenantId, claims.sub));
      }
      tx.signal(principalChanged.create(tenantId, claims.sub));
      return after;
    });
  }

  async #assertMayOwn(tx: Transaction<IdentityTables>, tenantId: string, ownerId: string): Promise<void> {
    try {
      await assertMayOwnAgent(tx, tenantId, ownerId, this.#deps.agentsPerOwner);
    } catch (thrown) {
      if (!(thrown instanceof Fault) || thrown.spec.retryable === true) throw thrown;
      if (thrown.code === "not_found") throw new Fault("token_revoked", "The owner of the agent no longer exists");
      throw new Fault("unauthenticated", `The claim owner of the token is not valid: ${thrown.message}`);
    }
  }

  async #actor(
    row: PrincipalRow,
    claimedRole: TenantRole | undefined,
    token: Pick<Actor, "scopes" | "tokenId" | "expiresAt">,
  ): Promise<Actor> {
    const role = await effectiveTenantRole(new IdentityStore(this.#deps.store.db), row);
    return {
      tenantId: row.tenant_id,
      principalId: row.id,
      kind: row.kind,
      role: claimedRole === undefined ? role : lowerOf(TENANT_ROLES, role, claimedRole),
      displayName: row.display_name,
      ownerId: row.kind === "agent" ? row.owner_id : null,
      ...token,
      scopes: limitScopes(token.scopes, row.scope_limit),
    };
  }

  async #isRevoked(tenantId: string, tokenId: string): Promise<boolean> {
    const identities = new IdentityStore(this.#deps.store.db);
    return isStoredTokenId(tokenId)
      ? await identities.token(tenantId, tokenId) === undefined
      : await identities.isRevoked(tenantId, tokenId);
  }

  async #markUsed(row: TokenRow, now: number): Promise<void> {
    if (row.last_used_at !== null && now - Date.parse(row.last_used_at) < LAST_USED_PRECISION_MS) return;
    try {
      await this.#deps.store.write((tx) => new IdentityStore(tx.db).markUsed(row.tenant_id, row.id, iso(now)));
    } catch (cause) {
      // Reading must work where writing fails.
      log.warn("updating the last use of a token failed", failureOf(cause));
    }
  }
}

function tenantOf({ tenant, tid }: Claims): string {
  return tenant ?? tid ?? "default";
}

/** The role of a principal, bounded by its owner's; throws `token_revoked` if it or its owner is disabled. */
export async function effectiveTenantRole(identities: IdentityStore, row: PrincipalRow): Promise<TenantRole> {
  if (row.is_disabled === 1) throw new Fault("token_revoked", "The principal is disabled");
  if (row.kind !== "agent" || row.owner_id === null) return row.role;
  const owner = await identities.principal(row.tenant_id, row.owner_id);
  if (owner === undefined || owner.is_disabled === 1) {
    throw new Fault("token_revoked", "The owner of the agent no longer exists");
  }
  return lowerOf(TENANT_ROLES, row.role, owner.role);
}

/** The scopes of a token, without those that exceed the limit of its principal. */
function limitScopes(scopes: ReadonlySet<string> | undefined, limit: string | null): ReadonlySet<string> | undefined {
  if (limit === null) return scopes;
  const allowed = new Set(limit.split(" ").filter((scope) => scope !== ""));
  if (scopes === undefined) return allowed;
  const actor = { scopes };
  // A limit names scopes one by one, without wildcards.
  return new Set([...allowed].filter((scope) => hasScope(actor, scope)));
}

/** The columns that a token changes of its principal. */
function claimedChanges(claims: Claims, row: PrincipalRow): Partial<PrincipalRow> {
  const { role, iat } = claims;
  return {
    ...(setsRole(claims, row) && role !== undefined && iat !== undefined ? { role, role_set_at: iso(iat * 1000) } : {}),
    ...nameSetByToken(claims, row),
  };
}

/** The latest claim wins: a token sets the role unless it was set, by the API or a token, after the token was issued. */
function setsRole(claims: Claims, row: PrincipalRow): boolean {
  if (claims.role === undefined || claims.role === row.role) return false;
  if (claims.iat === undefined) return false;
  return row.role_set_at === null || claims.iat * 1000 >= Date.parse(row.role_set_at);
}
