// Tokens of applications: codes are exchanged once, refresh tokens are rotated, and what is used a second time ends the grant.
import type { Actor } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { hashText, type Signer } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import { newSecret } from "@/core/id.ts";
import { logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { IdentityService, IssuedTokens } from "@/modules/identity/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { readAccessToken, signAccessToken } from "./access_token.ts";
import { OauthError } from "./error.ts";
import { type CodeRow, type GrantRow, OauthStore, type OauthTables } from "./store.ts";

const ACCESS_SECONDS = 900;
/** Programs of one person share a refresh token and use it at the same time: the previous one is valid for so long. */
const RETRY_MS = MINUTE_MS;
/** Longer than codes are valid, so that their reuse is noticed. */
const CODES_STORED_MS = DAY_MS;
/** `svcort_<key of the grant>.<secret>`: the key stays the same, the secret changes with each rotation. */
const REFRESH_TOKEN = /^(svcort_[A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{22,43})$/;
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;

type TokenResponse = {
  access_token: string;
  token_type: "Bearer";
  expires_in: number;
  refresh_token: string;
  scope: string;
};

type Tx = Transaction<OauthTables>;
type Form = Readonly<Record<string, string>>;
/** What a transaction leads to. A refusal commits as well, since it may end a grant. */
type Result = { grant: GrantRow; refreshToken: string; scopes: string } | OauthError;

type Deps = {
  store: Store<OauthTables>;
  clock: Clock;
  metrics: Pick<Metrics, "oauthGrants">;
  identity: IdentityService;
  issuedTokens: IssuedTokens;
  /** Signs access tokens. */
  access: Signer;
  /** Derives the next secret of a refresh token from the last one. */
  rotation: Signer;
  refreshDays: number;
};

const log = logOf("oauth");

export class GrantService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Exchanges an authorization code. */
  async exchange(form: Form): Promise<TokenResponse> {
    const hash = hashText(required(form, "code"));
    const verifier = required(form, "code_verifier");
    return await this.#respond("created", async (tx) => {
      const codes = new OauthStore(tx.db);
      const code = await codes.lockCode(hash);
      if (code === undefined) return refusal("The code is unknown");
      if (code.token_id !== null) {
        await this.#end(tx, { ...code, token_id: code.token_id }, "code reused");
        await codes.removeCode(hash);
        return refusal("The code was used before; what it was exchanged for is revoked");
      }
      const fault = this.#findFault(code, form, verifier);
      if (fault === undefined) return await this.#create(tx, code);
      // A code that was tried with something wrong may be stolen.
      await codes.removeCode(hash);
      return fault;
    });
  }

  /** Exchanges a refresh token for the next one. */
  async refresh(form: Form): Promise<TokenResponse> {
    const [, key, secret] = REFRESH_TOKEN.exec(required(form, "refresh_token")) ?? [];
    if (key === undefined || secret === undefined) {
      throw new OauthError("invalid_grant", "The refresh token is unknown");
    }
    return await this.#respond("refreshed", async (tx) => {
      const grants = new OauthStore(tx.db);
      const grant = await grants.lockGrant(hashText(key));
      if (grant === undefined) return refusal("The refresh token is unknown");
      const { tenant_id: tenantId, token_id: tokenId, principal_id: principalId } = grant;
      if (hashText(form.client_id ?? "") !== grant.client_hash) {
        return refusal("The grant was issued to another client");
      }
      const token = (await this.#deps.issuedTokens.find(tenantId, [tokenId], tx.db)).get(tokenId);
      const owner = (await this.#deps.identity.findEnabled(tenantId, [principalId], tx.db)).get(principalId);
      if (token === undefined || owner === undefined) return refusal("The authorization has ended");
      const fault = findResourceFault(form, grant.resource);
      if (fault !== undefined) return fault;
      const next = this.#deps.rotation.sign(`${tokenId} ${secret}`);
      const rotated = this.#rotate(grant, secret, next);
      if (rotated === undefined) {
        await this.#end(tx, grant, "refresh token reused");
        return refusal("The refresh token was used before; the authorization is revoked");
      }
      await grants.saveRotation(rotated);
      await this.#deps.issuedTokens.extend(tx, tenantId, tokenId, Date.parse(rotated.expires_at));
      return { grant: rotated, refreshToken: `${key}.${next}`, scopes: token.scopes };
    });
  }

  /** Ends the grant of a refresh token or an access token; any other text is ignored (RFC 7009). */
  async revoke(text: string): Promise<void> {
    const [, key] = REFRESH_TOKEN.exec(text) ?? [];
    const access = readAccessToken(this.#deps.access, text);
    if (key === undefined && access === undefined) return;
    await this.#deps.store.write(async (tx) => {
      const grants = new OauthStore(tx.db);
      const grant = key === undefined
        ? access && await grants.find(access.tenantId, access.tokenId)
        : await grants.lockGrant(hashText(key));
      if (grant !== undefined) await this.#end(tx, grant, "revoked by the application");
    });
  }

  /** The actor of an access token that is for this resource. */
  async authenticate(text: string, resource: string | undefined): Promise<Actor> {
    const token = readAccessToken(this.#deps.access, text);
    if (token === undefined) throw new Fault("unauthenticated", "The access token is not valid");
    const { aud, exp, tenantId, principalId, tokenId } = token;
    if (aud !== resource) throw new Fault("unauthenticated", "The access token is for another resource");
    if (exp <= this.#deps.clock.now()) throw new Fault("token_expired", "The access token has expired");
    const grant = await new OauthStore(this.#deps.store.db).find(tenantId, tokenId);
    if (grant === undefined) throw new Fault("token_revoked", "The authorization has ended");
    return await this.#deps.issuedTokens.actor({ tenantId, principalId, tokenId }, grant.role, exp);
  }

  async purgeExpired(): Promise<void> {
    const now = this.#deps.clock.now();
    await this.#deps.store.write((tx) => new OauthStore(tx.db).deleteExpired(iso(now - CODES_STORED_MS), iso(now)));
  }

  async #respond(outcome: "created" | "refreshed", work: (tx: Tx) => Promise<Result>): Promise<TokenResponse> {
    const result = await this.#deps.store.write(work);
    this.#deps.metrics.oauthGrants.inc({ outcome: result instanceof OauthError ? "refused" : outcome });
    if (result instanceof OauthError) throw result;
    const { grant, refreshToken, scopes } = result;
    return {
      access_token: signAccessToken(this.#deps.access, {
        tenantId: grant.tenant_id,
        principalId: grant.principal_id,
        tokenId: grant.token_id,
        aud: grant.resource,
        exp: this.#deps.clock.now() + ACCESS_SECONDS * 1000,
      }),
      token_type: "Bearer",
      expires_in: ACCESS_SECONDS,
      refresh_token: refreshToken,
      scope: scopes,
    };
  }

  #findFault(code: CodeRow, form: Form, verifier: string): OauthError | undefined {
    if (Date.parse(code.expires_at) <= this.#deps.clock.now()) return refusal("The code has expired");
    if (hashText(form.client_id ?? "") !== code.client_hash) return refusal("The grant was issued to another client");
    if (form.redirect_uri !== code.redirect_uri) {
      return refusal("The redirect_uri differs from that of the authorization");
    }
    if (!VERIFIER.test(verifier) || challengeOf(verifier) !== code.challenge) {
      return refusal("The code_verifier does not match");
    }
    return findResourceFault(form, code.resource);
  }

  async #create(tx: Tx, code: CodeRow): Promise<Result> {
    const { tenant_id: tenantId, principal_id: principalId, scopes } = code;
    const owner = (await this.#deps.identity.findEnabled(tenantId, [principalId], tx.db)).get(principalId);
    if (owner === undefined) return refusal("The principal is disabled");
    const expiresAt = this.#expiry();
    const name = code.client_name;
    const id = await this.#deps.issuedTokens.create(tx, {
      tenantId,
      principalId,
      name,
      scopes: scopes.split(" "),
      expiresAt,
    });
    const [key, secret] = [`svcort_${newSecret()}`, newSecret()];
    const grant: GrantRow = {
      tenant_id: tenantId,
      token_id: id,
      principal_id: principalId,
      role: code.role,
      client_hash: code.client_hash,
      client_host: code.client_host,
      resource: code.resource,
      key_hash: hashText(key),
      secret_hash: hashText(secret),
      previous_hash: null,
      rotated_at: null,
      expires_at: iso(expiresAt),
    };
    const grants = new OauthStore(tx.db);
    await grants.addGrant(grant);
    await grants.setTokenOfCode(code.hash, id);
    return { grant, refreshToken: `${key}.${secret}`, scopes };
  }

  /**
   * The grant after a use of this secret; `undefined` if it is not valid. The next secret is derived from it, so all who use the
   * previous one within the retry time get the same successor, and none of them invalidates another's.
   */
  #rotate(grant: GrantRow, secret: string, next: string): GrantRow | undefined {
    const now = this.#deps.clock.now();
    const hash = hashText(secret);
    if (hash === grant.secret_hash) {
      const expires_at = iso(this.#expiry());
      return { ...grant, secret_hash: hashText(next), previous_hash: hash, rotated_at: iso(now), expires_at };
    }
    const isRetry = hash === grant.previous_hash && hashText(next) === grant.secret_hash &&
      grant.rotated_at !== null && now - Date.parse(grant.rotated_at) <= RETRY_MS;
    return isRetry ? grant : undefined;
  }

  async #end(tx: Tx, row: Pick<GrantRow, "tenant_id" | "principal_id" | "token_id">, reason: string): Promise<void> {
    const { tenant_id: tenantId, principal_id: principalId, token_id: tokenId } = row;
    const grants = new OauthStore(tx.db);
    if (await grants.find(tenantId, tokenId) === undefined) return;
    await grants.removeGrant(tenantId, tokenId);
    await this.#deps.issuedTokens.end(tx, { tenantId, principalId, tokenId });
    log.info("authorization of an application ended", { tenant: tenantId, principal: principalId, tokenId, reason });
  }

  #expiry(): number {
    return this.#deps.clock.now() + this.#deps.refreshDays * DAY_MS;
  }
}

function refusal(message: string): OauthError {
  return new OauthError("invalid_grant", message);
}

function findResourceFault({ resource }: Form, granted: string): OauthError | undefined {
  if (resource === undefined || resource === granted) return undefined;
  return new OauthError("invalid_target", `Expected resource=${granted}`);
}

function required(form: Form, name: string): string {
  const value = form[name];
  if (value === undefined || value === "") throw new OauthError("invalid_request", `Expected ${name}`);
  return value;
}

/** The S256 challenge of a verifier (RFC 7636). */
function challengeOf(verifier: string): string {
  return hashText(verifier, "base64url");
}
