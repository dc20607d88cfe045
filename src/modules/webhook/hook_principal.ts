// What hooks and commands of rooms have in common: each belongs to a room, is changed by its moderators, and posts as a principal.
import type { Clock } from "@/core/clock.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { changeHookPrincipal } from "@/modules/identity/mod.ts";
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
  await changeHookPrincipal(tx, clock, { tenantId, id: principalId }, { isDisabled: true });
  await members.remove(context, { id: roomId, principalId, ban: false }).catch((thrown) => {
    // Somebody removed it from the room before.
    if (!(thrown instanceof Fault) || thrown.code !== "not_found") throw thrown;
  });
}
