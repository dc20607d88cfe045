// Who may do what with a webhook. Its creator manages it; admins of the tenant list, disable and delete all.
import { type Actor, isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { WebhookRow } from "./tables.ts";

export function isTenantAdmin({ role }: Actor): boolean {
  return isAtLeast(TENANT_ROLES, role, "admin");
}

/** The webhook, if the caller may see it. */
export function assertVisible(actor: Actor, row: WebhookRow | undefined): WebhookRow {
  if (row === undefined || row.creator_id !== actor.principalId && !isTenantAdmin(actor)) throw notFound("webhook");
  return row;
}

/** The webhook, if the caller created it: deliveries show what its creator may read. */
export function assertOwn(actor: Actor, row: WebhookRow | undefined): WebhookRow {
  const visible = assertVisible(actor, row);
  if (visible.creator_id === actor.principalId) return visible;
  throw new Fault("forbidden", "Only its creator can do this; an admin can disable or delete the webhook");
}

/** Throws unless the caller may have events of these rooms delivered: of all its rooms as an admin of the tenant, else as a moderator. */
export async function assertMayFollow(
  tx: AnyTransaction,
  roomAccess: RoomAccess,
  context: Context,
  roomIds: readonly string[] | null,
): Promise<void> {
  const isAdmin = isTenantAdmin(context.actor);
  if (roomIds === null) {
    if (isAdmin) return;
    throw new Fault("forbidden", "A webhook of all rooms requires the tenant role admin; name rooms in roomIds");
  }
  // In the order of their ids, as rooms are locked everywhere.
  for (const roomId of [...roomIds].sort()) {
    await roomAccess.require(context, roomId, { tx, least: isAdmin ? "observer" : "moderator" });
  }
}
