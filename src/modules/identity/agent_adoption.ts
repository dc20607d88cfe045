// Agents of archives whose owners are not there.
import type { Transaction } from "@/ports/store.ts";
import { IdentityStore, type IdentityTables, principalChanged } from "./store.ts";

/** Gives the agent to `ownerId` if its owner does not exist, or cannot own agents; returns the id of the owner that it has then. */
export async function adoptAgent(
  tx: Transaction<IdentityTables>,
  tenantId: string,
  id: string,
  ownerId: string,
): Promise<string> {
  const identities = new IdentityStore(tx.db);
  const before = (await identities.principal(tenantId, id))?.owner_id ?? null;
  const owner = before === null ? undefined : await identities.principal(tenantId, before);
  if (owner !== undefined && owner.kind !== "agent") return owner.id;
  await identities.updatePrincipal(tenantId, id, { owner_id: ownerId });
  tx.signal(principalChanged.create(tenantId, id));
  return ownerId;
}
