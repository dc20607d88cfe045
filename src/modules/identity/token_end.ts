// The end of a token, told to whoever relies on it.
import type { Actor } from "@/core/actor.ts";
import { principalStream } from "@/core/event.ts";
import type { Transaction } from "@/ports/store.ts";
import type { IdentityTables } from "./store.ts";

/** Closes the sockets of a token, and makes every node forget whom it stood for. Without an actor the gateway ended it. */
export async function tellTokenEnded(
  tx: Transaction<IdentityTables>,
  { tenantId, principalId, tokenId }: { tenantId: string; principalId: string; tokenId: string },
  actor?: Actor,
): Promise<void> {
  await tx.emit({
    tenantId,
    stream: principalStream(principalId),
    type: "token.revoked",
    ...(actor === undefined ? {} : { actor }),
    data: { tokenId },
    effect: { kind: "disconnect", tokenId, reason: "token revoked" },
  });
  tx.signal({ kind: "principal", tenantId, id: principalId });
}
