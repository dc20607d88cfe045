// Principals of other modules, such as those of plugins: created, limited, enabled and ended in the transactions of their owners.
import type { Actor } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { API_TOKEN_PREFIX } from "./authenticator.ts";
import { lockCredential, principalLock, publishTokenRevoked } from "./credential_guard.ts";
import { changesOf, publishChange } from "./principal_change.ts";
import { IdentityStore, type IdentityTables, newPrincipal } from "./store.ts";

const TOKEN_DAYS = 365;

type Deps = {
  store: Store<IdentityTables>;
  clock: Clock;
  jobsOf: (change: "disabled" | "token_ended", tenantId: string, id: string) => readonly JobDraft[];
};
/** What may change: `scopes` bound every token of the principal. */
type ServiceChange = { displayName?: string; scopes?: readonly string[]; isEnabled?: boolean };

export class ServicePrincipals {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates a service principal that is disabled and may do nothing; one that ended before is used again. */
  async create(tx: AnyTransaction, tenantId: string, id: string, displayName: string): Promise<void> {
    const identities = new IdentityStore(tx.db);
    const at = iso(this.#deps.clock.now());
    const row = newPrincipal(at, {
      tenant_id: tenantId,
      id,
      kind: "service",
      display_name: displayName,
      role: "member",
    });
    if (await identities.addPrincipal({ ...row, scope_limit: "", is_disabled: 1 })) return;
    const existing = await identities.principal(tenantId, id);
    // One that a token created before has other rights, and maybe tokens.
    if (existing?.kind !== "service" || existing.scope_limit === null) {
      throw new Fault("conflict", `The principal ${id} already exists`);
    }
    await this.change(tx, tenantId, id, { displayName, scopes: [], isEnabled: false });
  }

  /** Changes it. Disabling ends its connections, and its writes that have not been committed. */
  async change(tx: AnyTransaction, tenantId: string, id: string, change: ServiceChange, actor?: Actor): Promise<void> {
    const { store, clock } = this.#deps;
    const identities = new IdentityStore(tx.db);
    await lockCredential(tx, store, principalLock(tenantId, id));
    await tx.lock(tenantId, principalStream(id));
    const before = await identities.principal(tenantId, id);
    if (before === undefined) throw new Error("Expected the principal of the service, received none");
    const { displayName = before.display_name, scopes = before.scope_limit?.split(" ") ?? [] } = change;
    const isDisabled = change.isEnabled === undefined ? before.is_disabled : change.isEnabled ? 0 : 1;
    const set = {
      display_name: displayName,
      scope_limit: scopes.join(" "),
      is_disabled: isDisabled,
      version: before.version + 1,
      updated_at: iso(clock.now()),
    };
    await identities.updatePrincipal(tenantId, id, set);
    const after = { ...before, ...set };
    await publishChange(tx, { before, after }, clock.now(), actor);
    if (changesOf(before, after).includes("disabled")) await tx.enqueue(...this.#deps.jobsOf("disabled", tenantId, id));
  }

  /** A new token, whose scopes are those of the principal at any time; shown once. */
  async createToken(tx: AnyTransaction, tenantId: string, id: string, createdBy: string): Promise<string> {
    const now = this.#deps.clock.now();
    const secret = `${API_TOKEN_PREFIX}${newSecret()}`;
    await new IdentityStore(tx.db).addToken({
      tenant_id: tenantId,
      id: newId("tok"),
      principal_id: id,
      name: id,
      hash: hashText(secret),
      scopes: "*",
      created_by: createdBy,
      created_at: iso(now),
      expires_at: iso(now + TOKEN_DAYS * DAY_MS),
      last_used_at: null,
    });
    return secret;
  }

  /** Disables it, revokes its tokens and takes all scopes; what it wrote stays. */
  async end(tx: AnyTransaction, tenantId: string, id: string, actor: Actor): Promise<void> {
    await this.change(tx, tenantId, id, { scopes: [], isEnabled: false }, actor);
    for (const tokenId of await new IdentityStore(tx.db).removeTokens(tenantId, id)) {
      await publishTokenRevoked(tx, { tenantId, principalId: id, tokenId }, actor);
      await tx.enqueue(...this.#deps.jobsOf("token_ended", tenantId, tokenId));
    }
  }
}
