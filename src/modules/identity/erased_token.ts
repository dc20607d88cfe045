// Tokens of people who were erased: one that is still valid does not create its subject again.
import { hashText } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { IdentityStore } from "./store.ts";

/** Throws for a token that was issued before its subject was erased. A later one makes a new principal, which has nothing of the old one. */
export async function assertNotErased(
  db: AnyDatabase,
  tenantId: string,
  { sub, iat }: { sub: string; iat?: number | undefined },
): Promise<void> {
  const erasedAt = await new IdentityStore(db).erasedAt(tenantId, digestOfErased(tenantId, sub));
  if (erasedAt === undefined || (iat !== undefined && iat * 1000 > Date.parse(erasedAt))) return;
  throw new Fault("token_revoked", "The principal was erased after the token was issued");
}

/** What remains of the id of somebody who was erased. */
export function digestOfErased(tenantId: string, id: string): string {
  return hashText(`erased ${tenantId} ${id}`);
}
