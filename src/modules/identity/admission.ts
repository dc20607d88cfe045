// Admission to a tenant without a token: a principal, new or known, and its first API token.
import type { TenantRole } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { principalStream } from "@/core/event/event.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { TenantService } from "@/modules/tenant/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { API_TOKEN_PREFIX, effectiveTenantRole } from "./authenticator.ts";
import { lockCredential, publishTokenRevoked, tokenLock } from "./credential_guard.ts";
import { addWithHandle } from "./handle.ts";
import { presentPrincipal, presentToken } from "./presenter.ts";
import { roleSetAt } from "./principal_change.ts";
import { nameSetByApi } from "./principal_settings.ts";
import type { NewToken, Principal } from "./schema.ts";
import { IdentityStore, type IdentityTables, newPrincipal, type PrincipalRow } from "./store.ts";

type Tx = Transaction<IdentityTables>;
type Deps = { store: Store<IdentityTables>; clock: Clock; tenants: TenantService };
type Candidate = {
  tenantId: string;
  /** A principal with this id, created if there is none; null: a new one. */
  principalId: string | null;
  role: TenantRole;
  displayName: string;
  /** How long the session may last; default `SESSION_DAYS`. */
  sessionMs?: number | undefined;
};

const SESSION_DAYS = 30;
/** Sessions of one principal that are started by codes; the oldest ends when there is one more. */
const SESSIONS_MAX = 20;
const TOKENS_MAX = 100;
const TOKEN_NAME = "browser";

export class Admission {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Admits a candidate; part of the caller's transaction. Throws `token_revoked` if the principal is disabled. */
  async admit(tx: Tx, candidate: Candidate): Promise<NewToken & { principal: Principal }> {
    const { clock, tenants } = this.#deps;
    await tenants.ensure(tx, candidate.tenantId);
    const identities = new IdentityStore(tx.db);
    const id = candidate.principalId ?? newId("prn");
    await tx.lock(candidate.tenantId, principalStream(id));
    const known = await identities.principal(candidate.tenantId, id);
    const principal = known ?? await this.#create(tx, candidate, id);
    await effectiveTenantRole(identities, principal);
    await this.#endOldest(tx, principal);
    const now = clock.now();
    const secret = `${API_TOKEN_PREFIX}${newSecret()}`;
    const row = {
      tenant_id: principal.tenant_id,
      id: newId("tok"),
      principal_id: id,
      name: TOKEN_NAME,
      hash: hashText(secret),
      scopes: "*",
      created_by: id,
      created_at: iso(now),
      expires_at: iso(now + (candidate.sessionMs ?? SESSION_DAYS * DAY_MS)),
      last_used_at: null,
    };
    await identities.addToken(row);
    return {
      ...presentToken({ ...row, access_expires_at: null }),
      token: secret,
      principal: presentPrincipal(principal, now),
    };
  }

  async #create(tx: Tx, { tenantId, role, displayName }: Candidate, id: string): Promise<PrincipalRow> {
    const identities = new IdentityStore(tx.db);
    const row = newPrincipal(iso(this.#deps.clock.now()), {
      tenant_id: tenantId,
      id,
      kind: "human",
      role,
      role_set_at: roleSetAt(this.#deps.clock),
      ...nameSetByApi({ prefs_json: "{}" }, displayName),
      display_name: displayName,
    });
    const added = await addWithHandle(tx, row, displayName) ?? await identities.principal(tenantId, id);
    if (added === undefined) throw new Error("Expected the principal just written, received none");
    return added;
  }

  /** Codes can be used again and again, so sessions they started must not pile up. */
  async #endOldest(tx: Tx, { tenant_id, id }: PrincipalRow): Promise<void> {
    const identities = new IdentityStore(tx.db);
    const now = iso(this.#deps.clock.now());
    const sessions = (await identities.tokens(tenant_id, id, now, undefined, TOKENS_MAX))
      .filter(({ name }) => name === TOKEN_NAME);
    const [oldest] = sessions;
    if (oldest === undefined || sessions.length < SESSIONS_MAX) return;
    await lockCredential(tx, this.#deps.store, tokenLock(tenant_id, oldest.id));
    await identities.removeToken(tenant_id, oldest.id);
    await publishTokenRevoked(tx, { tenantId: tenant_id, principalId: id, tokenId: oldest.id });
  }
}
