// Revalidates credentials inside writes. Revoking a token or disabling a principal locks the credential exclusively, so it
// commits before a write of that caller, or after it.
import { type Actor, isAtLeast, lowerOf, TENANT_ROLES } from "@/core/actor.ts";
import { currentCaller } from "@/core/caller.ts";
import type { Clock } from "@/core/time/clock.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import { isStoredTokenId } from "./refresh_tokens/signer.ts";
import { type IdentityTables, principalChanged } from "./store.ts";
import { type CredentialKey, type CredentialRow, CredentialStore } from "./credential_store.ts";

type Caller = Pick<Actor, "tenantId" | "principalId" | "ownerId" | "role" | "tokenId" | "expiresAt">;
type Deps = { store: Store<IdentityTables>; clock: Clock };

export class CredentialGuard {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Throws unless the caller of the running write may still act, and locks its credential until the commit. */
  assertCallerValid(db: AnyDatabase): Promise<void> | undefined {
    const actor = currentCaller();
    return actor === undefined ? undefined : this.#assertValid(db, actor);
  }

  /**
   * The same for many callers: a fault or `undefined` for each, in the same order. Called within a write; its statements are
   * sent together.
   */
  async findFaults(db: AnyDatabase, callers: readonly Caller[]): Promise<(Fault | undefined)[]> {
    const credentials = new CredentialStore(db);
    const rows = new Map<Caller, CredentialRow | undefined>();
    if (this.#deps.store.dialect === "sqlite") {
      // There is one writer at a time, so no lock is needed.
      await Promise.all(callers.map(async (caller) => {
        rows.set(caller, await credentials.find(caller.tenantId, credentialKeyOf(caller)));
      }));
    } else {
      const shared = credentials.lockShared(callers.flatMap(lockNamesOf));
      await Promise.all([
        shared,
        ...[...Map.groupBy(callers, ({ tenantId }) => tenantId)].map(async ([tenantId, own]) => {
          const found = await credentials.findMany(tenantId, own.map(credentialKeyOf));
          for (const [n, caller] of own.entries()) rows.set(caller, found[n]);
        }),
      ]);
    }
    const now = this.#deps.clock.now();
    return callers.map((caller) => faultOf(caller, rows.get(caller), now));
  }

  async #assertValid(db: AnyDatabase, actor: Actor): Promise<void> {
    const [fault] = await this.findFaults(db, [actor]);
    if (fault !== undefined) throw fault;
  }
}

/** To be called before a change that ends credentials: waits for the writes that rely on them. */
export async function lockCredential(
  { db }: Pick<Transaction<IdentityTables>, "db">,
  { dialect }: Pick<Store<IdentityTables>, "dialect">,
  name: string,
): Promise<void> {
  if (dialect === "postgres") await new CredentialStore(db).lockExclusive([name]);
}

/** Publishes that a token was revoked: closes its sockets and invalidates caches. Without an actor, the gateway revoked it. */
export async function publishTokenRevoked(
  tx: Transaction<IdentityTables>,
  { tenantId, principalId, tokenId }: { tenantId: string; principalId: string; tokenId: string },
  actor?: Actor,
): Promise<void> {
  await tx.emit({
    tenantId,
    stream: principalStream(principalId),
    type: "token.revoked",
    actor,
    data: { tokenId },
    effect: { kind: "disconnect", tokenId, reason: "token revoked" },
  });
  tx.signal(principalChanged.create(tenantId, principalId));
}

export function principalLock(tenantId: string, principalId: string): string {
  return `${tenantId} principal ${principalId}`;
}

export function tokenLock(tenantId: string, tokenId: string): string {
  return `${tenantId} token ${tokenId}`;
}

function lockNamesOf({ tenantId, principalId, ownerId, tokenId }: Caller): string[] {
  return [
    principalLock(tenantId, principalId),
    ...ownerId === null ? [] : [principalLock(tenantId, ownerId)],
    ...tokenId === undefined ? [] : [tokenLock(tenantId, tokenId)],
  ];
}

function credentialKeyOf({ principalId, tokenId = "" }: Caller): CredentialKey {
  return { principalId, tokenId };
}

function faultOf({ role: callerRole, tokenId, expiresAt }: Caller, row: CredentialRow | undefined, now: number) {
  if (row === undefined || row.role === null) return new Fault("token_revoked", "The principal no longer exists");
  if (row.is_disabled === 1) return new Fault("token_revoked", "The principal is disabled");
  const isOwned = row.kind === "agent" && row.owner_id !== null;
  if (isOwned && row.owner_disabled !== 0) return new Fault("token_revoked", "The owner of the agent no longer exists");
  const isRevoked = tokenId !== undefined &&
    (isStoredTokenId(tokenId) ? row.stored_token_id === null : row.revoked_jti !== null);
  if (isRevoked) return new Fault("token_revoked", "The token was revoked");
  if (expiresAt !== undefined && expiresAt <= now) return new Fault("token_expired", "The token has expired");
  const role = isOwned && row.owner_role !== null ? lowerOf(TENANT_ROLES, row.role, row.owner_role) : row.role;
  if (isAtLeast(TENANT_ROLES, role, callerRole)) return undefined;
  return new Fault("forbidden", `The tenant role of the caller changed to ${role} during the call; retry`);
}
