// The principal of a person that is erased: disabled, replaced by a pseudonym, then removed.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { DELETED_NAME, type PrincipalErasure } from "@/core/erasure.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import type { JobDraft } from "@/core/job.ts";
import type { PrincipalChange } from "@/core/module.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { lockCredential, principalLock } from "./credential_guard.ts";
import { digestOfErased } from "./erased_token.ts";
import { publishChange } from "./principal_change.ts";
import { canManage, principalNotFound } from "./principal_rules.ts";
import type { PrincipalVisibility } from "./principal_visibility.ts";
import type { IdentityService } from "./service.ts";
import { IdentityStore, type IdentityTables, newPrincipal, principalChanged } from "./store.ts";

type Deps = {
  store: Store<IdentityTables>;
  clock: Clock;
  identity: Pick<IdentityService, "update">;
  visibility: PrincipalVisibility;
  /** Jobs of other modules, enqueued with the change. */
  jobsOf: (change: PrincipalChange, tenantId: string, id: string) => readonly JobDraft[];
};

export const IDENTITY_ERASURE: PrincipalErasure = {
  principal: {
    key: ["tenant_id", "id"],
    renames: ["owner_id"],
    keeps: {
      id: "the row is removed when all else is done: until then, what is shown of the person elsewhere joins it",
      ...Object.fromEntries(
        [
          ...["handle", "display_name", "external_id", "avatar_file_id", "timezone", "locale"],
          ...["status_text", "status_emoji", "prefs_json", "scope_limit"],
        ].map((column) => [column, "removed with the row"]),
      ),
    },
  },
  api_token: {
    key: ["id"],
    deletes: ["principal_id"],
    renames: ["created_by"],
    keeps: { name: "its principal's, and deleted with it" },
  },
  erased_principal: {
    key: ["tenant_id", "hash"],
    keeps: { hash: "a digest of the id, so that tokens issued before are refused" },
  },
};

export class ErasedPrincipals {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Throws unless the actor may erase the person; resolves to whether that is enabled. */
  async assertMayErase(tx: AnyTransaction, actor: Actor, id: string): Promise<boolean> {
    const row = await this.#deps.visibility.find(actor, id, tx.db);
    if (row === undefined) throw principalNotFound(id);
    if (row.kind !== "human") {
      throw invalidField("/principalId", "only people are erased; agents and services are disabled");
    }
    if (actor.kind === "agent") throw new Fault("forbidden", "Agents cannot erase people");
    if (!canManage(actor, row)) {
      throw new Fault("forbidden", "Erasing others requires the tenant role admin and a role above theirs, or owner");
    }
    return row.is_disabled === 0;
  }

  /** Ends its tokens and connections, or enables it again. One owner of the tenant must remain. */
  async setDisabled(actor: Actor, id: string, disabled: boolean): Promise<void> {
    await this.#deps.identity.update(actor, { id, disabled });
  }

  /** Disables the person now if somebody has enabled it meanwhile. */
  async ensureDisabled(tx: AnyTransaction, tenantId: string, id: string): Promise<void> {
    const { store, clock } = this.#deps;
    const now = clock.now();
    await lockCredential(tx, store, principalLock(tenantId, id));
    await tx.lock(tenantId, principalStream(id));
    const identities = new IdentityStore(tx.db);
    const before = await identities.principal(tenantId, id);
    if (before === undefined) throw principalNotFound(id);
    if (before.is_disabled === 1) return;
    const after = { ...before, is_disabled: 1, version: before.version + 1, updated_at: iso(now) };
    await identities.updatePrincipal(tenantId, id, after);
    await publishChange(tx, { before, after }, now, undefined);
    await tx.enqueue(...this.#deps.jobsOf("disabled", tenantId, id));
  }

  /** Adds the principal that replaces a person. */
  async addPseudonym(tx: AnyTransaction, tenantId: string): Promise<string> {
    const identities = new IdentityStore(tx.db);
    for (let n = 1 + await identities.countErased(tenantId);; n++) {
      const pseudonym = { tenant_id: tenantId, id: `erased-${n}`, display_name: DELETED_NAME, is_disabled: 1 };
      const row = newPrincipal(iso(this.#deps.clock.now()), { ...pseudonym, kind: "human", role: "guest" });
      if (await identities.addPrincipal(row)) return row.id;
    }
  }

  async displayName(tenantId: string, id: string): Promise<string | undefined> {
    return (await new IdentityStore(this.#deps.store.db).principal(tenantId, id))?.display_name;
  }

  /** Removes the principal. What remains is a digest of its id, by which tokens of before are recognized. */
  async finish(tx: AnyTransaction, tenantId: string, id: string): Promise<void> {
    const identities = new IdentityStore(tx.db);
    await identities.removePrincipal(tenantId, id);
    // Its picture is no longer shown anywhere.
    await tx.enqueue(...this.#deps.jobsOf("picture", tenantId, id));
    await identities.addErased(tenantId, digestOfErased(tenantId, id), iso(this.#deps.clock.now()));
    tx.signal(principalChanged.create(tenantId, id));
  }
}
