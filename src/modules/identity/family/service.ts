// Token families: a log-in that lives on by refresh tokens, of which each is good once and exactly one at any time.
import type { TenantRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newSecret } from "@/core/id.ts";
import { logOf } from "@/core/log.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { hashOf, roleNow } from "../authenticator.ts";
import { type FamilyRow, IdentityStore, type IdentityTables, type TokenRow } from "../store.ts";
import { tellTokenEnded } from "../token_end.ts";
import type { Refreshed } from "./schema.ts";
import type { AccessTokenSigner } from "./signer.ts";
import { FamilyStore } from "./store.ts";

/**
 * A refresh token is `svcrt_<line>.<secret>`. The line is the family's for life, the secret changes with every rotation. Who
 * knows the line held a token of the family at some time, so a secret with it that is not the current one is an old one: reuse
 * is found without keeping the tokens of a month. Neither part is kept but as a hash.
 */
const FORM = /^(svcrt_[A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})$/;

/**
 * An answer may be lost on its way, and then the client has only the token it has just spent. So a rotation may be repeated
 * for a moment, as long as the successor has not been used; the repetition makes another successor in its place.
 *
 * That is safe because there is never more than one refresh token that works. A thief who repeats a rotation of which the
 * owner got the answer leaves the owner with a successor that is spent, and when the owner comes with it the family ends: the
 * same as if the thief had come first. Once the successor has been used the answer was not lost, and only a thief, or an owner
 * whose line was taken over, would come with the token before it: the family ends at once, whatever the time.
 */
const REPEAT_MS = 30_000;
const DAY_MS = 86_400_000;

type Deps = { store: Store<IdentityTables>; clock: Clock; signer: AccessTokenSigner; refreshDays: number };

/** What a family is made with besides its row among the tokens. */
export type FamilyTerms = { role: TenantRole; accessSeconds: number };

/** A family as a rotation leaves it, and the one refresh token that is good now. */
export type Turn = { token: TokenRow; family: FamilyRow; refreshToken: string };

const log = logOf("identity");

export class FamilyService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Begins a family; part of the caller's transaction. */
  async begin(
    tx: Transaction<IdentityTables>,
    draft: Omit<TokenRow, "hash" | "expires_at">,
    { role, accessSeconds }: FamilyTerms,
  ): Promise<Turn> {
    const line = `svcrt_${newSecret()}`;
    const secret = newSecret();
    const token = { ...draft, hash: hashOf(line), expires_at: this.#refreshExpiry() };
    const family: FamilyRow = {
      tenant_id: draft.tenant_id,
      token_id: draft.id,
      role,
      access_seconds: accessSeconds,
      access_expires_at: this.#accessExpiry(accessSeconds),
      hash: hashOf(secret),
      spent_hash: null,
      spent_at: null,
    };
    await new IdentityStore(tx.db).addToken(token);
    await new FamilyStore(tx.db).add(family);
    return { token, family, refreshToken: `${line}.${secret}` };
  }

  /**
   * Changes a refresh token for a new one and an access token. Throws `unauthenticated`, `token_expired` or `token_revoked`,
   * and what `assertOrigin` throws of the family's tenant.
   */
  async refresh(refreshToken: string, assertOrigin: (tenantId: string) => void): Promise<Refreshed> {
    const [, line, secret] = FORM.exec(refreshToken) ?? [];
    if (line === undefined || secret === undefined) throw unknown();
    const known = await new IdentityStore(this.#deps.store.db).tokenByHash(hashOf(line));
    if (known === undefined) throw unknown();
    assertOrigin(known.tenant_id);
    const turn = await this.#deps.store.write((tx) => this.#turn(tx, line, secret));
    if (turn === undefined) {
      log.warn("a refresh token was used again, so its family ended", {
        tenant: known.tenant_id,
        principal: known.principal_id,
        token: known.id,
      });
      throw new Fault("token_revoked", "The refresh token was used before; all tokens of its family have ended");
    }
    return {
      accessToken: await this.accessToken(turn),
      refreshToken: turn.refreshToken,
      expiresAt: turn.family.access_expires_at,
      refreshExpiresAt: turn.token.expires_at,
    };
  }

  /** The access token that goes with a refresh token. */
  async accessToken({ token, family }: Turn): Promise<string> {
    const until = Date.parse(family.access_expires_at) / 1000;
    return await this.#deps.signer.sign(token, until - family.access_seconds, until);
  }

  /** The family one rotation on; `undefined` when the token was an old one and the family has ended for it. */
  async #turn(tx: Transaction<IdentityTables>, line: string, secret: string): Promise<Turn | undefined> {
    const families = new FamilyStore(tx.db);
    const now = this.#deps.clock.now();
    // Rotations of one family take turns from here on: what is read next is what this one builds on.
    const token = await families.hold(hashOf(line), iso(now));
    const family = token && await families.find(token.tenant_id, token.id);
    if (token === undefined || family === undefined) throw unknown();
    const spent = hashOf(secret);
    const isCurrent = spent === family.hash;
    if (!isCurrent && !isRepeatable(family, spent, now)) {
      await new IdentityStore(tx.db).removeToken(token.tenant_id, token.id);
      const { tenant_id: tenantId, principal_id: principalId, id: tokenId } = token;
      await tellTokenEnded(tx, { tenantId, principalId, tokenId });
      return undefined;
    }
    if (Date.parse(token.expires_at) <= now) throw new Fault("token_expired", "The refresh token has expired");
    await this.#assertStands(tx, token);
    const next = newSecret();
    const turned: FamilyRow = {
      ...family,
      access_expires_at: this.#accessExpiry(family.access_seconds),
      hash: hashOf(next),
      // A repetition counts from the first time, so that it cannot go on and on.
      ...(isCurrent ? { spent_hash: spent, spent_at: iso(now) } : {}),
    };
    const expires_at = this.#refreshExpiry();
    await families.turn(turned, expires_at);
    return { token: { ...token, expires_at }, family: turned, refreshToken: `${line}.${next}` };
  }

  /** Whoever is disabled gets no new tokens, nor does an agent whose owner is. */
  async #assertStands(tx: Transaction<IdentityTables>, { tenant_id, principal_id }: TokenRow): Promise<void> {
    const identities = new IdentityStore(tx.db);
    const principal = await identities.principal(tenant_id, principal_id);
    if (principal === undefined) throw unknown();
    await roleNow(identities, principal);
  }

  #refreshExpiry(): string {
    return iso(this.#deps.clock.now() + this.#deps.refreshDays * DAY_MS);
  }

  /** In whole seconds, as claims are. */
  #accessExpiry(seconds: number): string {
    return iso((Math.floor(this.#deps.clock.now() / 1000) + seconds) * 1000);
  }
}

function isRepeatable({ spent_hash, spent_at }: FamilyRow, spent: string, now: number): boolean {
  return spent === spent_hash && spent_at !== null && now - Date.parse(spent_at) <= REPEAT_MS;
}

function unknown(): Fault {
  return new Fault("unauthenticated", "The refresh token is not known or was revoked");
}
