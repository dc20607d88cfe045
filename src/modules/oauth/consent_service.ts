// Decisions of people: what an application asks for, and what it was granted.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { Fault, invalidField, notFound } from "@/core/fault.ts";
import { newSecret } from "@/core/id.ts";
import { coversScope, type IssuedTokens } from "@/modules/identity/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type AuthorizationRequest, type AuthorizationRequests, redirectWith } from "./authorization_request.ts";
import { redirectHost } from "./redirect_uri.ts";
import type { OauthApplication, OauthClient, OauthDecision, OauthRequest } from "./schema.ts";
import { OauthStore, type OauthTables } from "./store.ts";

const CODE_MS = MINUTE_MS;
/** Decisions of one person within the lifetime of a code. */
const CODES_MAX = 10;

type Deps = { store: Store<OauthTables>; clock: Clock; requests: AuthorizationRequests; issuedTokens: IssuedTokens };

export class ConsentService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  read(actor: Actor, id: string): OauthRequest {
    const request = this.#require(actor, id);
    return {
      ...clientOf(request),
      scopes: request.scopes.filter((scope) => coversScope(actor, scope)),
      expiresAt: iso(request.expiresAt),
    };
  }

  /** Where the browser must go next: back to the application, with a code or an error. */
  async decide(actor: Actor, { id, decision, scopes }: OauthDecision): Promise<string> {
    const request = this.#require(actor, id);
    if (decision === "deny") {
      return redirectWith(request, { error: "access_denied", error_description: "The person refused" });
    }
    const granted = scopes ?? request.scopes.filter((scope) => coversScope(actor, scope));
    const excess = granted.find((scope) => !request.scopes.includes(scope));
    if (excess !== undefined) throw invalidField("/scopes", "expected only scopes that were asked for");
    const missing = granted.find((scope) => !coversScope(actor, scope));
    if (missing !== undefined || granted.length === 0) {
      throw new Fault("scope_missing", `The caller's token lacks the scope ${missing ?? request.scopes[0]}`);
    }
    return redirectWith(request, { code: await this.#createCode(actor, request, granted) });
  }

  /** The applications that may act for the caller. */
  async applications({ tenantId, principalId }: Actor): Promise<OauthApplication[]> {
    const grants = await new OauthStore(this.#deps.store.db).list(tenantId, principalId);
    const tokens = await this.#deps.issuedTokens.find(tenantId, grants.map((grant) => grant.token_id));
    return grants.flatMap((grant) => {
      const token = tokens.get(grant.token_id);
      return token === undefined ? [] : [{
        id: token.id,
        clientName: token.name,
        clientHost: grant.client_host,
        scopes: token.scopes.split(" "),
        createdAt: token.created_at,
        expiresAt: token.expires_at,
        lastUsedAt: token.last_used_at,
      }];
    });
  }

  revoke(actor: Actor, id: string): Promise<void> {
    const { tenantId, principalId } = actor;
    return this.#deps.store.write(async (tx) => {
      const grants = new OauthStore(tx.db);
      const grant = await grants.find(tenantId, id);
      if (grant?.principal_id !== principalId) throw notFound("application");
      await grants.removeGrant(tenantId, id);
      await this.#deps.issuedTokens.end(tx, { tenantId, principalId, tokenId: id }, actor);
    });
  }

  #require(actor: Actor, id: string): AuthorizationRequest {
    // What programs may do is decided by people, with tokens of their own.
    if (actor.kind !== "human") throw new Fault("forbidden", "Only people decide what an application may do");
    return this.#deps.requests.require(id);
  }

  async #createCode(actor: Actor, request: AuthorizationRequest, scopes: readonly string[]): Promise<string> {
    const { tenantId, principalId, role } = actor;
    const code = newSecret();
    await this.#deps.store.write(async (tx) => {
      const codes = new OauthStore(tx.db);
      const now = this.#deps.clock.now();
      if (await codes.countCodes(tenantId, principalId, iso(now)) >= CODES_MAX) {
        throw new Fault("limit_reached", `At most ${CODES_MAX} applications can be authorized in a minute`);
      }
      await codes.addCode({
        tenant_id: tenantId,
        hash: hashText(code),
        principal_id: principalId,
        role,
        client_hash: request.clientHash,
        client_name: request.clientName,
        client_host: request.clientHost,
        redirect_uri: request.redirectUri,
        challenge: request.challenge,
        scopes: scopes.join(" "),
        resource: request.resource,
        expires_at: iso(now + CODE_MS),
        token_id: null,
      });
    });
    return code;
  }
}

/** Who asks, as people see it. */
export function clientOf({ clientName, clientHost, redirectUri }: AuthorizationRequest): OauthClient {
  return { clientName, clientHost, redirectHost: redirectHost(redirectUri) };
}
