// Credentials that another module issues, such as the authorization of an application. Each has a row beside the API tokens,
// so that lists, revocation and the check of every write treat all of them alike.
import type { Actor, TenantRole } from "@/core/actor.ts";
import { type Clock, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId, newSecret } from "@/core/id.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import type { Authenticator } from "./authenticator.ts";
import { lockCredential, publishTokenRevoked, tokenLock } from "./credential_guard.ts";
import { TOKENS_MAX } from "./principal_rules.ts";
import { IdentityStore, type IdentityTables, type TokenRow } from "./store.ts";

const LAST_USED_PRECISION_MS = MINUTE_MS;

type IssuedToken = Pick<TokenRow, "id" | "name" | "scopes" | "created_at" | "expires_at" | "last_used_at">;
type TokenRef = { tenantId: string; principalId: string; tokenId: string };
type Tx = Transaction<IdentityTables>;
type Deps = { store: Store<IdentityTables>; clock: Clock; authenticator: Authenticator };

const log = logOf("identity");

export class IssuedTokens {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates the credential within the caller's transaction, and returns its id. The issuer hands out its own secrets for it. */
  async create(
    tx: Tx,
    { tenantId, principalId, name, scopes, expiresAt }: Omit<TokenRef, "tokenId"> & {
      name: string;
      scopes: readonly string[];
      expiresAt: number;
    },
  ): Promise<string> {
    const identities = new IdentityStore(tx.db);
    // Locks the principal: concurrent creations must not exceed the limit together.
    await tx.lock(tenantId, principalStream(principalId));
    const now = iso(this.#deps.clock.now());
    const existing = await identities.tokens(tenantId, principalId, now, undefined, TOKENS_MAX);
    if (existing.length >= TOKENS_MAX) throw new Fault("limit_reached", `A principal has at most ${TOKENS_MAX} tokens`);
    const id = newId("tok");
    await identities.addToken({
      tenant_id: tenantId,
      id,
      principal_id: principalId,
      name,
      // The hash of a secret that nobody has: only the issuer's own secrets are accepted.
      hash: hashText(newSecret()),
      scopes: scopes.join(" "),
      created_by: principalId,
      created_at: now,
      expires_at: iso(expiresAt),
      last_used_at: null,
    });
    return id;
  }

  /** Those that exist and have not expired, by id. */
  async find(tenantId: string, ids: readonly string[], db?: AnyDatabase): Promise<ReadonlyMap<string, IssuedToken>> {
    if (ids.length === 0) return new Map();
    const now = iso(this.#deps.clock.now());
    const rows = await new IdentityStore(db ?? this.#deps.store.db).tokensByIds(tenantId, ids, now);
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** Sets another expiry. The token must have been found in the same transaction. */
  async extend(tx: Tx, tenantId: string, id: string, expiresAt: number): Promise<void> {
    await new IdentityStore(tx.db).extendToken(tenantId, id, iso(expiresAt));
  }

  /** Ends the credential; without an actor, the gateway does so. */
  async end(tx: Tx, { tenantId, principalId, tokenId }: TokenRef, actor?: Actor): Promise<void> {
    await lockCredential(tx, this.#deps.store, tokenLock(tenantId, tokenId));
    await new IdentityStore(tx.db).removeToken(tenantId, tokenId);
    await publishTokenRevoked(tx, { tenantId, principalId, tokenId }, actor);
  }

  /** The actor of the credential with at most this role, until `expiresAt`; throws `token_revoked` if it has ended. */
  async actor({ tenantId, principalId, tokenId }: TokenRef, role: TenantRole, expiresAt: number): Promise<Actor> {
    const row = (await this.find(tenantId, [tokenId])).get(tokenId);
    const scopes = new Set(row?.scopes.split(" "));
    const actor = row && await this.#deps.authenticator.revalidate({
      tenantId,
      principalId,
      role,
      scopes,
      tokenId,
      expiresAt,
    });
    if (row === undefined || actor === undefined) throw new Fault("token_revoked", "The authorization has ended");
    await this.#markUsed(tenantId, row);
    return actor;
  }

  async #markUsed(tenantId: string, row: IssuedToken): Promise<void> {
    const now = this.#deps.clock.now();
    if (row.last_used_at !== null && now - Date.parse(row.last_used_at) < LAST_USED_PRECISION_MS) return;
    try {
      await this.#deps.store.write((tx) => new IdentityStore(tx.db).markUsed(tenantId, row.id, iso(now)));
    } catch (cause) {
      // Reading must work where writing fails.
      log.warn("updating the last use of a token failed", failureOf(cause));
    }
  }
}
