// Token families: a session that continues by refresh tokens. Each can be used once, and one is valid at any time.
import type { TenantRole } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import { newSecret } from "@/core/id.ts";
import { logOf } from "@/core/log.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { effectiveTenantRole } from "../authenticator.ts";
import { IdentityStore, type IdentityTables, type TokenFamilyRow, type TokenRow } from "../store.ts";
import { lockCredential, publishTokenRevoked, tokenLock } from "../credential_guard.ts";
import type { Refreshed } from "../schema.ts";
import type { AccessTokenSigner } from "./signer.ts";
import { RefreshTokenStore } from "./store.ts";

/**
 * A refresh token is `svcrt_<family key>.<secret>`. The key stays the same, the secret changes with every rotation. Only a
 * holder of a token of the family knows the key, so a key with another secret is an old token: reuse is detected without
 * storing old tokens. Both parts are stored as hashes only.
 */
const REFRESH_TOKEN_PATTERN = /^(svcrt_[A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})$/;

/**
 * A response may be lost; then the client has only the token it has just used. So a rotation may be repeated for a short
 * time while its successor is unused; the repetition replaces the successor.
 *
 * That is safe because at most one refresh token is valid. If a thief repeats a rotation, the owner's successor becomes
 * invalid, and the family ends when the owner uses it: the same as if the thief had been first. Once the successor has been
 * used, the response was not lost, so a use of the token before it is a theft: the family ends at once.
 */
const RETRY_WINDOW_MS = 30_000;

type Deps = { store: Store<IdentityTables>; clock: Clock; signer: AccessTokenSigner; refreshDays: number };

/** The terms of a family besides its row in the table of tokens. */
type TokenFamilyTerms = { role: TenantRole; accessSeconds: number };

/** A family after a rotation, and its valid refresh token. */
export type Rotation = { token: TokenRow; family: TokenFamilyRow; refreshToken: string };

const log = logOf("identity");

export class RefreshTokenService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates a family; part of the caller's transaction. */
  async createFamily(
    tx: Transaction<IdentityTables>,
    draft: Omit<TokenRow, "hash" | "expires_at">,
    { role, accessSeconds }: TokenFamilyTerms,
  ): Promise<Rotation> {
    const familyKey = `svcrt_${newSecret()}`;
    const secret = newSecret();
    const token = { ...draft, hash: hashText(familyKey), expires_at: this.#refreshExpiry() };
    const family: TokenFamilyRow = {
      tenant_id: draft.tenant_id,
      token_id: draft.id,
      role,
      access_seconds: accessSeconds,
      access_expires_at: this.#accessExpiry(accessSeconds),
      hash: hashText(secret),
      previous_hash: null,
      rotated_at: null,
    };
    await new IdentityStore(tx.db).addToken(token);
    await new RefreshTokenStore(tx.db).add(family);
    return { token, family, refreshToken: `${familyKey}.${secret}` };
  }

  /**
   * Exchanges a refresh token for a new one and an access token. Throws `unauthenticated`, `token_expired` or `token_revoked`,
   * and what `assertOrigin` throws of the family's tenant.
   */
  async refresh(refreshToken: string, assertOrigin: (tenantId: string) => void): Promise<Refreshed> {
    const [, familyKey, secret] = REFRESH_TOKEN_PATTERN.exec(refreshToken) ?? [];
    if (familyKey === undefined || secret === undefined) throw unknownToken();
    const token = await new IdentityStore(this.#deps.store.db).tokenByHash(hashText(familyKey));
    if (token === undefined) throw unknownToken();
    assertOrigin(token.tenant_id);
    const rotation = await this.#deps.store.write((tx) => this.#rotate(tx, familyKey, secret));
    if (rotation === undefined) {
      log.warn("refresh token reused; token family revoked", {
        tenant: token.tenant_id,
        principal: token.principal_id,
        token: token.id,
      });
      throw new Fault(
        "token_revoked",
        "The refresh token was already used; all tokens of its family have been revoked",
      );
    }
    return {
      accessToken: await this.accessToken(rotation),
      refreshToken: rotation.refreshToken,
      expiresAt: rotation.family.access_expires_at,
      refreshExpiresAt: rotation.token.expires_at,
    };
  }

  /** The access token of a rotation. */
  async accessToken({ token, family }: Rotation): Promise<string> {
    const until = Date.parse(family.access_expires_at) / 1000;
    return await this.#deps.signer.sign(token, until - family.access_seconds, until);
  }

  /** Rotates the family; `undefined` if the token was reused, which revokes the family. */
  async #rotate(tx: Transaction<IdentityTables>, familyKey: string, secret: string): Promise<Rotation | undefined> {
    const families = new RefreshTokenStore(tx.db);
    const now = this.#deps.clock.now();
    // Locks the family: what is read next stays the current rotation until the commit.
    const token = await families.lockByHash(hashText(familyKey), iso(now));
    const family = token && await families.find(token.tenant_id, token.id);
    if (token === undefined || family === undefined) throw unknownToken();
    const hash = hashText(secret);
    const isCurrent = hash === family.hash;
    if (!isCurrent && !isRetry(family, hash, now)) {
      await lockCredential(tx, this.#deps.store, tokenLock(token.tenant_id, token.id));
      await new IdentityStore(tx.db).removeToken(token.tenant_id, token.id);
      const { tenant_id: tenantId, principal_id: principalId, id: tokenId } = token;
      await publishTokenRevoked(tx, { tenantId, principalId, tokenId });
      return undefined;
    }
    if (Date.parse(token.expires_at) <= now) throw new Fault("token_expired", "The refresh token has expired");
    await this.#assertEnabled(tx, token);
    const next = newSecret();
    const rotated: TokenFamilyRow = {
      ...family,
      access_expires_at: this.#accessExpiry(family.access_seconds),
      hash: hashText(next),
      // Retries are timed from the first rotation, so that they cannot extend the window.
      ...(isCurrent ? { previous_hash: hash, rotated_at: iso(now) } : {}),
    };
    const expires_at = this.#refreshExpiry();
    await families.saveRotation(rotated, expires_at);
    return { token: { ...token, expires_at }, family: rotated, refreshToken: `${familyKey}.${next}` };
  }

  /** Disabled principals, and agents of disabled owners, get no new tokens. */
  async #assertEnabled(tx: Transaction<IdentityTables>, { tenant_id, principal_id }: TokenRow): Promise<void> {
    const identities = new IdentityStore(tx.db);
    const principal = await identities.principal(tenant_id, principal_id);
    if (principal === undefined) throw unknownToken();
    await effectiveTenantRole(identities, principal);
  }

  #refreshExpiry(): string {
    return iso(this.#deps.clock.now() + this.#deps.refreshDays * DAY_MS);
  }

  /** In whole seconds, like claims. */
  #accessExpiry(seconds: number): string {
    return iso((Math.floor(this.#deps.clock.now() / 1000) + seconds) * 1000);
  }
}

function isRetry({ previous_hash, rotated_at }: TokenFamilyRow, hash: string, now: number): boolean {
  return hash === previous_hash && rotated_at !== null && now - Date.parse(rotated_at) <= RETRY_WINDOW_MS;
}

function unknownToken(): Fault {
  return new Fault("unauthenticated", "The refresh token is unknown or was revoked");
}
