// Tokens of people who were erased: one that is still valid does not create its subject again.
import { hashText } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { IdentityStore } from "./store.ts";

type Token = { sub: string; iat?: number | undefined };

/** Throws for a token from before the erasure of its subject. A later one makes a new principal, with nothing of the old. */
export async function assertNotErased(db: AnyDatabase, tenantId: string, token: Token): Promise<void> {
  const erasedAt = await new IdentityStore(db).erasedAt(tenantId, digestOfErased(tenantId, token.sub));
  if (erasedAt === undefined || isIssuedAfter(token, erasedAt)) return;
  throw new Fault("token_revoked", "The principal was erased after the token was issued");
}

/** Whether the token says that it was issued after a time, such as that when its principal was created. */
export function isIssuedAfter({ iat }: Pick<Token, "iat">, at: string): boolean {
  return iat !== undefined && iat * 1000 > Date.parse(at);
}

/** What remains of the id of somebody who was erased. */
export function digestOfErased(tenantId: string, id: string): string {
  return hashText(`erased ${tenantId} ${id}`);
}
