// What hooks and commands of rooms have in common: each belongs to a room, is changed by its moderators, and posts as a principal.
import { type Actor, chargedTo, scopesOf } from "@/core/actor.ts";
import { runOnAccount } from "@/core/caller.ts";
import type { Clock } from "@/core/clock.ts";
import type { CpuAccount, CpuBudget } from "@/core/cpu_budget.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { WriteBudget } from "@/core/write_budget.ts";
import { changeProfile } from "@/modules/identity/mod.ts";
import type { RoomAccess, RoomMembers } from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";

/** Loads what belongs to a room and locks the room, for a moderator; `not_found` if the caller does not see the room. */
export async function changeInRoom<Row extends { room_id: string }, Result>(
  tx: AnyTransaction,
  { roomAccess, context, what }: { roomAccess: RoomAccess; context: Context; what: string },
  { find, work }: { find: () => Promise<Row | undefined>; work: (row: Row) => Promise<Result> },
): Promise<Result> {
  const found = await find();
  if (found === undefined || await roomAccess.find(context.actor, found.room_id, tx.db) === undefined) {
    throw notFound(what);
  }
  await roomAccess.requireForUpdate(tx, context, found.room_id, "moderator");
  const row = await find();
  if (row === undefined) throw notFound(what);
  return await work(row);
}

/** Disables the principal of what is deleted, and removes it from the room; its messages remain. */
export async function retireHookPrincipal(
  tx: AnyTransaction,
  { clock, members }: { clock: Clock; members: Pick<RoomMembers, "remove"> },
  context: Context,
  { tenantId, principalId, roomId }: { tenantId: string; principalId: string; roomId: string },
): Promise<void> {
  await changeProfile(tx, clock, { tenantId, id: principalId }, { isDisabled: true });
  await members.remove(context, { id: roomId, principalId, ban: false }).catch((thrown) => {
    // Somebody removed it from the room before.
    if (!(thrown instanceof Fault) || thrown.code !== "not_found") throw thrown;
  });
}

/** Disables the principals of what ends with its room. */
export async function disablePrincipals(
  tx: AnyTransaction,
  clock: Clock,
  rows: readonly Pick<HookPrincipal, "tenant_id" | "principal_id">[],
): Promise<void> {
  for (const { tenant_id: tenantId, principal_id: id } of rows) {
    await changeProfile(tx, clock, { tenantId, id }, { isDisabled: true });
  }
}

type HookPrincipal = {
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

/** The principal as it posts: bounded by who is responsible for it, and charged to that one. */
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

/** Runs what is asked for without a token, where the address is the credential, at the cost of who is responsible. */
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
