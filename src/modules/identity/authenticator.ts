// From a bearer token to the actor behind it: verify, make the principal just in time, remember for a moment.
import { createHash } from "node:crypto";
import { type Actor, lowerOf, TENANT_ROLES, type TenantRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { RecentMap } from "@/core/recent_map.ts";
import { startOf } from "@/core/text.ts";
import type { Store } from "@/ports/store.ts";
import type { TenantService } from "@/modules/tenant/mod.ts";
import { familyOf, isKept } from "./family/signer.ts";
import type { Claims } from "./schema.ts";
import { IdentityStore, type IdentityTables, newPrincipal, type PrincipalRow, type TokenRow } from "./store.ts";
import type { TokenVerifier } from "./verifier.ts";

/** API tokens start with this, so they are never mistaken for a JWT. */
export const API_TOKEN_PREFIX = "svcpat_";
const REMEMBERED_MAX = 20_000;
/** How stale a remembered actor may be where the signal of a change was lost. */
const RECHECK_MS = 30_000;
const USED_EXACT_MS = 60_000;
const NAME_MAX = 100;

const log = logOf("identity");

type Deps = { store: Store<IdentityTables>; clock: Clock; verifier: TokenVerifier; tenants: TenantService };
/** What is to be known of a connected actor, or of whoever made a link, to tell what rights are left to it. */
export type Standing = Pick<Actor, "tenantId" | "principalId" | "role" | "scopes" | "tokenId" | "expiresAt">;
type Remembered = { actor: Actor; checkedAt: number };

/** Verified tokens are remembered, bounded, until they expire, are revoked, or their principal changes. */
export class Authenticator {
  readonly #deps: Deps;
  readonly #remembered = new RecentMap<string, Remembered>(REMEMBERED_MAX);
  readonly #running = new Map<string, Promise<Actor>>();
  /** Counts what was to be forgotten: whatever was read before that is not remembered after it. */
  #forgotten = 0;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The actor behind a token; throws `unauthenticated`, `token_expired` or `token_revoked`. */
  authenticate(token: string): Actor | Promise<Actor> {
    const now = this.#deps.clock.now();
    const known = this.#remembered.get(token);
    if (known !== undefined && now - known.checkedAt < RECHECK_MS) {
      if (known.actor.expiresAt !== undefined && known.actor.expiresAt <= now) {
        this.#remembered.delete(token);
        throw new Fault("token_expired", "The token has expired");
      }
      return known.actor;
    }
    const running = this.#running.get(token);
    if (running !== undefined) return running;
    const started = this.#establish(token).finally(() => this.#running.delete(token));
    this.#running.set(token, started);
    return started;
  }

  /**
   * A connected actor with the rights left to it, `undefined` when it may not stay: it or its owner is disabled, its token
   * revoked. Rights it gained come with its next token.
   */
  async current({ tenantId, principalId, role, scopes, tokenId, expiresAt }: Standing): Promise<Actor | undefined> {
    const identities = new IdentityStore(this.#deps.store.db);
    const row = await identities.principal(tenantId, principalId);
    if (row === undefined || tokenId !== undefined && await this.#isEnded(tenantId, tokenId)) return undefined;
    try {
      return await this.#actor(row, role, { scopes, tokenId, expiresAt });
    } catch (thrown) {
      if (thrown instanceof Fault && thrown.code === "token_revoked") return undefined;
      throw thrown;
    }
  }

  /** Forgets what is remembered of a principal and of the agents it owns. */
  forget(tenantId: string, principalId: string): void {
    this.#forgotten++;
    this.#running.clear();
    for (const [token, { actor }] of this.#remembered) {
      const concerns = actor.principalId === principalId || actor.ownerId === principalId;
      if (actor.tenantId === tenantId && concerns) this.#remembered.delete(token);
    }
  }

  async #establish(token: string): Promise<Actor> {
    const before = this.#forgotten;
    const actor = token.startsWith(API_TOKEN_PREFIX) ? await this.#byApiToken(token) : await this.#byJwt(token);
    if (before === this.#forgotten) this.#remembered.set(token, { actor, checkedAt: this.#deps.clock.now() });
    return actor;
  }

  async #byApiToken(token: string): Promise<Actor> {
    const { store, clock } = this.#deps;
    const identities = new IdentityStore(store.db);
    const row = await identities.tokenByHash(hashOf(token));
    if (row === undefined) throw new Fault("unauthenticated", "The token is not known or was revoked");
    const now = clock.now();
    if (Date.parse(row.expires_at) <= now) throw new Fault("token_expired", "The token has expired");
    const principal = await identities.principal(row.tenant_id, row.principal_id);
    if (principal === undefined) throw new Fault("unauthenticated", "The token's principal is gone");
    await this.#markUsed(row, now);
    return await this.#actor(principal, undefined, {
      scopes: new Set(row.scopes.split(" ")),
      tokenId: row.id,
      expiresAt: Date.parse(row.expires_at),
    });
  }

  async #byJwt(token: string): Promise<Actor> {
    const { store, verifier } = this.#deps;
    const claims = await verifier.verify(token);
    const tenantId = claims.tenant ?? claims.tid ?? "default";
    const familyId = familyOf(claims.jti);
    if (familyId !== undefined) return await this.#ofFamily(tenantId, familyId, claims);
    const identities = new IdentityStore(store.db);
    if (claims.jti !== undefined && await identities.isRevoked(tenantId, claims.jti)) {
      throw new Fault("token_revoked", "The token was revoked");
    }
    const row = await identities.principal(tenantId, claims.sub);
    const principal = row !== undefined && !setsRole(claims, row) ? row : await this.#settle(tenantId, claims);
    return await this.#actor(principal, claims.role, {
      scopes: claims.scope === undefined ? undefined : new Set(claims.scope.split(" ").filter((part) => part !== "")),
      tokenId: claims.jti,
      expiresAt: claims.exp === undefined ? undefined : Math.floor(claims.exp * 1000),
    });
  }

  /** An access token counts while its family is there, and for no more than the family was made for. */
  async #ofFamily(tenantId: string, familyId: string, { sub, exp }: Claims): Promise<Actor> {
    const identities = new IdentityStore(this.#deps.store.db);
    const family = await identities.family(tenantId, familyId);
    const principal = await identities.principal(tenantId, sub);
    if (family?.principal_id !== sub || principal === undefined) {
      throw new Fault("token_revoked", "The token's family has ended");
    }
    await this.#markUsed(family, this.#deps.clock.now());
    return await this.#actor(principal, family.role, {
      scopes: new Set(family.scopes.split(" ")),
      tokenId: familyId,
      expiresAt: exp === undefined ? undefined : Math.floor(exp * 1000),
    });
  }

  /** Creates the principal of a first token, or takes over the role that a newer token states. */
  #settle(tenantId: string, claims: Claims): Promise<PrincipalRow> {
    const { store, clock, tenants } = this.#deps;
    return store.write(async (tx) => {
      const identities = new IdentityStore(tx.db);
      const now = iso(clock.now());
      await tenants.ensure(tenantId);
      const isNew = await identities.addPrincipal(newPrincipal(now, {
        tenant_id: tenantId,
        id: claims.sub,
        kind: claims.kind ?? "human",
        display_name: startOf(claims.name?.trim() || claims.sub, NAME_MAX),
        role: claims.role ?? "member",
        role_set_at: claims.role === undefined || claims.iat === undefined ? null : iso(claims.iat * 1000),
        owner_id: claims.kind === "agent" ? claims.owner ?? null : null,
      }));
      // As in every change of a principal: of two tokens at once each sees what the other has set.
      if (!isNew) await tx.reserve(tenantId, principalStream(claims.sub), 0);
      const row = await identities.principal(tenantId, claims.sub);
      if (row === undefined) throw new Error("a principal just written is not there");
      if (isNew || claims.role === undefined || claims.iat === undefined || !setsRole(claims, row)) return row;
      const set = {
        role: claims.role,
        role_set_at: iso(claims.iat * 1000),
        version: row.version + 1,
        updated_at: now,
      };
      await identities.updatePrincipal(tenantId, claims.sub, set);
      tx.signal({ kind: "principal", tenantId, id: claims.sub });
      return { ...row, ...set };
    });
  }

  async #actor(
    row: PrincipalRow,
    stated: TenantRole | undefined,
    token: Pick<Actor, "scopes" | "tokenId" | "expiresAt">,
  ): Promise<Actor> {
    const role = await roleNow(new IdentityStore(this.#deps.store.db), row);
    return {
      tenantId: row.tenant_id,
      principalId: row.id,
      kind: row.kind,
      role: stated === undefined ? role : lowerOf(TENANT_ROLES, role, stated),
      displayName: row.display_name,
      ownerId: row.kind === "agent" ? row.owner_id : null,
      ...token,
    };
  }

  async #isEnded(tenantId: string, tokenId: string): Promise<boolean> {
    const identities = new IdentityStore(this.#deps.store.db);
    return isKept(tokenId)
      ? await identities.token(tenantId, tokenId) === undefined
      : await identities.isRevoked(tenantId, tokenId);
  }

  async #markUsed(row: TokenRow, now: number): Promise<void> {
    if (row.last_used_at !== null && now - Date.parse(row.last_used_at) < USED_EXACT_MS) return;
    try {
      await this.#deps.store.write((tx) => new IdentityStore(tx.db).markUsed(row.tenant_id, row.id, iso(now)));
    } catch (cause) {
      // Whoever only reads goes on where nothing can be written.
      log.warning("when a token was used could not be kept", failureOf(cause));
    }
  }
}

/** What a principal may be at most, by its own role and its owner's; throws `token_revoked` when it or its owner may nothing. */
export async function roleNow(identities: IdentityStore, row: PrincipalRow): Promise<TenantRole> {
  if (row.is_disabled === 1) throw new Fault("token_revoked", "The principal is disabled");
  if (row.kind !== "agent" || row.owner_id === null) return row.role;
  const owner = await identities.principal(row.tenant_id, row.owner_id);
  if (owner === undefined || owner.is_disabled === 1) throw new Fault("token_revoked", "The agent's owner is gone");
  return lowerOf(TENANT_ROLES, row.role, owner.role);
}

/** The only form in which an API token is kept. */
export function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** The latest statement wins: a token's role counts unless the role was set, here or by a token, after it was issued. */
function setsRole(claims: Claims, row: PrincipalRow): boolean {
  if (claims.role === undefined || claims.role === row.role) return false;
  if (claims.iat === undefined) return false;
  return row.role_set_at === null || claims.iat * 1000 >= Date.parse(row.role_set_at);
}
