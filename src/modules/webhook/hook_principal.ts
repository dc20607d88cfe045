// Principals of hooks and commands of rooms, as which they post.
import { type Actor, chargedTo, scopesOf } from "@/core/actor.ts";
import { runOnAccount } from "@/core/caller.ts";
import type { CpuAccount, CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { WriteBudget } from "@/core/limit/write_budget.ts";

export type HookPrincipal = {
  tenant_id: string;
  principal_id: string;
  responsible_id: string;
  display_name: string;
  scopes: string | null;
};

/** What messages of the principal may start, such as runs of agents: what the token could that gave it its address. */
export function hookScopes({ scopes }: Pick<HookPrincipal, "scopes">): Actor["scopes"] {
  const given = scopesOf(scopes);
  // To post in its room is what it is for.
  return given && new Set([...given, "message.write"]);
}

/** The principal as it posts: bounded by the person who is responsible for it, and charged to that person. */
export function hookActor(row: HookPrincipal): Actor {
  return {
    tenantId: row.tenant_id,
    principalId: row.principal_id,
    kind: "service",
    role: "guest",
    displayName: row.display_name,
    ownerId: row.responsible_id,
    scopes: hookScopes(row),
    tokenId: undefined,
    expiresAt: undefined,
  };
}

/** Runs what is asked for without a token, where the address is the credential, at the cost of the person who is responsible. */
export async function runCharged<Result>(
  { cpu, writeBudget }: { cpu: CpuBudget; writeBudget: WriteBudget },
  actor: Actor,
  work: (account: CpuAccount) => Promise<Result>,
): Promise<Result> {
  const account = cpu.accountOf(actor);
  return await runOnAccount(account, async () => {
    writeBudget.assertAvailable(chargedTo(actor));
    return await work(account);
  });
}
